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
	name   string
	keys   []keyAt
	faults []error
}

// node is one table of a document. The accessors leave *to as it is if the key is absent or wrong, and return whether
// it was there and right.
type node struct {
	d  *document
	at string // "row[2].backoff"; "" for the document
	m  map[string]any
}

func (n node) path(key string) string {
	switch {
	case n.at == "":
		return key
	case key == "":
		return n.at
	}
	return n.at + "." + key
}

// fault notes what is wrong with a key, or with the table if the key is not there.
func (n node) fault(key, format string, args ...any) {
	path := n.path(key)
	line := n.d.line(path)
	if line == 0 {
		line = n.d.line(n.at)
	}
	where := ""
	if line > 0 {
		where = "line " + strconv.Itoa(line) + ": "
	}
	n.d.faults = append(n.d.faults, fmt.Errorf("%w: %s: %s%s: %s", ErrPolicy, n.d.name, where, path, fmt.Sprintf(format, args...)))
}

func (d *document) line(path string) int {
	for _, k := range d.keys {
		if k.path == path {
			return k.line
		}
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
			n.fault(key, "unknown key%s; allowed are %s", maybe(key, allowed), strings.Join(allowed, ", "))
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
		n.fault(key, "%s is not known%s; allowed are %s", shown(s), maybe(s, allowed), strings.Join(allowed, ", "))
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
	v, ok := n.m[key]
	if !ok {
		return
	}
	f := math.NaN()
	switch v := v.(type) {
	case int64:
		f = float64(v)
	case float64:
		f = v
	}
	if !(f >= lo && f <= hi) {
		n.fault(key, "want a number from %g to %g, got %s", lo, hi, shown(v))
		return
	}
	*to = f
}

func (n node) whole(key string, to *int, lo, hi int) {
	v, ok := n.m[key]
	if !ok {
		return
	}
	i, ok := v.(int64)
	if !ok || i < int64(lo) || i > int64(hi) {
		n.fault(key, "want a whole number from %d to %d, got %s", lo, hi, shown(v))
		return
	}
	*to = int(i)
}

func (n node) seconds(key string, to *time.Duration) {
	if !n.has(key) {
		return
	}
	s := -1.0
	n.number(key, &s, 0, maxDelay.Seconds())
	if s >= 0 {
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
	return node{d: n.d, at: n.path(key), m: m}, ok
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
		list = append(list, node{d: n.d, at: n.path(key) + "[" + strconv.Itoa(i) + "]", m: m})
	}
	return list
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
			n.fault(key, "%s is not known%s; allowed are %s", shown(x), maybe(s, allowed), strings.Join(allowed, ", "))
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

// maybe suggests the word that was meant, if one differs by little.
func maybe(word string, allowed []string) string {
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
