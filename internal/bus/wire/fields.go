package wire

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Field is one rule about one field of a payload. Tests generate the JSON Schemas and the documentation from the same
// rules.
type Field struct {
	Path     string   // dotted JSON names from the payload's root; `[]` after a name means each element of an array
	Required bool     // present and not null if its parent is present
	NonEmpty bool     // a string with at least one character
	Moment   bool     // an RFC 3339 time
	Min, Max *float64 // inclusive bounds of a number
	Above    *float64 // exclusive lower bound of a number
	OneOf    []string // all allowed values of a string
}

type fieldRule func(*Field)

func filled(f *Field) { f.NonEmpty = true }
func moment(f *Field) { f.Moment = true }

func atLeast(n float64) fieldRule      { return func(f *Field) { f.Min = &n } }
func above(n float64) fieldRule        { return func(f *Field) { f.Above = &n } }
func between(lo, hi float64) fieldRule { return func(f *Field) { f.Min, f.Max = &lo, &hi } }
func oneOf(set ...string) fieldRule    { return func(f *Field) { f.OneOf = set } }

func need(path string, rules ...fieldRule) Field {
	f := may(path, rules...)
	f.Required = true
	return f
}

func may(path string, rules ...fieldRule) Field {
	f := Field{Path: path}
	for _, rule := range rules {
		rule(&f)
	}
	return f
}

// check checks a decoded JSON object against the rules, in the order of the table.
func check(fields []Field, tree map[string]any, where string) *Malformed {
	for i := range fields {
		if m := fields[i].walk(tree, strings.Split(fields[i].Path, "."), where); m != nil {
			return m
		}
	}
	return nil
}

// walk follows one path. It ignores an absent parent, because only the parent's rule decides whether that is an error.
func (f *Field) walk(node map[string]any, path []string, where string) *Malformed {
	name, each := strings.CutSuffix(path[0], "[]")
	at := join(where, name)
	value, present := node[name]
	last := len(path) == 1
	if !present || value == nil {
		if last && f.Required {
			return malformed(CauseMissingField, "%s is missing", at)
		}
		return nil
	}
	if last {
		return f.checkValue(value, at)
	}
	children := []any{value}
	if list, isList := value.([]any); each && isList {
		children = list
	}
	for i, child := range children {
		object, isObject := child.(map[string]any)
		if !isObject {
			return malformed(CauseWrongType, "%s: want an object, got %s", at, kindOf(child))
		}
		below := at
		if each {
			below = at + "[" + strconv.Itoa(i) + "]"
		}
		if m := f.walk(object, path[1:], below); m != nil {
			return m
		}
	}
	return nil
}

// checkValue checks a value against its rule. It ignores a value of the wrong type, which encoding/json rejects later.
func (f *Field) checkValue(value any, at string) *Malformed {
	switch v := value.(type) {
	case string:
		_, notTime := time.Parse(time.RFC3339, v)
		switch {
		case f.NonEmpty && v == "":
			return malformed(CauseBadValue, "%s is empty", at)
		case f.Moment && notTime != nil:
			return malformed(CauseBadValue, "%s: want an RFC 3339 time, got %s", at, brief(v))
		case f.OneOf != nil && !slices.Contains(f.OneOf, v):
			return malformed(CauseBadValue, "%s: want one of %s, got %s", at, strings.Join(f.OneOf, ", "), brief(v))
		}
	case json.Number:
		n, err := v.Float64()
		switch {
		case err != nil:
			return malformed(CauseBadValue, "%s: number out of range", at)
		case f.Min != nil && n < *f.Min:
			return malformed(CauseBadValue, "%s: want at least %v, got %v", at, *f.Min, n)
		case f.Max != nil && n > *f.Max:
			return malformed(CauseBadValue, "%s: want at most %v, got %v", at, *f.Max, n)
		case f.Above != nil && n <= *f.Above:
			return malformed(CauseBadValue, "%s: want more than %v, got %v", at, *f.Above, n)
		}
	}
	return nil
}

func join(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}

// kindOf returns the JSON type of a value, with its article, for errors.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}

// briefBytes limits how much of a value a detail quotes: enough to recognise the value, but too little to leak a
// document.
const briefBytes = 40

func brief(v string) string {
	if len(v) > briefBytes {
		v = strings.ToValidUTF8(v[:briefBytes], "") + "…"
	}
	return strconv.Quote(v)
}
