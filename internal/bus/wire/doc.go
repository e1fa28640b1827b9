// Package wire defines the messages of the agent bus. It has one envelope, one Go type and one table row per message,
// and the subjects.
//
// Invariant: the two readers of messages agree, and tests compare them. The fast one (plain) reads plain messages in
// one pass, and all senders of this project write such messages. The slow one reads all other messages, and explains
// refusals.
//
// Invariant: Encode and Decode enforce the same rules. Every required field is present, and every value is within its
// range. Encode refuses every message that Decode would refuse.
//
// The package uses no clock. Callers pass in all times. On the wire they are RFC 3339, in UTC, with milliseconds.
//
// Failure policy: an unreadable message causes a *Malformed. It has a Cause from a closed list, and a detail that names
// the field for the author of the message. Decode never panics. Unknown fields are ignored and stay in Envelope.Raw,
// because a newer minor version may add fields.
//
// The package is pure. It has no I/O, clock, goroutine, channel, context, randomness or logging, and results do not
// depend on the order of a map. It imports only the standard library, and any package may import it.
package wire
