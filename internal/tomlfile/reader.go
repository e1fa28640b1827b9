package tomlfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// reader builds the values of a file from the parser's output. It records the position of every key, such as
// "director.max_workers" and "stage[0].run". It also detects duplicate keys, because the parser checks only syntax.
type reader struct {
	*File
	parser   unstable.Parser
	lines    []int // start offsets of the lines; the parser would recount the lines for each position
	kinds    map[string]kind
	elements map[string]int // number of elements so far, by the path of [[path]]
	wrong    Fault          // the first error
}

// kind is the syntax that created a path. It determines the permitted additions to the path.
type kind int

const (
	absent   kind = iota
	implicit      // a of [a.b]
	defined       // [a]
	dotted        // a of a.b = 1
	list          // [[a]]
	value         // a = …, including inline tables and their keys
)

func (r *reader) reset(data []byte) {
	r.lines = []int{0}
	for i, c := range data {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
	r.parser.Reset(data)
}

func (r *reader) position(offset int) Position {
	line, begins := slices.BinarySearch(r.lines, offset)
	if begins {
		line++
	}
	return Position{line, offset - r.lines[line-1] + 1}
}

func (r *reader) note(path string, n *unstable.Node) Position {
	here := r.position(int(n.Raw.Offset))
	if _, ok := r.at[path]; !ok {
		r.at[path] = here
	}
	return here
}

func (r *reader) fault(at Position, format string, args ...any) {
	if r.wrong.Text == "" {
		r.wrong = Fault{Position: at, Text: fmt.Sprintf(format, args...)}
	}
}

// enter returns the table at a path, which is stored as table[key]. If it is missing, enter creates it with kind k.
func (r *reader) enter(table map[string]any, path, key string, k kind) map[string]any {
	if r.kinds[path] == absent {
		r.kinds[path] = k
		table[key] = map[string]any{}
	}
	inner, _ := table[key].(map[string]any)
	return inner
}

// header returns the path and the table selected by the header [a.b] or [[a.b]] for the keys below it.
func (r *reader) header(e *unstable.Node) (path string, table map[string]any) {
	table = r.Values
	for it := e.Key(); it.Next() && r.wrong.Text == ""; {
		key := string(it.Node().Data)
		path = Join(path, key)
		at, k := r.note(path, it.Node()), r.kinds[path]
		switch last := it.IsLast(); {
		case last && e.Kind == unstable.ArrayTable && (k == absent || k == list):
			elements, _ := table[key].([]any)
			table[key], r.kinds[path] = append(elements, map[string]any{}), list
			r.elements[path]++
		case k == value || last && k != absent && (k != implicit || e.Kind == unstable.ArrayTable):
			r.fault(at, "%s is already defined", path)
			return path, nil
		}
		if r.kinds[path] != list {
			k := implicit
			if it.IsLast() {
				k = defined
			}
			table = r.enter(table, path, key, k)
			r.kinds[path] = max(r.kinds[path], k)
			continue
		}
		elements, _ := table[key].([]any)
		table, _ = elements[len(elements)-1].(map[string]any)
		path = Element(path, r.elements[path]-1)
		r.note(path, it.Node())
	}
	return path, table
}

func (r *reader) keyValue(path string, table map[string]any, e *unstable.Node) {
	for it := e.Key(); it.Next(); {
		key := string(it.Node().Data)
		path = Join(path, key)
		at, k := r.note(path, it.Node()), r.kinds[path]
		if k != absent && (it.IsLast() || k != dotted) {
			r.fault(at, "%s is already defined", path)
			return
		}
		if it.IsLast() {
			r.kinds[path] = value
			table[key] = r.value(path, e.Value())
			return
		}
		table = r.enter(table, path, key, dotted)
	}
}

// date is the text of a date or time. It is not parsed, because the configuration does not use dates or times.
type date string

func (r *reader) value(path string, v *unstable.Node) any {
	switch v.Kind {
	case unstable.String:
		return string(v.Data)
	case unstable.Bool:
		return string(v.Data) == "true"
	case unstable.Integer:
		n, err := strconv.ParseInt(string(v.Data), 0, 64)
		if err != nil {
			r.fault(r.note(path, v), "%s is not a 64-bit integer", v.Data)
		}
		return n
	case unstable.Float:
		f, _ := strconv.ParseFloat(strings.ReplaceAll(string(v.Data), "_", ""), 64) // the parser has checked the form
		return f
	case unstable.Array:
		elements := []any{}
		for it := v.Children(); it.Next(); {
			element := Element(path, len(elements))
			if it.Node().Raw.Length > 0 {
				r.note(element, it.Node())
			}
			elements = append(elements, r.value(element, it.Node()))
		}
		return elements
	case unstable.InlineTable:
		table := map[string]any{}
		for it := v.Children(); it.Next(); {
			r.keyValue(path, table, it.Node())
		}
		return table
	}
	return date(v.Data)
}
