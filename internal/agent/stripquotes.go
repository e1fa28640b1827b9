package agent

import (
	"slices"
	"strings"
)

// StripQuotes removes quoted text, such as tool output, files and the model's text, from the end of a stream. A
// classifier would mistake such text for the agent's own messages. StripQuotes reduces each event that quotes text to
// the event's type. Events that report an error, a denial or a result stay unchanged, as do lines that are not events.
//
// If the beginning of the text was removed, cut is the mark at its start; otherwise cut is "". StripQuotes also removes
// the rest of the marked line, because it holds an incomplete event.
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

// stripLine strips one line that looks like an event or a list of events. It keeps events that revoke an error.
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
		stays = stays || kind == "" // a JSON answer, or an error without a type
	}
	if stays || r.state.failed != failed {
		return line
	}
	if !isKind(kind) {
		kind = ""
	}
	return `{"type":"` + kind + `","…":"…"}`
}
