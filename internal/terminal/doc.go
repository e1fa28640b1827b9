// Package terminal writes text that can quote untrusted files to a terminal.
//
// Invariant: no output can move the cursor, change the terminal's state, or reorder the text around it. Errors of the
// underlying writer are returned unchanged. Imports: the standard library.
package terminal
