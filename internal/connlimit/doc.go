// Package connlimit limits a listener's connections and shares them fairly among sources. A source is an IPv4 address,
// or the /64 network of an IPv6 address.
//
// Tries limits other events per source.
//
// # Replaced connections
//
// A connection waits while the server needs more bytes of a request: before and between requests, and in the middle of
// a head or body. When Limits.Total is reached, a new connection replaces the longest-waiting connection of the source
// with the most connections. If all connections are busy, the new connection replaces the newest connection of a source
// that has at least two more connections than the new connection's source. Otherwise it is refused. When a source has
// reached its limit, a new connection from that source can replace only one of its waiting connections.
//
// The server therefore still serves clients that send their requests promptly, even if other clients keep connections
// open without sending a request. One source cannot shut out another.
//
// Only an HTTP server knows which connections are waiting. It reports them through Limiter.State, Context and Handler.
// Without these reports, for example in a byte relay, connections never count as waiting.
//
// # Failure policy
//
// Replaced and refused connections are reset, so that the kernel does not keep them in TIME_WAIT. Accept returns the
// inner listener's errors.
//
// The package does not start goroutines. A Limiter is safe for concurrent use, and several listeners can share one.
package connlimit
