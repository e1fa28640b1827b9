package prose

import (
	"strings"
	"unicode"

	"retake/internal/recovery/plaintext"
)

// Printable returns text as valid UTF-8, without control characters or characters that change its direction.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Bidi_Control) || r == '\u2028' || r == '\u2029' {
			return -1
		}
		return r
	}, plaintext.WithoutControl(strings.ToValidUTF8(text, "\uFFFD")))
}
