// Package egress is the proxy between workers and the internet. It serves workers on restricted networks, and hides API
// keys from agents.
//
// # Invariants
//
// Clients sign in with the token of a running attempt. An attempt may reach a host by name if Options.Hosts lists the
// name and port and the name resolves to a public address. The proxy dials the address that it checked, so DNS
// rebinding does not help an attacker. IP addresses are refused as hosts. Options.Doors are reached without these
// checks.
//
//	CONNECT name:443                        a tunnel; its content is opaque
//	GET http://name/…                       forwarded without the hop-by-hop headers
//	/ANTHROPIC_API_KEY/v1/messages          over TLS to the host in Options.Keys, with the real key
//
// The proxy does not inspect the TLS inside a tunnel. Allowing one name on a shared server allows every other name on
// that server.
//
// A key travels only in a header. The proxy asks the provider for unencoded answers and masks every key in their
// headers and text, because some providers echo requests. It holds back only text that might be the start of a key.
//
// # Tokens
//
// A token is a keyed hash of the attempt's name. The proxy does not store tokens, and a restarted director recomputes
// the tokens of adopted workers. A token is valid from Admit to Dismiss. Dismiss also closes open connections.
//
// # Bounds
//
// Limits apply to the total number of connections (see connlimit), the requests and tunnels of an attempt, the size of
// request heads, idle time in a tunnel, and the number of remembered denied hosts. A tunnel holds two buffers. The
// proxy closes the connections of clients that have not signed in.
//
// # Failure policy
//
// The proxy does not retry. It logs each denied host once per attempt, and Denied returns the denied hosts. The worker
// gets 403 for a denied host, and 502 for a host that did not answer.
package egress
