// Package wire is the language of the agent bus: one envelope, one Go type and one table row per message, and the
// subjects that they travel on.
//
// Invariant: there are two ways to read a message, and they agree: one pass over what is written plainly, which
// is what every sender of ours writes (plain), and a slow one over everything else, which knows why it is
// refused. Tests hold them against each other.
//
// Invariant: whatever Decode hands out satisfies the same rules as what Encode lets through: every required field was
// present, every value is within its range. Encode refuses to send what Decode would refuse to read.
//
// Clock assumption: none. Times are values that the caller passes in; on the wire they are RFC 3339, UTC, milliseconds.
//
// Failure policy: what cannot be read is a *Malformed with a Cause from a closed list and a detail that names
// the field, so that the author of the message can act on it. Decode never panics, whatever the bytes. Unknown
// fields are ignored and stay in Envelope.Raw; a newer minor version may add them.
//
// The package is pure: no I/O, clock, goroutine, channel, context, randomness or logging, and no result depends on the
// order of a map. It imports the standard library only, and everybody may import it.
package wire
