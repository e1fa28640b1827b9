package agent

import (
	"slices"
	"strings"
)

// StripQuotes removes from the end of a stream what the agent only quotes: the output of tools, files, what the
// model wrote. Words in there state nothing of how the agent itself fared, but read as if they did. Of each
// such event its type is left; events that state how it went, and lines that are no events, stay whole. Cut is
// the mark that stands for bytes that are missing at the beginning; the rest of that line is half an event.
func StripQuotes(format, text, cut string) string {
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
			lines[i] = r.stripLine(bare)
		}
	}
	return strings.Join(lines, "\n")
}

// stripLine reads one line that looks like an event, or like a list of them. An event that takes an error back
// stays, too.
func (r *Reader) stripLine(line string) string {
	failed := r.state.failed
	stays := slices.ContainsFunc(r.Write([]byte(line+"\n")), func(e Event) bool {
		switch e.(type) {
		case Failure, RateLimit, Denial, Result:
			return true
		}
		return false
	})
	kind := ""
	if o, ok := parse([]byte(line)); ok {
		kind = o.text("type")
		stays = stays || kind == "" // an answer that is JSON, an error without a type
	}
	if stays || r.state.failed != failed {
		return line
	}
	if !isKind(kind) {
		kind = ""
	}
	return `{"type":"` + kind + `","…":"…"}`
}
