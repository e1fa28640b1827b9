package plaintext

import (
	"strings"
	"unicode/utf8"
)

// Sizes of what is looked at.
const (
	maxText  = 256 << 10 // bytes per stream, the newest: four times the longest message on the bus
	MaxLine  = 2 << 10   // bytes around a literal that an expression sees; more is structured data, not a sentence
	MaxCause = 300       // bytes; what fits on a line of an issue comment
)

// Clean returns the newest maxText bytes of s as valid UTF-8 without terminal control.
func Clean(s string) string {
	if len(s) > maxText {
		s = s[len(s)-maxText:]
	}
	return WithoutControl(strings.ToValidUTF8(s, "?"))
}

// OneLine returns s as one line of at most MaxCause bytes, cut at a character's boundary and marked when cut.
func OneLine(s string) string {
	if len(s) > 8*MaxCause {
		s = s[:8*MaxCause]
	}
	s = strings.Join(strings.Fields(Clean(s)), " ")
	if len(s) <= MaxCause {
		return s
	}
	const mark = "..."
	cut := MaxCause - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.TrimRight(s[:cut], " ") + mark
}

// LastLine returns the last line of s that is not blank.
func LastLine(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// IsDigit reports whether b is a decimal digit.
func IsDigit(b byte) bool { return '0' <= b && b <= '9' }

// IsLetter reports whether b is an ASCII letter.
func IsLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

// IsWord reports whether b belongs to a word.
func IsWord(b byte) bool { return IsLetter(b) || IsDigit(b) || b == '_' }
