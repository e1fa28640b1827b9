package recovery

import (
	"strings"
	"unicode/utf8"
)

// Sizes of what is looked at.
const (
	maxText  = 256 << 10 // bytes per stream, the newest: four times the longest message on the bus
	maxLine  = 2 << 10   // bytes around a literal that an expression sees; more is structured data, not a sentence
	maxCause = 300       // bytes; what fits on a line of an issue comment
)

// cleanText returns the newest maxText bytes of s as valid UTF-8 without terminal control: escape sequences (whole or
// cut off) and control characters are dropped, a carriage return ends a line.
func cleanText(s string) string {
	if len(s) > maxText {
		s = s[len(s)-maxText:]
	}
	s = strings.ToValidUTF8(s, "?")
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == 0x1b:
			i += escapeLen(s[i:])
			continue
		case c == '\r':
			out = append(out, '\n')
		case c >= ' ' && c != 0x7f || c == '\n' || c == '\t':
			out = append(out, c)
		}
		i++
	}
	return string(out)
}

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

// oneLine returns s as one line of at most maxCause bytes, cut at a character's boundary and marked when cut.
func oneLine(s string) string {
	if len(s) > 8*maxCause {
		s = s[:8*maxCause]
	}
	s = strings.Join(strings.Fields(cleanText(s)), " ")
	if len(s) <= maxCause {
		return s
	}
	const mark = "..."
	cut := maxCause - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.TrimRight(s[:cut], " ") + mark
}

// lastLine returns the last line of s that is not blank.
func lastLine(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}
