// Package plaintext reads foreign text within bounds: it is the one place that removes terminal control and
// characters that nobody sees, finds literals in one pass, and cuts what is quoted to one line.
//
// Invariant: a clean text is valid UTF-8 of at most 256 KiB without control characters; the cost of every function is
// linear in its input.
// Imports: the standard library.
package plaintext
