package tomlfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"retake/internal/tomlfile/spelling"
)

// MaxBytes is the maximum size of a file. Our longest file, including comments, is a third of that size.
const MaxBytes = 256 << 10

// Position is a position in a file. Both fields start at 1, and columns count bytes.
type Position struct{ Line, Col int }

// Fault is one mistake in a file.
type Fault struct {
	Position
	Path string // path of the key, such as "agent[0].args"; empty for the whole file
	Text string // the error and the expected value
}

// String returns the fault without its position.
func (f Fault) String() string {
	if f.Path == "" {
		return f.Text
	}
	return f.Path + ": " + f.Text
}

// Faults lists all mistakes, sorted by position.
type Faults []Fault

// Error returns one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = fmt.Sprintf("%d:%d: %s", f.Line, f.Col, f)
	}
	return strings.Join(lines, "\n")
}

// File is a document and the faults found in it.
type File struct {
	Values map[string]any // int64, float64, bool, string, []any, map[string]any, or another type for a date or time
	// Before holds the values parsed before a syntax error. In that case, Values is nil.
	Before map[string]any

	faults Faults
	at     map[string]Position

	wrongTypes int
}

// Parse reads a document. After a syntax error, the File has no Values.
func Parse(data []byte) *File {
	f := &File{at: map[string]Position{}}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	syntax := func(line, col int, text string) *File {
		f.Before, f.Values = f.Values, nil
		f.faults = Faults{{Position: Position{max(line, 1), max(col, 1)}, Text: text}}
		return f
	}
	if len(data) > MaxBytes {
		return syntax(1, 1, fmt.Sprintf("file exceeds the limit of %d bytes", MaxBytes))
	}
	at := bytes.IndexByte(data, 0)
	if !utf8.Valid(data) {
		at = bytes.IndexRune(data, utf8.RuneError) // also finds invalid bytes
	}
	if at >= 0 {
		return syntax(1+bytes.Count(data[:at], []byte("\n")), at-bytes.LastIndexByte(data[:at], '\n'),
			"not UTF-8 text, want a TOML file in UTF-8")
	}
	r := reader{File: f, kinds: map[string]kind{}, elements: map[string]int{}}
	f.Values = map[string]any{}
	r.reset(data)
	path, table := "", f.Values
	for r.wrong.Text == "" && r.parser.NextExpression() {
		switch e := r.parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			path, table = r.header(e)
		case unstable.KeyValue:
			r.keyValue(path, table, e)
		}
	}
	switch p, ok := errors.AsType[*unstable.ParserError](r.parser.Error()); {
	case ok:
		at := r.parser.Shape(r.parser.Range(p.Highlight)).Start
		return syntax(at.Line, at.Column, "not TOML: "+p.Message)
	case r.parser.Error() != nil:
		return syntax(1, 1, "not TOML: "+r.parser.Error().Error())
	case r.wrong.Text != "":
		return syntax(r.wrong.Line, r.wrong.Col, "not TOML: "+r.wrong.Text)
	}
	return f
}

// Faults returns the recorded errors, sorted by position.
func (f *File) Faults() Faults {
	slices.SortStableFunc(f.faults, func(a, b Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
	return f.faults
}

// Err returns the faults as an error, or nil if the file is valid.
func (f *File) Err() error {
	if len(f.faults) == 0 {
		return nil
	}
	return f.Faults()
}

// Fault records an error at a key.
func (f *File) Fault(path, format string, args ...any) {
	f.faults = append(f.faults, Fault{Position: f.At(path), Path: path, Text: fmt.Sprintf(format, args...)})
}

// At returns the position of a key, or of its parent if the key is missing.
func (f *File) At(path string) Position {
	if here, ok := f.Find(path); ok {
		return here
	}
	return Position{1, 1}
}

// Find is like At, and also reports whether any part of the path exists.
func (f *File) Find(path string) (Position, bool) {
	for ; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if here, ok := f.at[path]; ok {
			return here, true
		}
	}
	return Position{}, false
}

// Has reports whether a key exists.
func (f *File) Has(path string) bool { _, ok := f.at[path]; return ok }

// Join appends a key to a path. It quotes a key with unusual characters, so that different paths stay different.
func Join(path, key string) string {
	if !bareKey.MatchString(key) {
		key = strconv.QuoteToASCII(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Element returns the path of element i of a list. The first has index 0.
func Element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Tables returns the elements of a list of tables. It records a fault for every other top-level key, and for every
// element that is not a table. Such an element is returned as nil.
func (f *File) Tables(key string) (tables []map[string]any) {
	for _, other := range slices.Sorted(maps.Keys(f.Values)) {
		if other != key {
			f.Fault(Join("", other), "unknown key, want [[%s]]", key)
		}
	}
	list, ok := f.Values[key].([]any)
	if !ok && f.Has(key) {
		f.Fault(key, "got %s, want [[%s]]", Describe(f.Values[key]), key)
	}
	for i, e := range list {
		table, ok := e.(map[string]any)
		if !ok {
			f.Fault(Element(key, i), "got %s, want a table", Describe(e))
		}
		tables = append(tables, table)
	}
	return tables
}

// Decode fills a struct with toml tags from the table at the path. It returns true if every value has the right type,
// so that the caller can check the struct further.
func (f *File) Decode(path string, table any, into any) bool {
	before := f.wrongTypes
	f.set(path, table, reflect.ValueOf(into).Elem())
	return f.wrongTypes == before
}

// Decoder is a type that parses its own values and records errors.
type Decoder interface {
	DecodeTOML(f *File, path string, v any)
}

func (f *File) set(path string, v any, to reflect.Value) {
	if d, ok := to.Addr().Interface().(Decoder); ok {
		d.DecodeTOML(f, path, v)
		return
	}
	refuse := func(want string) {
		f.wrongTypes++
		f.Fault(path, "got %s, want %s", Describe(v), want)
	}
	switch to.Kind() {
	case reflect.String:
		if s, ok := v.(string); ok {
			to.SetString(s)
		} else {
			refuse("a string")
		}
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			to.SetBool(b)
		} else {
			refuse("true or false")
		}
	case reflect.Int:
		if n, ok := v.(int64); ok {
			to.SetInt(n)
		} else {
			refuse("a whole number")
		}
	case reflect.Float64:
		if n, ok := Number(v); ok {
			to.SetFloat(n)
		} else {
			refuse("a number")
		}
	case reflect.Interface:
		to.Set(reflect.ValueOf(v))
	case reflect.Pointer: // the target may be shared with another struct
		fresh := reflect.New(to.Type().Elem())
		if !to.IsNil() {
			fresh.Elem().Set(to.Elem())
		}
		f.set(path, v, fresh.Elem())
		to.Set(fresh)
	case reflect.Slice:
		if list, ok := v.([]any); ok {
			f.setList(path, list, to)
		} else {
			refuse("a list")
		}
	case reflect.Struct:
		if table, ok := v.(map[string]any); ok {
			f.table(path, table, to)
		} else {
			refuse("a table")
		}
	default:
		panic("tomlfile: cannot decode into " + to.Type().String())
	}
}

func (f *File) setList(path string, list []any, to reflect.Value) {
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
	for i, e := range list {
		f.set(Element(path, i), e, to.Index(i))
	}
}

func (f *File) table(path string, table map[string]any, to reflect.Value) {
	var known []string
	for _, field := range reflect.VisibleFields(to.Type()) {
		key := field.Tag.Get("toml")
		if key == "" {
			continue
		}
		known = append(known, key)
		if v, ok := table[key]; ok {
			f.set(Join(path, key), v, to.FieldByIndex(field.Index))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if !slices.Contains(known, key) {
			f.Fault(Join(path, key), "unknown key%s", spelling.Hint(key, known))
		}
	}
}

// Number returns the value of an int64 or float64. ok is false for other types.
func Number(v any) (n float64, ok bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// Describe describes a value for a message.
func Describe(v any) string {
	switch v := v.(type) {
	case string:
		return "a string"
	case int64, float64, bool:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date"
}
