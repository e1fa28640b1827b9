// Package leak finds secret values in untrusted text in any encoding. A value may be plain, in base64, base32,
// hexadecimal or UTF-16, a list of bytes, or percent-encoded. It may be fully or partially escaped for JSON, shells or
// HTML. It may also be reversed, split over lines and literals, or mixed with invisible characters.
//
// The package reduces text and values to lower-case letters and digits in three ways: unchanged, with escapes resolved,
// and with doubly encoded percent signs resolved. Each encoding of a value is then a plain string. A rolling hash of
// the last eight symbols finds candidates for all these strings at once, and a comparison confirms them.
//
// Redactor builds a redact.Redactor with this search, for all text that people read. A Stream holds back text that may
// be the start of a value until it has read enough to decide.
//
// Variable decides whether a variable's value is secret. For example, a proxy address is not secret, and neither is the
// word "true".
//
// Invariants:
//
//   - A search reads a text at most three times. Its memory depends only on the values.
//   - Find does not match the output of Mask.
//   - Find matches a value with too few letters and digits only in the spellings known to package redact, and in
//     sufficiently long encodings.
//
// The package does not find values that are encrypted, compressed, encoded twice, or interleaved with other text.
//
// The package is pure: no I/O, clock, goroutine or randomness. A Finder is immutable and safe for concurrent use.
package leak
