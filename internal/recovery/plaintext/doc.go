// Package plaintext reads untrusted text at a limited cost. It removes terminal control sequences and invisible
// characters, finds literals in one pass, and cuts quotes to one line.
//
// Invariant: a clean text is valid UTF-8 of at most 256 KiB without control characters. The cost of every function is
// linear in its input. Imports: the standard library.
package plaintext
