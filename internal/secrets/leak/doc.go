// Package leak finds values that must not leave the machine in text that somebody else wrote, whichever way
// they are written there: as they are, in base64, base32, hexadecimal or as a list of bytes, percent-encoded or
// with the escapes of JSON, shells and HTML in whole or in part, as UTF-16, backwards, split over lines and
// literals, with invisible characters in between.
//
// Text and values are reduced to letters and digits in lower case, once as they stand, once with escapes
// resolved, and once more where a percent sign is encoded itself; so every encoding of a value is a plain
// string. All of them are searched for at once, by a rolling hash of the last eight symbols and a comparison
// where it fits.
//
// Redactor makes a redact.Redactor of such a search: everything that people read goes through one. In a Stream
// what may be the beginning of a value is held back until it is known to be none.
//
// It says too what of a variable is a secret (Variable): a proxy's address or "true" is none.
//
// Invariants:
//
//   - A text is read three times at most. The memory of a search depends on the values only, not on the text.
//   - What was hidden by Mask is not found again.
//   - A value that has too few letters and digits to be told from ordinary text without its other characters is found as redact spells it,
//     and in those encodings that are long enough.
//
// What is encrypted, compressed, encoded twice or cut in parts with other text in between is not found.
//
// The package is pure: no I/O, clock, goroutine or randomness. A Finder is never changed, and may be used by
// many goroutines.
package leak
