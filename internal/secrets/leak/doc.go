// Package leak finds secret values in untrusted text in any encoding: plain, base64, base32, hexadecimal, lists of
// bytes, percent-encoded, full or partial escapes of JSON, shells and HTML, UTF-16, reversed, split over lines and
// literals, or mixed with invisible characters.
//
// It reduces text and values to lower-case letters and digits: unchanged, with escapes resolved, and with doubly
// encoded percent signs resolved. Every encoding of a value then is a plain string. All of them are searched for at
// once, by a rolling hash of the last eight symbols and a comparison where it fits.
//
// Redactor builds a redact.Redactor with this search, for all text that people read. A Stream holds back a possible
// start of a value until the next input decides.
//
// Variable decides which part of a variable is secret. A proxy's address and "true" are not.
//
// Invariants:
//
//   - A text is read three times at most. The memory of a search depends on the values only, not on the text.
//   - Find does not match the output of Mask.
//   - A value with too few letters and digits is matched as redact spells it, and in sufficiently long encodings.
//
// It does not find values that are encrypted, compressed, encoded twice, or interleaved with other text.
//
// The package is pure: no I/O, clock, goroutine or randomness. A Finder is never changed, and may be used by
// many goroutines.
package leak
