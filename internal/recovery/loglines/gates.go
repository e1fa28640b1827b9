package loglines

import (
	"strings"

	"retake/internal/recovery/plaintext"
)

// A form's gate returns false only if the form's expression cannot match.

func always(string) bool { return true }

func begins(c byte) func(string) bool {
	return func(s string) bool { return s != "" && s[0] == c }
}

// skip removes the leading bytes of s that occur in the string some.
func skip(s, some string) string {
	for s != "" && strings.IndexByte(some, s[0]) >= 0 {
		s = s[1:]
	}
	return s
}

func mayDash(rest string) bool {
	return strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, " -") || strings.HasPrefix(rest, ",-")
}

func mayBracket(rest string) bool { return strings.HasPrefix(skip(rest, " \t"), "[") }

func mayBar(rest string) bool { return strings.HasPrefix(strings.TrimLeft(rest, " "), "|") }

func maySpring(rest string) bool { return mayLevel(rest) && strings.Contains(rest, " --- ") }

func mayTracing(rest string) bool {
	return mayLevel(rest) && strings.Contains(rest, ": ") &&
		(strings.Contains(rest, "::") || strings.Contains(rest, "_"))
}

func mayStream(rest string) bool { return strings.HasPrefix(rest, " std") }

func mayLevel(rest string) bool {
	word := skip(rest, " \t|")
	return len(word) < len(rest) && beginsLevel(word)
}

func mayPython(line string) bool {
	return strings.IndexByte("DIWEC", line[0]) >= 0 && strings.IndexByte(line[:min(len(line), len("CRITICAL:"))],
		':') > 0
}

func maySyslog(line string) bool {
	return line[0] == '<' || len(line) > 5 && (plaintext.IsDigit(line[4]) || plaintext.IsDigit(line[5]))
}

func mayPlain(line string) bool {
	line = skip(line, "\t\n\f\r ")
	for _, before := range [...]string{"npm ", "go: ", "["} {
		line = strings.TrimPrefix(line, before)
	}
	return beginsLevel(line)
}

// beginsLevel reports whether a text can begin with a level, judging by its first three letters. It treats the long s
// as s.
func beginsLevel(s string) bool {
	if len(s) < 3 {
		return false
	}
	if s[0] >= 0x80 {
		return strings.HasPrefix(s, "\u017f")
	}
	const firsts = "tra sil fin deb dbg ver inf not war wrn err fat ftl cri pan dpa sev eme ale fai"
	for i := 0; i < len(firsts); i += 4 {
		if firsts[i] == s[0]|0x20 && firsts[i+1] == s[1]|0x20 && firsts[i+2] == s[2]|0x20 {
			return true
		}
	}
	return false
}
