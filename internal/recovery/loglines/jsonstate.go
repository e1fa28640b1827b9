package loglines

import (
	"strings"
)

// jsonState tracks which JSON brackets and strings are open at the end of a line.
type jsonState struct {
	depth    int
	inString bool
	escaped  bool
}

// begin returns the position where JSON or a JSON field begins in s, or -1.
func begin(s string) int {
	if bare := strings.TrimLeft(s, " "); strings.HasPrefix(bare, `"`) && strings.Contains(bare, `": `) {
		return len(s) - len(bare)
	}
	if i := strings.Index(s, `{"`); i >= 0 {
		return i
	}
	return strings.Index(s, `{\"`)
}

// read advances the state past s. If all brackets and strings are closed, it starts where begin finds JSON.
func (j *jsonState) read(s string) {
	i := 0
	if j.depth == 0 && !j.inString {
		if i = begin(s); i < 0 {
			return
		}
	}
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case j.escaped:
			j.escaped = false
		case c == '\\' && j.inString:
			j.escaped = true
		case c == '"':
			j.inString = !j.inString
		case j.inString:
		case c == '{', c == '[':
			j.depth++
		case c == '}', c == ']':
			j.depth = max(0, j.depth-1)
		}
	}
}
