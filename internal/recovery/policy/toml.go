package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
	"retake/internal/tomlfile"
	"retake/internal/tomlfile/spelling"
)

// document is a TOML document being parsed, with the faults found so far.
type document struct {
	*tomlfile.File
	file string // as given by the user
}

// table is one table of a document. Its checks consider only explicit values, not inherited ones.
type table struct {
	*tomlfile.File
	path   string // "row[2].backoff"; "" for the document
	values map[string]any
}

func (d *document) table(path string, v any) table {
	values, _ := v.(map[string]any)
	return table{d.File, path, values}
}

// line returns the line of a key or its parent, or 0.
func (d *document) line(path string) int {
	at, _ := d.Find(path)
	return at.Line
}

// rowPath matches the path of a row or a step at the start of a key's path.
var rowPath = regexp.MustCompile(`^row\[(\d+)\](?:\.ladder\[(\d+)\])?(?:\.|$)`)

// refusals returns the faults with rows named by key and steps by number.
func (d *document) refusals() (faults []Fault) {
	for _, f := range d.Faults() {
		where := f.Path
		if m := rowPath.FindStringSubmatch(f.Path); m != nil {
			i, _ := strconv.Atoi(m[1])
			rows, _ := d.Values["row"].([]any)
			where = "row " + strconv.Itoa(i+1)
			row, _ := rows[i].(map[string]any)
			if on, _ := row["on"].(string); on != "" {
				where = "row " + shown(on)
				if caller, _ := row["caller"].(string); caller != "" {
					where += " for caller " + shown(caller)
				}
			}
			if m[2] != "" {
				i, _ = strconv.Atoi(m[2])
				where += ", step " + strconv.Itoa(i+1)
			}
			if key := f.Path[len(m[0]):]; key != "" {
				where += ": " + key
			}
		}
		at, _ := d.Find(f.Path)
		faults = append(faults, Fault{File: d.file, Line: at.Line, col: at.Col, Kind: Refused, Text: where + ": " +
			f.Text})
	}
	byLine(faults)
	return faults
}

func (n table) has(key string) bool { _, ok := n.values[key]; return ok }

func (n table) fault(key, format string, args ...any) {
	n.Fault(tomlfile.Join(n.path, key), format, args...)
}

// decode fills a struct from the table. It rejects multi-line strings.
func (n table) decode(into any) {
	n.Decode(n.path, n.values, into)
	for _, key := range slices.Sorted(maps.Keys(n.values)) {
		if s, ok := n.values[key].(string); ok && strings.ContainsAny(s, "\x00\n\r") {
			n.fault(key, "want one line of text, got %s", shown(s))
		}
	}
}

// oneOf checks that a key, if present, has one of the allowed values. It reports whether the key is present and valid.
func (n table) oneOf(key string, allowed []string) bool {
	word, ok := n.values[key].(string)
	if ok && !slices.Contains(allowed, word) {
		n.fault(key, "unknown value %s%s", shown(word), instead(word, allowed))
	}
	return ok && slices.Contains(allowed, word)
}

// allOf checks that every string in a list is one of the allowed values.
func (n table) allOf(key string, allowed []string) {
	list, _ := n.values[key].([]any)
	for _, v := range list {
		if word, ok := v.(string); ok && !slices.Contains(allowed, word) {
			n.fault(key, "unknown value %s%s", shown(word), instead(word, allowed))
		}
	}
}

// within checks that a value is a number from lo to hi.
func (n table) within(key, want string, lo, hi float64) {
	if f, ok := tomlfile.Number(n.values[key]); ok && !(f >= lo && f <= hi) {
		n.fault(key, "want %s from %s to %s, got %s", want, plain(lo), plain(hi), shown(n.values[key]))
	}
}

func (n table) checkGuards() {
	values, _ := n.values["guards"].(map[string]any)
	g := table{n.File, "guards", values}
	for _, r := range limitRows {
		if r.bound == BoundCost {
			g.within(string(r.bound), "a number", 0, recovery.MaxCost)
		} else {
			g.within(string(r.bound), "a whole number", recovery.Unlimited, 1e6)
		}
		g.oneOf("on_"+string(r.bound), endNames)
	}
}

// seconds is a duration that documents and JSON represent as a number of seconds.
type seconds time.Duration

// DecodeTOML reads a number of seconds.
func (s *seconds) DecodeTOML(f *tomlfile.File, path string, v any) {
	n, ok := tomlfile.Number(v)
	if most := recovery.LongestWait; !ok || !(n >= 0 && n <= most.Seconds()) {
		f.Fault(path, "want a number of seconds from 0 to %s (%s), got %s", plain(most.Seconds()), Span(most), shown(v))
		return
	}
	*s = seconds(math.Round(n * float64(time.Second)))
}

// MarshalJSON writes a number of seconds.
func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// Backoff is a recovery.Backoff that documents and JSON represent with the keys of a policy document.
type Backoff recovery.Backoff

type backoffForm struct {
	Formula string          `toml:"formula" json:"formula"`
	Base    seconds         `toml:"base_seconds" json:"base_seconds"`
	Factor  float64         `toml:"factor" json:"factor"`
	Cap     seconds         `toml:"cap_seconds" json:"cap_seconds"`
	Jitter  recovery.Jitter `toml:"jitter" json:"jitter"`
	Spread  float64         `toml:"spread" json:"spread"`
	Add     seconds         `toml:"add_seconds" json:"add_seconds"`
}

func (b Backoff) form() backoffForm {
	formula := "exponential"
	switch {
	case b.Linear:
		formula = "linear"
	case b.Factor <= 1:
		formula = "fixed"
	}
	return backoffForm{formula, seconds(b.Initial), b.Factor, seconds(b.Max), b.Jitter, b.Spread, seconds(b.Add)}
}

// MarshalJSON writes the backoff with the keys of a policy document.
func (b Backoff) MarshalJSON() ([]byte, error) { return json.Marshal(b.form()) }

// DecodeTOML reads the keys that are present, and keeps the other values.
func (b *Backoff) DecodeTOML(f *tomlfile.File, path string, v any) {
	values, _ := v.(map[string]any)
	n, form := table{f, path, values}, b.form()
	f.Decode(path, v, &form)
	n.oneOf("formula", []string{"exponential", "linear", "fixed"})
	n.oneOf("jitter", []string{
		string(recovery.FullJitter), string(recovery.EqualJitter), string(recovery.NoJitter),
		string(recovery.AroundJitter), string(recovery.AdditiveJitter),
	})
	n.within("factor", "a number", 1, 100)
	n.within("spread", "a number", 0, 1)
	if form.Formula == "fixed" {
		if n.has("factor") && form.Factor != 1 {
			n.fault("factor", "not allowed with a fixed wait")
		}
		form.Factor = 1
	}
	if n.has("add_seconds") && form.Jitter != recovery.AdditiveJitter {
		n.fault("add_seconds", "requires jitter %q", recovery.AdditiveJitter)
	}
	if n.has("spread") && form.Jitter != recovery.AdditiveJitter && form.Jitter != recovery.AroundJitter {
		n.fault("spread", "requires jitter %q or %q", recovery.AroundJitter, recovery.AdditiveJitter)
	}
	*b = Backoff{
		Linear: form.Formula == "linear", Initial: time.Duration(form.Base), Factor: form.Factor,
		Max:    time.Duration(form.Cap),
		Jitter: form.Jitter, Spread: form.Spread, Add: time.Duration(form.Add),
	}
}

type waitForm struct {
	Default seconds `toml:"default_seconds" json:"default_seconds"`
	Cap     seconds `toml:"cap_seconds" json:"cap_seconds"`
	Longest seconds `toml:"longest_seconds" json:"longest_seconds"`
	Backoff bool    `toml:"then_backoff" json:"then_backoff"`
}

func (w Wait) form() waitForm {
	return waitForm{seconds(w.Default), seconds(w.Cap), seconds(w.Longest), w.Backoff}
}

// MarshalJSON writes the waits with the keys of a policy document.
func (w Wait) MarshalJSON() ([]byte, error) { return json.Marshal(w.form()) }

// DecodeTOML reads the keys that are present, and keeps the other values.
func (w *Wait) DecodeTOML(f *tomlfile.File, path string, v any) {
	form := w.form()
	f.Decode(path, v, &form)
	*w = Wait{time.Duration(form.Default), time.Duration(form.Cap), time.Duration(form.Longest), form.Backoff}
}

type rungForm struct {
	Action   recovery.Action `toml:"action" json:"action"`
	Times    any             `toml:"times" json:"times"` // a number, or "unlimited"
	Attempts any             `toml:"attempts" json:"-"`  // Times plus the first try; only in documents
	When     []Condition     `toml:"when" json:"when,omitempty"`
}

// unlimited is the value of times for a step without a limit.
const unlimited = "unlimited"

// MarshalJSON writes the step with the keys of a policy document.
func (g Rung) MarshalJSON() ([]byte, error) {
	form := rungForm{Action: g.Action, Times: g.Times, When: g.When}
	if g.Times < 0 {
		form.Times = unlimited
	}
	return json.Marshal(form)
}

// maxTimes is the maximum number of attempts that a document may give a step. The engine's own limit is lower.
const maxTimes = 1000

// DecodeTOML reads a whole step.
func (g *Rung) DecodeTOML(f *tomlfile.File, path string, v any) {
	values, _ := v.(map[string]any)
	n, form := table{f, path, values}, rungForm{Times: int64(1)}
	f.Decode(path, v, &form)
	if n.oneOf("action", actionNames); v != nil && !n.has("action") {
		n.fault("action", "is required")
	}
	n.allOf("when", conditionNames)
	count := func(key string, v any, least int64, or string) int {
		i, ok := v.(int64)
		if !ok || i < least || i > maxTimes {
			n.fault(key, "want a whole number from %d to %d%s, got %s", least, maxTimes, or, shown(v))
		}
		return int(i)
	}
	*g = Rung{Action: form.Action, When: form.When}
	switch {
	case n.has("times") && n.has("attempts"):
		n.fault("attempts", "want either times (retries) or attempts (including the first), not both")
	case n.has("attempts"):
		g.Times = count("attempts", form.Attempts, 1, "") - 1
	case form.Times == unlimited:
		g.Times = recovery.Unlimited
	default:
		g.Times = count("times", form.Times, 0, `, or "unlimited"`)
	}
}

// shown quotes a document's value, shortened if necessary.
func shown(v any) string {
	s := tomlfile.Describe(v)
	if text, ok := v.(string); ok {
		s = fmt.Sprintf("%q", text)
	}
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// instead suggests a similar allowed word, or lists them all.
func instead(word string, allowed []string) string {
	if m := meant(word, allowed); m != "" {
		return m
	}
	return "; want one of " +
		strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return a == "" }), ", ")
}

// meant suggests an allowed word that is similar.
func meant(word string, allowed []string) string {
	best := spelling.Suggest(word, allowed)
	if best == "" {
		return ""
	}
	return " (did you mean " + strconv.Quote(best) + "?)"
}
