// Package wire is the language of the agent bus: one envelope, one Go type and one table row per message, and the
// subjects that they travel on.
//
// Invariant: two readers of messages agree. The fast one (plain) takes one pass over plain messages, and all our
// senders write such messages. The slow one reads all others, and explains refusals. Tests compare them.
//
// Invariant: Encode and Decode enforce the same rules. Every required field is present, and every value is within its
// range. Encode refuses every message that Decode would refuse.
//
// Clock assumption: none. Times are values that the caller passes in; on the wire they are RFC 3339, UTC, milliseconds.
//
// Failure policy: an unreadable message gives a *Malformed with a Cause from a closed list and a detail that names the
// field, so that the author of the message can act on it. Decode never panics. Unknown fields are ignored and stay in
// Envelope.Raw, because a newer minor version may add fields.
//
// The package is pure: no I/O, clock, goroutine, channel, context, randomness or logging, and no result depends on the
// order of a map. It imports the standard library only, and everybody may import it.
package wire
