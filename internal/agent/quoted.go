package agent

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Quoted is a JSON error found in a line of text.
type Quoted struct {
	Line int // index of the line in Tail.Lines
	Failure
}

// maxNested limits the nesting of a truncated object.
const maxNested = 64

// maxQuoted limits how many opening braces quotedError tries as the start of an object.
const maxQuoted = 4

// quotedError finds a provider's error object in a text. The object may be complete, truncated, or in Python's syntax.
func quotedError(words string) (Failure, bool) {
	if len(words) > maxLineTail {
		return Failure{}, false
	}
	for at, tries := strings.IndexByte(words, '{'), 0; at >= 0 && tries < maxQuoted; tries++ {
		if o := looseObject(words[at:]); o.at("error") != nil || o.isBareError() {
			if f := o.failure(); f.Message != "" {
				f.Status = cmp.Or(f.Status, statusBefore(words[:at]))
				return f, true
			}
		}
		next := strings.IndexByte(words[at+1:], '{')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return Failure{}, false
}

// wordsStatus matches an HTTP status that precedes an object by at most 24 bytes.
var wordsStatus = regexp.MustCompile(`(?:^|[ (\[:])([45][0-9]{2})\b[^{}]{0,24}$`)

func statusBefore(words string) int {
	m := wordsStatus.FindStringSubmatch(words[max(0, len(words)-40):])
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// looseObject parses the object at the start of s and ignores the rest. It returns nil if s does not start with an
// object.
func looseObject(s string) (o object) {
	switch next := strings.TrimLeft(s[1:], " "); {
	case strings.HasPrefix(next, `"`):
	case strings.HasPrefix(next, `'`):
		s = fromPython(s)
	default:
		return nil
	}
	if json.NewDecoder(strings.NewReader(s)).Decode(&o) == nil {
		return o
	}
	if json.Unmarshal([]byte(closed(s)), &o) != nil {
		return nil
	}
	return o
}

// closed completes an object that was truncated after a value or inside a string.
func closed(s string) string {
	var open []byte
	inString, escaped := false, false
	for i := range len(s) {
		switch c := s[i]; {
		case escaped:
			escaped = false
		case c == '\\' && inString:
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			if len(open) == maxNested {
				return ""
			}
			open = append(open, c+2) // the matching closing bracket
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	if escaped {
		s = s[:len(s)-1]
	}
	if inString {
		s += `"`
	}
	s = strings.TrimRight(s, ", ")
	// drop a truncated field name
	if i := max(strings.LastIndexByte(s, ','), strings.LastIndexByte(s, '{')); i >= 0 && inString &&
		!strings.Contains(s[i:], ":") {
		s = strings.TrimRight(s[:i+1], ",")
	}
	slices.Reverse(open)
	return s + string(open)
}

// fromPython converts a Python dictionary literal to JSON.
func fromPython(s string) string {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
			b.WriteByte('"')
		case quote != 0 && c == quote:
			quote = 0
			b.WriteByte('"')
		case quote != 0 && c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case '\'':
				b.WriteByte('\'')
			case 'x':
				b.WriteString(`\u00`)
			default:
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		case quote == '\'' && c == '"':
			b.WriteString(`\"`)
		case quote == 0 && strings.HasPrefix(s[i:], "None"):
			b.WriteString("null")
			i += len("None") - 1
		case quote == 0 && (strings.HasPrefix(s[i:], "True") || strings.HasPrefix(s[i:], "False")):
			b.WriteByte(c | 0x20)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
