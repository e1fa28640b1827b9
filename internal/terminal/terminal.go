package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Writer is a writer for text that can quote untrusted files. It escapes control characters, except tabs and line
// feeds, and characters that change the direction of text. JSON keeps its meaning.
type Writer struct {
	To   io.Writer
	rest []byte // the beginning of a character that the next Write continues
}

// Write implements io.Writer.
func (t *Writer) Write(p []byte) (int, error) {
	data := slices.Concat(t.rest, p)
	end := len(data)
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if tail := data[len(data)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				end -= n
			}
			break
		}
	}
	t.rest = slices.Clone(data[end:])
	if _, err := io.WriteString(t.To, Escaped(string(data[:end]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Escaped returns text as Writer writes it.
func Escaped(text string) string {
	if !strings.ContainsFunc(text, steers) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text { // an invalid byte becomes U+FFFD
		if steers(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// steers reports whether a character can control a terminal, or change the order of the text around it.
func steers(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}
