// Package redact replaces secrets in text. The worker, the comments on GitHub, git's errors, the
// configuration's messages, the audit files and the logs all use it, so what one of them recognises, all of
// them do.
//
// It knows three things: the values it was given, in the spellings that output commonly gives them (quoted,
// URL-escaped, base64), or with a Finder (package leak) in every encoding, also where a stream spreads one over
// lines; the shapes of well-known credentials, our own rows (rules.go) and the rules of gitleaks (table.go,
// generated); and guesses by the name that stands in front of a value (names.go). Numbers of tokens, ids of
// commits and sessions, digests and paths are left as they are: they are not secret, and people want to read
// them. docs/specs/redaction.md says what is found.
//
// A text is read once for the keys of all rules (scan.go); only where one stands is a pattern tried. Patterns
// are compiled when they are needed first.
//
// Invariants:
//
//   - What is found is replaced by Marker, as a whole. Redacting again does no harm.
//   - Redaction comes before any cut, because half a secret matches nothing. For text that somebody else cut already there
//     is Cut, which also looks for halves at both ends.
//   - A Writer passes nothing on that could be the beginning of a secret.
//   - A nil *Redactor knows no values, and works.
//
// The package is pure: no I/O, clock, goroutine or randomness. It imports the standard library only, because the worker
// links it, which is copied into every container.
package redact
