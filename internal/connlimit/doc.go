// Package connlimit limits the connections of a listener, fairly between sources. A source is an IPv4 address, or the
// /64 network of an IPv6 address.
//
// # Who gives way
//
// A connection waits while the server needs more bytes of a request: before and between requests, and in the middle of
// a head or body. When the listener is full, a newcomer replaces the longest-waiting connection of the source with the
// most connections. If none waits, it replaces the newest connection of a source that has at least two more than its
// own. Otherwise it is refused. So a client that sends its request at once is served while others hold back theirs, and
// a source cannot exclude another source.
//
// Only an HTTP server knows which connections wait: it reports them through Limiter.State,
// Context and Handler. Without reports, as in a
// relay of bytes, no connection waits.
//
// # Failure policy
//
// Replaced and refused connections are reset, so that they do not occupy the kernel in TIME_WAIT. Errors of the
// listener are passed on.
//
// The package has no goroutine. A Limiter may be shared by several listeners and is safe for concurrent use.
package connlimit
