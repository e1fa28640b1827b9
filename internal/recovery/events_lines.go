package recovery

import "strings"

// An agent's stream of events quotes what its tools printed and what its model wrote. So lines that are events are not
// read as text: what an error event says is read by itself (failure), announcements of retries are the agent's own.
// Other JSON is text: what linters, test runners and loggers write, answers of services, errors without a type.

// spoken is a text without what events quote.
type spoken struct {
	lines []string // without events; a line that is left out is empty
	waits string   // with the agent's own events, which may state a wait
}

// role is what a line of a text is.
type role int

const (
	asText role = iota
	asQuote
	asOwn // an event about the agent itself: for waits only
	asRetry
)

// listen leaves out events. Its cost is linear: only events that seem to be about an error are parsed.
func listen(text string) spoken {
	if text == "" {
		return spoken{}
	}
	h := spoken{lines: strings.Split(text, "\n"), waits: text}
	if !strings.Contains(text, "{") {
		return h
	}
	var waits []string
	drop := func(n int, r role) {
		if waits == nil {
			waits = append(waits, h.lines...)
		}
		h.lines[n] = ""
		if r == asQuote {
			waits[n] = ""
		}
	}
	seen := false
	for n, line := range h.lines {
		if strings.IndexByte(line, '{') < 0 {
			continue
		}
		r := roleOf(payload(line), seen)
		if r == asText {
			continue
		}
		if !seen && n > 0 && endsEvent(h.lines[n-1]) {
			drop(n-1, asQuote)
		}
		seen = true
		if r != asRetry {
			drop(n, r)
		}
	}
	if waits != nil {
		h.waits = strings.Join(waits, "\n")
	}
	return h
}

// endsEvent says whether line, which stands before the first event, is the rest of one whose beginning was cut off.
func endsEvent(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasSuffix(line, "}") && strings.Contains(line, `"`) && !strings.HasPrefix(line, "{")
}

// roleOf judges a line. Behind other events half an object is one, too, though its type may stand in the part that is
// missing.
func roleOf(line string, behind bool) role {
	first, list := strings.CutPrefix(line, "[")
	if first = strings.TrimSpace(first); first == "" || first[0] != '{' {
		return asText
	}
	h := skim(first)
	switch {
	case h.foreign, h.end && !list && strings.TrimSpace(h.rest) != "":
		return asText
	case !h.end && behind && h.kind == "" && strings.HasPrefix(first, `{"`):
		return asQuote
	case !isKind(h.kind):
		return asText
	case strings.Contains(h.kind, "retry") || strings.Contains(h.subtype, "retry"):
		return asRetry
	case strings.Contains(h.kind, "limit"):
		return asOwn
	case list, quotes(h.kind), !h.own && (!h.wraps || !strings.Contains(first, `"error`)):
		return asQuote
	case !h.end: // half an error, which nobody can parse
		return asText
	}
	return roleOfError(first)
}

// roleOfError judges an event that seems to be about an error.
func roleOfError(line string) role {
	for _, o := range objects(line) {
		_, said := o.failure()
		switch {
		case said:
			return asOwn
		case o.bad(2):
			return asText // in a form that is not known
		}
	}
	return asQuote
}

// isKind says whether s can be the type of an agent's event: a word (problem+json has a URL there, Kubernetes and psalm
// begin with a capital), none of a test runner's.
func isKind(s string) bool {
	switch s {
	case "", "suite", "test", "bench", "report", "diagnostic": // libtest, terraform
		return false
	}
	if s[0] < 'a' || s[0] > 'z' || len(s) > 64 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.' && r != '/'
	}) < 0
}

// quotes says whether events of a kind tell of tools: that a tool failed is the agent's daily work.
func quotes(kind string) bool {
	return strings.Contains(kind, "tool") || kind == "user"
}

// head is what stands at the top of a JSON object.
type head struct {
	kind, subtype string
	own           bool // it may be about an error
	wraps         bool // what is in it may be
	foreign       bool // a logger's or a test runner's
	end           bool // it is whole
	rest          string
}

// skim reads the top of the object with which s begins, without parsing what is below.
func skim(s string) (h head) {
	depth, key, isKey := 0, "", true
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			n := closingQuote(s[i+1:])
			if n < 0 {
				return h
			}
			if str := s[i+1 : i+1+n]; depth == 1 && isKey {
				key = str
			} else if depth == 1 {
				h.text(key, str)
			}
			i += n + 1
		case '{', '[':
			if depth == 1 {
				h.value(key)
			}
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				h.end, h.rest = true, s[i+1:]
				return h
			}
		case ',', ':':
			if depth == 1 {
				isKey = c == ','
			}
		case 't':
			if depth == 1 {
				h.value(key)
			}
		}
	}
	return h
}

// closingQuote returns where the string ends with whose first byte s begins; -1, if it does not.
func closingQuote(s string) int {
	for i := 0; ; {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		back := 0
		for back < i && s[i-1-back] == '\\' {
			back++
		}
		if back%2 == 0 {
			return i
		}
		i++
	}
}

// text takes a field that is a string.
func (h *head) text(key, s string) {
	switch key {
	case "type":
		h.kind = s
		h.own = h.own || strings.Contains(s, "error") || strings.Contains(s, "fail")
	case "event": // structlog has a sentence here, which is no kind
		if h.kind == "" {
			h.kind = s
			h.own = h.own || strings.Contains(s, "error") || strings.Contains(s, "fail")
		}
	case "subtype":
		h.subtype = s
	case "level", "@level", "log.level", "lvl", "levelname", "severity":
		h.foreign = true
	case "status", "finishReason":
		h.own = h.own || s == "error"
	case "errorMessage", "finalError", "error":
		h.own = true
	}
}

// value takes a field that is an object, a list or true.
func (h *head) value(key string) {
	switch key {
	case "testID", "test": // dart
		h.foreign = true
	case "is_error", "error", "errors", "permission_denials":
		h.own = true
	case "event", "message":
		h.wraps = true
	}
}
