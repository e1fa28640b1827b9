// Package loglines reads the lines of a text as they were meant: what a terminal wrapped is joined, what was
// quoted as one JSON string is many lines again, and what a logger put before a message (time, level, place) is
// taken off. How a program's words were printed then changes nothing of how they are read.
//
//	clean text ──unbox, unwrap──▶ lines ──unquote──▶ lines ──parse──▶ messages, each with its level
//
// A shape of log lines is one row of forms.go. Invariants: the cost is linear in the text; a text that is not
// wrapped, quoted or logged is returned as it is. Imports: the standard library and package plaintext.
package loglines
