// Package loglines restores the original lines of a text: it joins lines wrapped by a terminal, expands quoted JSON
// strings, and removes the prefix of a logger (time, level, place). Formatting then does not affect the classification.
//
//	clean text ──unbox, unwrap──▶ lines ──unquote──▶ lines ──parse──▶ messages, each with its level
//
// A shape of log lines is one row of forms.go. Invariants: the cost is linear in the text. Plain text passes unchanged.
// Imports: the standard library and package plaintext.
package loglines
