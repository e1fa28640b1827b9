package agent

import (
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode"
)

// object is a JSON object. It is only ever looked up by name, never ranged over.
type object map[string]any

// at goes down by names; nil: there is no object.
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

// texts returns the first of the names that is a text with something in it.
func (o object) texts(names ...string) string {
	for _, n := range names {
		if s := o.text(n); s != "" {
			return s
		}
	}
	return ""
}

func (o object) yes(name string) bool { return o[name] == true }

func (o object) no(name string) bool { return o[name] == false }

// number is 0 for what is none, or no sane one.
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

// status is an HTTP status of an error, or 0.
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

// parse reads one JSON object.
func parse(data []byte) (object, bool) {
	var o object
	if json.Unmarshal(data, &o) != nil {
		return nil, false
	}
	return o, o != nil
}

// longestWait bounds what is believed of a stated wait.
const longestWait = 31 * 24 * time.Hour

func waitOf(value, unit float64) time.Duration {
	return time.Duration(min(max(value*unit, 0), longestWait.Seconds()) * float64(time.Second))
}

// ownWait is how long an agent has to wait between two tries before that says anything about the provider: below it is
// every CLI's own backoff, above it they do as Retry-After told them.
const ownWait = 10 * time.Second

func told(wait time.Duration) time.Duration {
	if wait < ownWait {
		return 0
	}
	return wait
}

// Bounds of what is handed on, in bytes: a step is one line for people, a message has to hold a quoted provider's error.
const (
	maxStep    = 120
	maxMessage = 2 << 10
	maxAnswer  = 4 << 10
)

// line makes one line of at most so many bytes, cut at a character.
func line(s string, limit int) string {
	s = strings.ToValidUTF8(s[:min(len(s), 4*limit)], "\uFFFD")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	return cut(s, limit)
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}

// answer bounds the text of a last word.
func answer(s string) string {
	return cut(strings.ToValidUTF8(strings.TrimSpace(s[:min(len(s), 2*maxAnswer)]), "\uFFFD"), maxAnswer)
}
