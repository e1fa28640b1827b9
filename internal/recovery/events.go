package recovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Agent CLIs in their JSON modes say as data what went wrong; words quoted elsewhere in such a log say nothing.
// The names of the fields were seen in claude-code 2.1, codex 0.169, copilot 1.0, gemini 0.61, opencode 1.18, qwen 0.15,
// cn 1.5, cline 3.0 and pi 0.73, and in the stream events of the providers.

// maxEvents is how many of the last lines that could begin a JSON value are tried.
const maxEvents = 64

// object is a JSON object. It is only ever looked up by name, never ranged over.
type object map[string]any

// failure is what an agent's last error event says. The zero value is none.
type failure struct {
	message string
	status  int // 0: not stated
	denied  bool
	headers map[string]string
	details string // lines that say more than the message
	name    string // the error's type or code; it is general where the message is not
}

// lastFailure returns the last error event in texts (oldest first). A later event that says success takes it back; that
// a tool failed is the agent's daily work.
func lastFailure(texts ...string) (f failure, ok bool) {
	for _, t := range texts {
		for _, o := range events(t) {
			if o.retry() || quotes(o.text("type")) {
				continue
			}
			if g, bad := o.failure(); bad {
				f, ok = g, true
			} else if o.success() {
				f, ok = failure{}, false
			}
		}
	}
	return f, ok
}

// events parses what a text holds of JSON objects: one per line, in arrays, as data of a server-sent event, or printed
// over several lines.
func events(text string) (out []object) {
	if !strings.Contains(text, `{"`) && !strings.Contains(text, "{\n") {
		return nil
	}
	lines := strings.Split(text, "\n")
	budget := 2 * len(text) // bytes of values over several lines that are tried: they may overlap
	for n, from := 0, oldest(lines); n < len(lines); n++ {
		line := payload(lines[n])
		if n < from || line == "" || line[0] != '{' && line[0] != '[' {
			continue
		}
		if os := objects(line); os != nil {
			out = append(out, os...)
			continue
		}
		if end := closing(lines, n); end > n {
			value := strings.Join(lines[n:end+1], "\n")
			if budget -= len(value); budget < 0 {
				break
			}
			if os := objects(value); os != nil {
				out = append(out, os...)
				n = end
			}
		}
	}
	return out
}

// oldest returns the line from which on there are at most maxEvents that could begin a JSON value.
func oldest(lines []string) int {
	left := maxEvents
	for n := len(lines) - 1; n >= 0; n-- {
		if line := payload(lines[n]); line != "" && (line[0] == '{' || line[0] == '[') {
			if left--; left == 0 {
				return n
			}
		}
	}
	return 0
}

// payload returns the line without the field name of a server-sent event.
func payload(line string) string {
	line = strings.TrimSpace(line)
	if rest, ok := strings.CutPrefix(line, "data:"); ok {
		return strings.TrimSpace(rest)
	}
	return line
}

// closing returns the line that closes the bracket with which line n opens, both standing alone and equally indented,
// as pretty printers leave them; n, if there is none.
func closing(lines []string, n int) int {
	open := strings.TrimRight(lines[n], " \r")
	t := strings.TrimLeft(open, " \t")
	if t != "{" && t != "[" {
		return n
	}
	want := open[:len(open)-1] + map[string]string{"{": "}", "[": "]"}[t]
	if i := slices.IndexFunc(lines[n+1:], func(l string) bool { return strings.TrimRight(l, " \r,") == want }); i >= 0 {
		return n + 1 + i
	}
	return n
}

// objects parses an object or an array of objects.
func objects(s string) []object {
	if s[0] == '{' {
		var o object
		if json.Unmarshal([]byte(s), &o) == nil {
			return []object{o}
		}
		return nil
	}
	var os []object
	if json.Unmarshal([]byte(s), &os) == nil {
		return os
	}
	return nil
}

func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// success says whether o ends a turn that went well.
func (o object) success() bool {
	switch o.text("type") {
	case "result":
		return o["is_error"] == false || o.text("status") == "success"
	case "turn.completed":
		return true
	}
	return false
}

// retry says whether o only announces another try.
func (o object) retry() bool {
	return o.text("finalError") == "" && (strings.Contains(o.text("type"), "retry") || strings.Contains(o.text("subtype"), "retry"))
}

// failure reads o as an error event.
func (o object) failure() (failure, bool) {
	if list, _ := o["permission_denials"].([]any); len(list) > 0 {
		f := failure{denied: true, message: "a tool was not approved"}
		if d, _ := list[0].(map[string]any); d != nil {
			f.message += ": " + object(d).text("tool_name")
		}
		return f, true
	}
	if !o.bad(2) {
		return failure{}, false
	}
	f := failure{message: o.message(3), status: o.status(3), headers: o.headers(3), details: o.details(3), name: o.name(3)}
	if f.message == "" && f.status == 0 && o["is_error"] == true {
		f.message = o.text("subtype") // error_max_turns
	}
	return f, f.message != "" || f.status != 0
}

// bad says whether o, or an event that it wraps, is about an error.
func (o object) bad(depth int) bool {
	kind := o.text("type")
	inner, _ := o["error"].(map[string]any)
	if o["is_error"] == true || o.text("status") == "error" || inner != nil || o.text("finishReason") == "error" ||
		kind == "error" || strings.HasSuffix(kind, ".error") || strings.HasSuffix(kind, ".failed") ||
		o.text("errorMessage") != "" || o.text("finalError") != "" {
		return true
	}
	if said, _ := o["message"].(map[string]any); object(said).text("errorMessage") != "" {
		return true
	}
	if kind == "result" && strings.HasPrefix(strings.TrimPrefix(o.text("result"), "["), "API Error") {
		return true // qwen calls it a success
	}
	in, _ := o["event"].(map[string]any)
	return depth > 0 && in != nil && object(in).bad(depth-1)
}

// message finds what the event says, at most depth objects down.
func (o object) message(depth int) string {
	for _, name := range []string{"message", "errorMessage", "finalError", "result", "error", "detail", "data"} {
		if s := o.text(name); s != "" {
			return s
		}
	}
	if list, _ := o["errors"].([]any); len(list) > 0 {
		if s := fmt.Sprint(list[0]); s != "" {
			return s
		}
	}
	return descend(o, depth, object.message)
}

// status finds the HTTP status that the event states, at most depth objects down.
func (o object) status(depth int) int {
	for _, name := range []string{"api_error_status", "statusCode", "status_code", "status", "code"} {
		if n, _ := o[name].(float64); n >= 400 && n < 600 {
			return int(n)
		}
	}
	return descend(o, depth, object.status)
}

// name finds what the event calls its error, at most depth objects down.
func (o object) name(depth int) string {
	for _, name := range []string{"errorType", "error_type", "code"} {
		if s := o.text(name); s != "" {
			return s
		}
	}
	if in, _ := o["error"].(map[string]any); in != nil && depth > 0 {
		for _, name := range []string{"type", "name"} {
			if s := object(in).text(name); s != "" {
				return s
			}
		}
	}
	return descend(o, depth, object.name)
}

// headers finds the headers of the response that the event tells of, names in lower case.
func (o object) headers(depth int) map[string]string {
	for _, name := range []string{"responseHeaders", "headers"} {
		in, _ := o[name].(map[string]any)
		if in == nil {
			continue
		}
		out := make(map[string]string, len(in))
		for _, k := range slices.Sorted(maps.Keys(in)) { // of two spellings of a name the same one wins every time
			out[strings.ToLower(k)] = fmt.Sprint(in[k])
		}
		return out
	}
	for _, name := range wrapping {
		if in, _ := o[name].(map[string]any); in != nil && depth > 0 {
			if h := object(in).headers(depth - 1); h != nil {
				return h
			}
		}
	}
	return nil
}

// details returns as lines what Google's errors tell beside their message: when to come back, and last which quota is
// used up.
func (o object) details(depth int) (lines string) {
	list, _ := o["details"].([]any)
	for _, d := range list {
		detail, _ := d.(map[string]any)
		if wait := object(detail).text("retryDelay"); wait != "" {
			lines += "\nPlease retry in " + wait
		}
		violations, _ := detail["violations"].([]any)
		for _, v := range violations {
			violation, _ := v.(map[string]any)
			lines += "\n" + object(violation).text("quotaId")
		}
	}
	if lines != "" {
		return lines
	}
	return descend(o, depth, object.details)
}

// wrapping are the fields that carry an error's details.
var wrapping = []string{"error", "data", "event", "response", "message"}

// descend asks the objects that carry an error's details, in a fixed order.
func descend[T comparable](o object, depth int, ask func(object, int) T) (zero T) {
	if depth == 0 {
		return zero
	}
	for _, name := range wrapping {
		if in, _ := o[name].(map[string]any); in != nil {
			if v := ask(in, depth-1); v != zero {
				return v
			}
		}
	}
	return zero
}
