// Package connlimit limits the connections of a listener, fairly between sources. A source is an IPv4 address, or the
// /64 network of an IPv6 address.
//
// Tries counts other events by the same sources.
//
// # Replaced connections
//
// A connection waits while the server needs more bytes of a request: before and between requests, and in the middle of
// a head or body. When Limits.Total is reached, a new connection replaces the longest-waiting connection of the source
// with the most connections. If all connections are busy, the new connection replaces the newest connection of a source
// that has at least two connections more than the new connection's source. Otherwise it is refused. When the limit of a
// source is reached, a new connection of that source can replace only a waiting connection of the same source.
//
// Therefore the server still serves clients that send their requests at once, even if other clients keep connections
// open without sending a request, and one source cannot exclude another source.
//
// Only an HTTP server knows which connections wait. It reports them through Limiter.State, Context and Handler. Without
// these reports, for example in a relay of bytes, connections never count as waiting.
//
// # Failure policy
//
// Replaced and refused connections are reset, so that the kernel does not keep them in TIME_WAIT. Accept returns the
// errors of the inner listener.
//
// The package does not start goroutines. A Limiter is safe for concurrent use, and several listeners can use the same
// Limiter.
package connlimit
