// Package loglines restores the original lines of a text, so that formatting does not affect the classification. It
// joins lines that a terminal wrapped, expands quoted JSON strings, and removes loggers' prefixes (time, level, source
// position).
//
//	clean text ──unbox, unwrap──▶ lines ──unquote──▶ lines ──parse──▶ messages, each with its level
//
// Each row in forms.go describes one format of log lines. Invariants: the cost is linear in the length of the text, and
// plain text passes through unchanged. Imports: the standard library and package plaintext.
package loglines
