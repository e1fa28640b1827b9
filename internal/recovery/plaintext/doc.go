// Package plaintext processes untrusted text at bounded cost. It removes terminal control sequences and invisible
// characters, finds literals in one pass, and shortens quotes to one line.
//
// Invariant: a clean text is valid UTF-8 of at most 256 KiB without control characters other than tabs and line feeds.
// The cost of every function is linear in the size of its input. Imports: the standard library.
package plaintext
