// Package wire defines the subjects and messages of the agent bus. All messages share one envelope. Each has a Go type
// and a row in the message table.
//
// Invariant: the fast and slow message readers give the same results, which tests compare. The fast reader (plain)
// parses messages in the form written by Retake's programs, in one pass. The slow reader handles all other messages,
// and explains why it rejects one.
//
// Invariant: Encode and Decode enforce the same rules. Every required field is present, and every value is within its
// range. Encode refuses every message that Decode would refuse.
//
// Clock: callers pass in all times. On the wire, a time is RFC 3339 in UTC with milliseconds.
//
// Failure policy: Decode rejects an invalid message with a *Malformed. It has a Cause from a closed list, and a detail
// that tells the author of the message which field is wrong. Decode never panics. It ignores unknown fields, because a
// newer minor version may add some, and leaves them in Envelope.Raw.
//
// The package is pure: it has no I/O, clock, goroutine, channel, context, randomness or logging, and its results do not
// depend on map order. It imports only the standard library and package circumstances. Any package may import it.
package wire
