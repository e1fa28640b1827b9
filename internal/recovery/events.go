package recovery

import (
	"encoding/json"
	"strings"
)

// Agent CLIs in their JSON modes say as data what went wrong; words quoted elsewhere in such a log say nothing.
// The names of the fields were seen in claude-code 2.1, codex 0.169, copilot 1.0, opencode 1.18, qwen 0.15, cn 1.5,
// cline 3.0 and pi 0.73.

// maxEvents is how many of the last lines are tried as JSON.
const maxEvents = 64

// object is a JSON object. It is only ever looked up by name, never ranged over.
type object map[string]any

// failure is what an agent's last error event says.
type failure struct {
	message string
	status  int // 0: not stated
	denied  bool
}

// lastFailure returns the last error event in texts (oldest first). A later event that says success takes it back.
func lastFailure(texts ...string) (f failure, ok bool) {
	for _, t := range texts {
		lines := strings.Split(t, "\n")
		for _, line := range lines[max(0, len(lines)-maxEvents):] {
			for _, o := range objects(strings.TrimSpace(line)) {
				if o.retry() {
					continue
				}
				if g, bad := o.failure(); bad {
					f, ok = g, true
				} else if o["is_error"] == false && o.text("type") == "result" {
					f, ok = failure{}, false
				}
			}
		}
	}
	return f, ok
}

// objects parses a line that is a JSON object or an array of objects.
func objects(line string) []object {
	switch {
	case strings.HasPrefix(line, "{"):
		var o object
		if json.Unmarshal([]byte(line), &o) == nil {
			return []object{o}
		}
	case strings.HasPrefix(line, "[{"):
		var os []object
		if json.Unmarshal([]byte(line), &os) == nil {
			return os
		}
	}
	return nil
}

func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// retry says whether o only announces another try.
func (o object) retry() bool {
	return strings.Contains(o.text("type"), "retry") || strings.Contains(o.text("subtype"), "retry")
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
	kind := o.text("type")
	inner, _ := o["error"].(map[string]any)
	bad := o["is_error"] == true || o.text("status") == "error" || inner != nil ||
		kind == "error" || strings.HasSuffix(kind, ".error") || strings.HasSuffix(kind, ".failed") ||
		o.text("errorMessage") != "" || o.text("finalError") != ""
	if !bad {
		return failure{}, false
	}
	f := failure{message: o.message(2), status: o.status(2)}
	return f, f.message != "" || f.status != 0
}

// message finds what the event says, at most depth objects down.
func (o object) message(depth int) string {
	for _, name := range []string{"message", "errorMessage", "finalError", "result", "error"} {
		if s := o.text(name); s != "" {
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

// descend asks the objects that carry an error's details, in a fixed order.
func descend[T comparable](o object, depth int, ask func(object, int) T) (zero T) {
	if depth == 0 {
		return zero
	}
	for _, name := range []string{"error", "data", "event"} {
		if in, _ := o[name].(map[string]any); in != nil {
			if v := ask(in, depth-1); v != zero {
				return v
			}
		}
	}
	return zero
}
