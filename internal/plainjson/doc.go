// Package plainjson reads JSON in the form written by encoding/json: without space between tokens, and with each key
// once, spelled as in the Go type. Reading takes one pass, and is several times as fast as encoding/json.
//
//	line ──Reader──▶ value
//	         └─ false: another form, or not for that type ──encoding/json──▶ value or error
//
// # Invariants
//
//   - If a Reader accepts a text, encoding/json also accepts it and returns the same value. Fuzz tests and mutated
//     journals check this.
//   - A text that a Reader rejects may still be valid JSON.
//   - A value does not share memory with the text, except for json.RawMessage, which is a part of the text.
//
// # Imports
//
// The package is pure: it does not do I/O, read a clock or start goroutines. Package fsm reads the journal with it.
package plainjson
