// Package egress is the proxy between workers and the internet: for workers whose network lets nothing else
// pass, and for keys that agents are not to hold.
//
// # Invariants
//
// Nobody is served who does not sign in with the token of an attempt that is under way. An attempt reaches a
// host by name if Options.Hosts has it, at one of its ports, and if the name means a public address: the
// address that was looked at is the one that is dialled, so that a name whose meaning changes in between gains
// nothing. An address without a name is no host; Options.Doors are reached as they are.
//
//	CONNECT name:443                        a tunnel; what is in it is between its ends
//	GET http://name/…                       passed on, without what is between the worker and the proxy
//	/ANTHROPIC_API_KEY/v1/messages          by TLS to the host that Options.Keys names for it, with the key in the place of the attempt's token
//
// What a tunnel's own TLS asks for is not looked at: whoever allows a name of a server with many others allows
// those it lets in through this one.
//
// # Tokens
//
// A token is a keyed hash of the attempt's name: nothing is stored, and a director that starts anew knows those
// of the workers it adopts. It is worth something from Admit to Dismiss, which also ends what is open.
//
// # Bounds
//
// Connections in all, of one address, and of one attempt; the heads of requests; the time without a byte in a
// tunnel; the hosts that are remembered as denied. A tunnel holds two buffers.
//
// # Failure policy
//
// Nothing is retried. A host that is denied is logged once for each attempt, and told by Denied; 403 says to
// the worker what was not allowed, 502 that a host did not answer.
package egress
