package advise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"retake/internal/tomlfile/spelling"
)

// object is a JSON object. Its fields are read one by one, so that an error can name the field.
type object map[string]json.RawMessage

// parse reads a line as an object. Its errors quote example.
func parse(data []byte, example string) (object, error) {
	var o object
	err := json.Unmarshal(data, &o)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) || err == nil && o == nil:
		return nil, fmt.Errorf("want a JSON object, got %s", kind(bytes.TrimSpace(data)))
	case err != nil:
		return nil, fmt.Errorf("not JSON: want %s on one line: %w", example, err)
	}
	return o, nil
}

// field describes a field of T. The first of its names that is present supplies the value. A null counts as absent.
type field[T any] struct {
	names []string
	want  string
	read  func(t *T, raw json.RawMessage) bool // returns false if the value is invalid
}

// at returns a field of the form f. place returns a pointer to the value in a T.
func at[T, V any](f form[V], place func(*T) *V, names ...string) field[T] {
	return field[T]{names, f.want, func(t *T, raw json.RawMessage) bool { return f.read(raw, place(t)) }}
}

// fill reads the fields of o in table order. Errors prefix the field's name with path. Unknown fields are ignored.
func fill[T any](t *T, o object, path string, fields []field[T]) error {
	for _, f := range fields {
		for _, name := range f.names {
			raw, ok := o[name]
			if !ok || raw == nil || string(raw) == "null" {
				continue
			}
			if !f.read(t, raw) {
				return fmt.Errorf("%s%s: want %s, got %s", path, name, f.want, brief(raw))
			}
			break
		}
	}
	return nil
}

// fillOnly is like fill, but rejects unknown keys, because a typo in a key would silently change the answer.
func fillOnly[T any](t *T, o object, path string, fields []field[T]) error {
	var names []string
	for _, f := range fields {
		names = append(names, f.names...)
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if slices.Contains(names, key) {
			continue
		}
		return fmt.Errorf("%s%s: unknown key%s", path, cut(key), spelling.Hint(key, names))
	}
	return fill(t, o, path, fields)
}

// briefBytes limits a quote in an error.
const briefBytes = 40

// brief formats a value for an error.
func brief(raw json.RawMessage) string {
	if raw[0] == '[' || raw[0] == '{' {
		return kind(raw)
	}
	return cut(string(raw))
}

func cut(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > briefBytes {
		s = strings.ToValidUTF8(s[:briefBytes], "") + "…"
	}
	return s
}

// kind names the type of a JSON value.
func kind(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// idOf finds the id in a line. The id may be any JSON value, and the rest of the line may be truncated or invalid.
func idOf(data []byte) json.RawMessage {
	if len(data) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil
		}
		if name == "id" {
			return copied(value)
		}
	}
	return nil
}

// copied returns the id for an answer, with invalid UTF-8 replaced.
func copied(id json.RawMessage) json.RawMessage {
	if len(id) == 0 {
		return nil
	}
	return bytes.ToValidUTF8(id, []byte("\ufffd"))
}
