package recovery

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// document is a TOML document that is being read; faults are collected, not returned one by one.
type document struct {
	file   string // as its author calls it
	keys   []keyAt
	faults []Fault
}

// node is one table of a document. The accessors leave *to as it is if the key is absent or wrong, and return whether
// it was there and right.
type node struct {
	d  *document
	at string // "row[2].backoff"; "" for the document
	in string // for people: "row \"timeout\", rung 1"
	of string // inside of that: "backoff"
	m  map[string]any
}

func (n node) path(key string) string { return dotted(n.at, key) }

// fault notes what is wrong with a key, or with the table if the key is not there.
func (n node) fault(key, format string, args ...any) {
	where := dotted(n.of, key)
	if n.in != "" && where != "" {
		where = ": " + where
	}
	n.d.faults = append(n.d.faults, Fault{
		File: n.d.file, Line: n.d.line(n.path(key)), Kind: Refused, Text: n.in + where + ": " + fmt.Sprintf(format, args...),
	})
}

// line is where a key stands, else what is below it, else what is around it; 0: nothing of it does.
func (d *document) line(path string) int {
	for path != "" {
		for _, k := range d.keys {
			if rest, ok := strings.CutPrefix(k.path, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				return k.line
			}
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

func (n node) has(key string) bool { _, ok := n.m[key]; return ok }

// known complains about every key of the table that is not on the list.
func (n node) known(allowed ...string) {
	for _, k := range n.d.keys {
		rest, ok := strings.CutPrefix(k.path, n.at)
		if !ok || n.at != "" && !strings.HasPrefix(rest, ".") || k.path == n.at {
			continue
		}
		key := strings.TrimPrefix(rest, ".")
		if end := strings.IndexAny(key, ".["); end >= 0 {
			key = key[:end]
		}
		if key != "" && !slices.Contains(allowed, key) && n.has(key) && k.path == n.path(key) {
			n.fault(key, "unknown key%s", instead(key, allowed))
		}
	}
}

func (n node) text(key string, to *string) bool {
	v, ok := n.m[key]
	if !ok {
		return false
	}
	s, ok := v.(string)
	if !ok || strings.ContainsAny(s, "\x00\n\r") {
		n.fault(key, "want one line of text, got %s", shown(v))
		return false
	}
	*to = s
	return true
}

// word reads one of a list of words.
func (n node) word(key string, to *string, allowed ...string) bool {
	s := ""
	if !n.text(key, &s) {
		return false
	}
	if !slices.Contains(allowed, s) {
		n.fault(key, "%s is not known%s", shown(s), instead(s, allowed))
		return false
	}
	*to = s
	return true
}

func (n node) flag(key string, to *bool) {
	v, ok := n.m[key]
	if !ok {
		return
	}
	b, ok := v.(bool)
	if !ok {
		n.fault(key, "want true or false, got %s", shown(v))
		return
	}
	*to = b
}

func (n node) number(key string, to *float64, lo, hi float64) {
	if f, ok := n.within(key, lo, hi); !ok {
		n.fault(key, "want a number from %s to %s, got %s", plain(lo), plain(hi), shown(n.m[key]))
	} else if n.has(key) {
		*to = f
	}
}

// within returns a number, and whether it is none or outside of its bounds; an absent one is not.
func (n node) within(key string, lo, hi float64) (float64, bool) {
	switch v := n.m[key].(type) {
	case int64:
		return float64(v), float64(v) >= lo && float64(v) <= hi
	case float64:
		return v, v >= lo && v <= hi
	}
	return 0, !n.has(key)
}

func (n node) whole(key string, to *int, lo, hi int, or ...string) {
	v, ok := n.m[key]
	if !ok {
		return
	}
	i, ok := v.(int64)
	if !ok || i < int64(lo) || i > int64(hi) {
		n.fault(key, "want a whole number from %d to %d%s, got %s", lo, hi, strings.Join(or, ""), shown(v))
		return
	}
	*to = int(i)
}

func (n node) seconds(key string, to *time.Duration) {
	if s, ok := n.within(key, 0, maxDelay.Seconds()); !ok {
		n.fault(key, "want a number of seconds from 0 to %s (%s), got %s", plain(maxDelay.Seconds()), Span(maxDelay), shown(n.m[key]))
	} else if n.has(key) {
		*to = time.Duration(math.Round(s * float64(time.Second)))
	}
}

// table returns an inner table.
func (n node) table(key string) (node, bool) {
	v, ok := n.m[key]
	if !ok {
		return node{}, false
	}
	m, ok := v.(map[string]any)
	if !ok {
		n.fault(key, "want a table, got %s", shown(v))
	}
	return node{d: n.d, at: n.path(key), in: n.in, of: dotted(n.of, key), m: m}, ok
}

// tables returns a list of inner tables.
func (n node) tables(key string) (list []node) {
	v, ok := n.m[key]
	if !ok {
		return nil
	}
	var ms []map[string]any
	switch v := v.(type) {
	case []map[string]any:
		ms = v
	case []any:
		for _, x := range v {
			m, ok := x.(map[string]any)
			if !ok {
				n.fault(key, "want a list of tables, got %s in it", shown(x))
				return nil
			}
			ms = append(ms, m)
		}
	default:
		n.fault(key, "want a list of tables, got %s", shown(v))
	}
	for i, m := range ms {
		list = append(list, node{d: n.d, at: n.path(key) + "[" + strconv.Itoa(i) + "]", in: n.element(key, i, m), m: m})
	}
	return list
}

// element names one of a list of tables for people: rows by what they are on, rungs by their number.
func (n node) element(key string, i int, m map[string]any) string {
	if key == "ladder" {
		return n.in + ", rung " + strconv.Itoa(i+1)
	}
	on, _ := m["on"].(string)
	if on == "" {
		return key + " " + strconv.Itoa(i+1)
	}
	if caller, _ := m["caller"].(string); caller != "" {
		return key + " " + shown(on) + " of caller " + shown(caller)
	}
	return key + " " + shown(on)
}

// wordsOf reads a list of words.
func wordsOf[T ~string](n node, key string, old []T, allowed []string) []T {
	v, ok := n.m[key]
	if !ok {
		return old
	}
	list, ok := v.([]any)
	if !ok {
		n.fault(key, "want a list, got %s", shown(v))
		return old
	}
	out := []T{}
	for _, x := range list {
		s, ok := x.(string)
		if !ok || !slices.Contains(allowed, s) {
			n.fault(key, "%s is not known%s", shown(x), instead(s, allowed))
			continue
		}
		out = append(out, T(s))
	}
	return out
}

// shown quotes a value of a document, shortened.
func shown(v any) string {
	var s string
	switch v := v.(type) {
	case string:
		s = strconv.Quote(v)
	case map[string]any:
		s = "a table"
	case []any, []map[string]any:
		s = "a list"
	default:
		s = fmt.Sprint(v)
	}
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// instead suggests the word that was meant, if one differs by little; else it lists them.
func instead(word string, allowed []string) string {
	if m := meant(word, allowed); m != "" {
		return m
	}
	return "; allowed are " + strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return a == "" }), ", ")
}

// meant suggests the word that was meant, if one differs by little.
func meant(word string, allowed []string) string {
	best, least := "", 3
	for _, a := range allowed {
		if d := distance(word, a); d < least && d < len(a) {
			best, least = a, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + strconv.Quote(best) + "?)"
}

// distance is Levenshtein's, for words that are short enough to be meant.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 40
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
