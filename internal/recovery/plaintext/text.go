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

// Clean returns the newest maxText bytes of s as valid UTF-8 without terminal control: escape sequences (whole or
// cut off) and control characters are dropped, a carriage return ends a line. A clean text is returned as it is.
func Clean(s string) string {
	if len(s) > maxText {
		s = s[len(s)-maxText:]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	first := 0
	for first < len(s) && !control[s[first]] {
		first++
	}
	if first == len(s) {
		return s
	}
	out := append(make([]byte, 0, len(s)), s[:first]...)
	for i := first; i < len(s); {
		switch c := s[i]; {
		case !control[c]:
			out = append(out, c)
		case c == 0x1b:
			i += escapeLen(s[i:])
			continue
		case c == '\r':
			out = append(out, '\n')
		}
		i++
	}
	return string(out)
}

// control are the bytes that no clean text holds.
var control = func() (is [256]bool) {
	for c := range byte(' ') {
		is[c] = c != '\n' && c != '\t'
	}
	is[0x7f] = true
	return is
}()

// escapeLen returns the length of the terminal sequence at the start of s, which begins with ESC.
func escapeLen(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[': // CSI: parameters, then a final byte
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < ' ' || s[i] > 0x7e {
				return i
			}
		}
		return len(s)
	case ']': // OSC: up to BEL or ESC \; an unended one ends with its line
		for i := 2; i < len(s); i++ {
			switch s[i] {
			case 0x07:
				return i + 1
			case 0x1b:
				return min(i+2, len(s))
			case '\n':
				return i
			}
		}
		return len(s)
	}
	_, n := utf8.DecodeRuneInString(s[1:])
	return 1 + n
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
