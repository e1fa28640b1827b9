package agent

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"retake/internal/recovery/plaintext"
)

// Tail is the end of a program's output, as stored in a report. The program may be an agent with an unknown format or
// any other program. An agent's events quote tool output and the model's text, so Tail does not treat them as text.
// Other JSON counts as text: the output of linters, test runners and loggers, answers from services, and errors without
// a type.
type Tail struct {
	Lines []string // text lines, with an empty line in place of each event
	Text  string   // Lines, joined
	Waits string   // Text and the agent's own events, which may specify how long to wait

	Quoted []Quoted // JSON errors quoted in the lines
}

// role classifies a line of a Tail.
type role int

const (
	textRole    role = iota
	quoteRole        // an event that may quote other text
	ownRole          // an event about the agent itself
	retryRole        // announces a retry, and is read as text
	backoffRole      // announces a retry after a backoff that the agent chose
)

// ReadTail separates text from an agent's events, and adds the errors in those events to o. lines holds the lines of
// text. ReadTail keeps the slice and replaces each event in it with an empty line.
func ReadTail(text string, lines []string, o *Outcome) Tail {
	if text == "" {
		return Tail{}
	}
	t := Tail{Lines: lines, Text: text, Waits: text}
	if !strings.Contains(text, "{") {
		return t
	}
	waits := slices.Clone(t.Lines)
	r := &Reader{format: &format{object: unknown}}
	behind := false // set once an event has been seen
	for n, line := range t.Lines {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok { // a server-sent event
			line = strings.TrimSpace(rest)
		}
		if r.document == nil && !strings.ContainsAny(line, "{[") {
			continue
		}
		r.state.roles = r.state.roles[:0]
		whole := line
		if r.document == nil && strings.HasSuffix(line, " {") { // the text that precedes a document
			whole = "{"
		}
		role := quoteRole
		if r.document != nil || !isQuote(strings.TrimSpace(whole)) {
			if r.document != nil || beginsJSON(whole) {
				for _, e := range r.Write([]byte(whole + "\n")) {
					o.Add(e)
				}
			}
			role = r.roleOf(line, behind)
		}
		if role == textRole {
			if f, ok := quotedError(line); ok && len(r.state.roles) == 0 {
				t.Quoted = append(t.Quoted, Quoted{n, f.complete()})
			}
			continue
		}
		if !behind && n > 0 && endsEvent(t.Lines[n-1]) {
			t.Lines[n-1], waits[n-1] = "", ""
		}
		behind = true
		if role == quoteRole || role == ownRole {
			t.Lines[n] = ""
		}
		if role == quoteRole || role == backoffRole {
			waits[n] = ""
		}
	}
	for _, e := range r.Close() {
		o.Add(e)
	}
	if behind {
		t.Text, t.Waits = strings.Join(t.Lines, "\n"), strings.Join(waits, "\n")
	}
	return t
}

// beginsJSON reports whether a line may begin an object or a list.
func beginsJSON(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && (line[0] == '{' || line[0] == '[')
}

// unknown extracts errors and success from an event of any format, or of a provider's stream.
func unknown(r *Reader, o object) {
	var f Failure
	failed := o.statesError(failureDepth)
	if failed {
		f = o.failure()
	}
	r.state.roles = append(r.state.roles, o.role(failed, f.stated()))
	denials := o.list("permission_denials")
	switch {
	case isToolEvent(o.text("type")), o.text("finalError") == "" && o.isRetry():
	case len(denials) > 0:
		r.denial("a tool was not approved: " + denials[0].text("tool_name"))
	case f.stated():
		f, _ = reconnect(f)
		r.emit(f)
	case o.text("type") == "turn.completed", o.text("type") == "result" &&
		(o["is_error"] == false || o.text("status") == "success"):
		r.emit(Result{OK: true, Text: o.text("result")})
	}
}

func (f Failure) stated() bool { return f.Message != "" || f.Status != 0 }

// endsEvent reports whether a line before the first event is the rest of a truncated event.
func endsEvent(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasSuffix(line, "}") && strings.Contains(line, `"`) && !strings.HasPrefix(line, "{")
}

// roleOf returns the role of the line just read. behind means that an event precedes the line. In that case, a
// truncated object counts as an event even if the part with its type is missing.
func (r *Reader) roleOf(line string, behind bool) role {
	first, list := strings.CutPrefix(strings.TrimSpace(line), "[")
	first = strings.TrimSpace(first)
	if !strings.HasPrefix(first, "{") || r.document != nil {
		return textRole
	}
	if len(r.state.roles) > 0 {
		if list && r.state.roles[0] == ownRole {
			return quoteRole
		}
		return r.state.roles[0]
	}
	half, whole := beginning(first)
	switch {
	case whole: // a complete object, followed by text
		return textRole
	case behind && half.kind() == "" && strings.HasPrefix(first, `{"`):
		return quoteRole
	}
	return half.role(!list && half.statesError(failureDepth), false)
}

// beginning reads the top-level fields of an object, which may be truncated.
func beginning(s string) (o object, whole bool) {
	o = object{}
	d := json.NewDecoder(strings.NewReader(s))
	depth, key := 0, ""
	for {
		token, err := d.Token()
		if err != nil {
			return o, false
		}
		delim, nested := token.(json.Delim)
		switch name, isText := token.(string); {
		case depth == 1 && delim == '}':
			return o, true
		case depth == 1 && key == "" && isText:
			key = name
		case depth == 1 && nested:
			o[key], key = map[string]any{}, ""
		case depth == 1:
			o[key], key = token, ""
		}
		switch delim {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
	}
}

func (o object) kind() string { return cmp.Or(o.text("type"), o.text("event")) }

// role returns the role of an object that is alone on its line. failed means that the object reports an error. stated
// means that the error has a message or a status.
func (o object) role(failed, stated bool) role {
	kind := o.kind()
	switch {
	case o.isForeign(), !isKind(kind):
		return textRole
	case o.isRetry() && providerWait(waitOf(max(o.number("retry_delay_ms"), o.number("delayMs")), 0.001)) == 0:
		return backoffRole
	case o.isRetry():
		return retryRole
	case strings.Contains(kind, "limit"):
		return ownRole
	case isToolEvent(kind), !failed:
		return quoteRole
	case stated:
		return ownRole
	}
	return textRole // an error in an unknown form, or a truncated one
}

// isForeign reports whether an object comes from a logger or a test runner.
func (o object) isForeign() bool {
	return o.texts("level", "@level", "log.level", "lvl", "levelname", "severity") != "" || o.at("test") != nil ||
		o["testID"] != nil
}

func (o object) isRetry() bool {
	return strings.Contains(o.kind(), "retry") || strings.Contains(o.text("subtype"), "retry")
}

// isKind reports whether s can be the type of an agent's event, which is a word that begins with a lower-case letter.
// This excludes URLs, as in problem+json, and words that begin with a capital letter, as in Kubernetes and psalm. It
// also excludes the types that test runners use.
func isKind(s string) bool {
	switch s {
	case "", "suite", "test", "bench", "report", "diagnostic": // libtest, terraform
		return false
	}
	for i := range len(s) {
		c := s[i]
		if i == 0 && (c < 'a' || c > 'z') || !plaintext.IsWord(c) && c != '.' && c != '/' && c != '-' {
			return false
		}
	}
	return len(s) <= 64
}

// isToolEvent reports whether events of this kind are about tools. Failing tools are a normal part of an agent's work.
func isToolEvent(kind string) bool { return strings.Contains(kind, "tool") || kind == "user" }
