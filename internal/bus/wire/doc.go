// Package wire defines the subjects and messages of the agent bus. All messages share one envelope. Each has a Go type
// and a row in the table of messages.
//
// Invariant: the two readers of messages give the same results, which tests compare. The fast reader (plain) reads, in
// one pass, messages in the form that Retake's programs write. The slow reader handles all others, and explains its
// refusals.
//
// Invariant: Encode and Decode enforce the same rules. Every required field is present, and every value is within its
// range. Encode refuses every message that Decode would refuse.
//
// Clock: callers pass in all times. On the wire, a time is RFC 3339 in UTC with milliseconds.
//
// Failure policy: Decode rejects an invalid message with a *Malformed, which has a Cause from a closed list, and a
// detail that names the field for the author of the message. Decode never panics. It ignores unknown fields, because a
// newer minor version may add some, and leaves them in Envelope.Raw.
//
// The package is pure: it has no I/O, clock, goroutine, channel, context, randomness or logging, and its results do
// not depend on the order of a map. It imports only the standard library, and any package may import it.
package wire
