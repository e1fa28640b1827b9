package agent

import (
	"encoding/json"
	"math"
	"strings"

	"retake/internal/recovery/plaintext"
)

// object is a decoded JSON object.
type object map[string]any

// parse reads one JSON object.
func parse(data []byte) (object, bool) {
	var o object
	if json.Unmarshal(data, &o) != nil {
		return nil, false
	}
	return o, o != nil
}

// at returns the object at path, or nil.
func (o object) at(path ...string) object {
	for _, name := range path {
		in, _ := o[name].(map[string]any)
		o = in
	}
	return o
}

func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// texts returns the first field that is a non-empty string.
func (o object) texts(names ...string) string {
	for _, n := range names {
		if s := o.text(n); s != "" {
			return s
		}
	}
	return ""
}

func (o object) isTrue(name string) bool { return o[name] == true }

// number returns a field's number, or 0 if it is missing or not finite.
func (o object) number(name string) float64 {
	f, _ := o[name].(float64)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

func (o object) count(name string) int64 {
	return int64(min(max(o.number(name), 0), float64(maxCount)))
}

// sum adds up the counts in the fields.
func (o object) sum(names ...string) (n int64) {
	for _, name := range names {
		n += o.count(name)
	}
	return n
}

// status returns the first field that is an HTTP error status, or 0.
func (o object) status(names ...string) int {
	for _, n := range names {
		if f := o.number(n); f >= 400 && f < 600 && f == math.Trunc(f) {
			return int(f)
		}
	}
	return 0
}

func (o object) list(name string) []object {
	values, _ := o[name].([]any)
	var out []object
	for _, v := range values {
		if in, ok := v.(map[string]any); ok {
			out = append(out, in)
		}
	}
	return out
}

// argumentFields are the fields in which CLIs pass arguments to tools, most informative first.
var argumentFields = []string{
	"file_path", "filePath", "absolute_path", "path", "command", "cmd", "pattern", "query", "url", "title",
	"description", "prompt",
}

// argument describes a tool's argument in a few words.
func (o object) argument() string {
	first, _, _ := strings.Cut(strings.TrimSpace(o.texts(argumentFields...)), "\n")
	return first
}

// Limits on reported text, in bytes. A step is shown as a single line. A message must be long enough to quote a
// provider's error.
const (
	maxStep    = 120
	maxMessage = 2 << 10
	maxAnswer  = 4 << 10
)

// oneLine returns s as one line of at most limit bytes. It never splits a character.
func oneLine(s string, limit int) string {
	s = plaintext.WithoutControl(strings.ToValidUTF8(s[:min(len(s), 4*limit)], "\uFFFD"))
	return Cut(strings.Join(strings.Fields(s), " "), limit)
}

// Cut shortens a text to limit bytes, including the "…" that it appends.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}
