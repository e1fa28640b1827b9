// Package plainjson reads JSON in the form in which encoding/json writes it: no space between tokens, the keys
// of an object as the type has them, none twice. It does so in one pass, several times as fast.
//
//	line ──Reader──▶ value
//	         └─ false: written in another way, or not for that type: encoding/json reads it from the start, and has the last word
//
// # Invariants
//
//   - What a Reader accepts, encoding/json accepts, too, and makes the same value of it. Fuzzing and mutated journals compare the two.
//   - What it does not accept says nothing: it may be sound.
//   - A value shares no memory with the text, except for json.RawMessage, which is a part of it.
//
// # Imports
//
// It is pure: no I/O, clock or goroutine. Package fsm reads the journal with it.
package plainjson
