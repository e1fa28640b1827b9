package agent

import (
	"slices"
	"strings"
)

// Essence takes out of the end of a stream what the agent only quotes: the output of tools, files, what the model wrote.
// Words in there say nothing of how the agent itself fared, but read as if they did. Of each such event its type is left;
// events that say how it went, and lines that are no events, are left whole. cut is the mark that stands for bytes that
// are missing at the beginning; the rest of that line is half an event.
func Essence(format, text, cut string) string {
	if format == "text" || text == "" {
		return text
	}
	r, err := NewReader(format)
	if err != nil {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if i == 0 && cut != "" && strings.HasPrefix(l, cut) {
			if rest := l[len(cut):]; rest != "" && len(lines) > 1 {
				lines[i] = cut
			}
			continue
		}
		bare := strings.TrimSpace(l)
		if strings.HasPrefix(bare, "{") && len(bare) > 1 || strings.HasPrefix(bare, "[{") {
			lines[i] = essenceOf(r, bare)
		}
	}
	return strings.Join(lines, "\n")
}

// essenceOf is for one line that looks like an event, or like a list of them. An event that takes an error back tells, too.
func essenceOf(r *Reader, line string) string {
	failed := r.state.failed
	if telling(r.Write([]byte(line+"\n"))) || r.state.failed != failed {
		return line
	}
	kind := ""
	if o, ok := parse([]byte(line)); ok {
		if kind = o.text("type"); kind == "" { // an answer that is JSON, an error without a type: not ours to judge
			return line
		}
	}
	return `{"type":"` + strings.Map(plainWord, cutWord(kind)) + `","…":"…"}`
}

// telling says whether events say how the agent fared.
func telling(events []Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool {
		switch e.(type) {
		case Failed, RateLimited, Denied, Final:
			return true
		}
		return false
	})
}

func cutWord(s string) string { return s[:min(len(s), 64)] }

func plainWord(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
		return r
	}
	return -1
}
