// Package redact replaces secrets in text. The worker, the comments on GitHub, git's errors, the configuration's
// messages, the audit files and the logs share this package, so they all recognise the same secrets.
//
// It combines three methods. It finds known values in common spellings (quoted, URL-escaped, base64), or with a Finder
// (package leak) in every encoding, even spread over the lines of a stream. It finds well-known credentials by their
// shapes, with Retake's own rules (rules.go) and the rules of gitleaks (table.go, generated). And it guesses from the
// name in front of a value (names.go). It keeps token counts, commit ids, session ids, digests and paths, because they
// are not secret and people need them. docs/specs/redaction.md lists the secrets that it finds.
//
// One pass over a text finds the keys of all rules (scan.go), and patterns are tried only near a key. The first use of
// a pattern compiles it.
//
// Invariants:
//
//   - Marker replaces a whole match. Redacting again is harmless.
//   - Callers redact text before they cut it, because a part of a secret does not match. Cut handles text that was
//     already cut. It also finds partial secrets at both ends.
//   - A Writer holds back any possible start of a secret.
//   - A nil *Redactor works without known values.
//
// The package is pure: no I/O, clock, goroutine or randomness. It imports the standard library only, because it is a
// part of the worker, which every container gets.
package redact
