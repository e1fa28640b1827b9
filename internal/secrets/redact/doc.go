// Package redact replaces secrets in text. The worker, GitHub comments, git errors, configuration messages, audit files
// and logs all use this package, so they recognise the same secrets.
//
// It combines three methods. It finds known values in common spellings (quoted, URL-escaped, base64), or with a Finder
// (package leak) in every encoding, even spread over the lines of a stream. It finds well-known credentials by their
// shapes, with Retake's own rules (rules.go) and the rules of gitleaks (table.go, generated). And it guesses from the
// name in front of a value (names.go). It keeps token counts, commit ids, session ids, digests and paths, because they
// are not secret and people need them. docs/specs/redaction.md lists the secrets that it finds.
//
// One pass over a text finds the keys of all rules (scan.go), and patterns are tried only near a key. Each pattern is
// compiled on first use.
//
// Invariants:
//
//   - Marker replaces a whole match. Redacting again is harmless.
//   - Callers redact text before they cut it, because part of a secret does not match. For text that was already cut,
//     Cut also finds partial secrets at both ends.
//   - A Writer holds back any possible start of a secret.
//   - A nil *Redactor works without known values.
//
// The package is pure: no I/O, clock, goroutine or randomness. It imports only the standard library, because it is part
// of the worker, which runs in every container.
package redact
