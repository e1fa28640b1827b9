package plaintext

import (
	"strings"
	"unicode/utf8"
)

// Limits on input.
const (
	maxText  = 256 << 10 // bytes kept at the end of a text; four times the longest message on the bus
	MaxLine  = 2 << 10   // bytes around a literal that an expression reads; longer lines are data instead of sentences
	MaxCause = 300       // in bytes; fits on one line of an issue comment
)

// Clean returns the newest maxText bytes of s as valid UTF-8, without terminal control characters and sequences.
func Clean(s string) string {
	if len(s) > maxText {
		s = s[len(s)-maxText:]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	return WithoutControl(s)
}

// mark replaces cut text.
const mark = "..."

// OneLine returns s as one line of at most MaxCause bytes. A longer text is cut after a word, and marked.
func OneLine(s string) string {
	if len(s) > 8*MaxCause {
		s = s[:8*MaxCause]
	}
	s = joined(Clean(s))
	if len(s) <= MaxCause {
		return s
	}
	cut := MaxCause - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	if word := strings.LastIndexByte(s[:cut+1], ' '); word > cut-MaxCause/4 {
		cut = word
	}
	return strings.TrimRight(s[:cut], " ") + mark
}

// From cuts off the start of a long line. The result starts about half of MaxCause before the offset end, at the start
// of a sentence or else of a word.
func From(line string, end int) string {
	start := max(0, end-MaxCause/2)
	if start == 0 {
		return line
	}
	for start < len(line) && !utf8.RuneStart(line[start]) {
		start++
	}
	before := line[start:max(start, end-MaxCause/6)]
	for _, boundary := range []string{". ", "! ", "? ", `":"`, `": "`} {
		if i := strings.Index(before, boundary); i >= 0 {
			return line[start+i+len(boundary):]
		}
	}
	if i := strings.IndexAny(before, " \t,;\""); i >= 0 {
		start += i + 1
	}
	return mark + strings.TrimLeft(line[start:], " ")
}

// LastLine returns the last line of s that is not blank.
func LastLine(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// IsDigit reports whether b is a decimal digit.
func IsDigit(b byte) bool { return '0' <= b && b <= '9' }

// IsHex reports whether b is a hexadecimal digit.
func IsHex(b byte) bool { return IsDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' }

// IsLetter reports whether b is an ASCII letter.
func IsLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

// IsWord reports whether b is a letter, a digit or an underscore.
func IsWord(b byte) bool { return IsLetter(b) || IsDigit(b) || b == '_' }
