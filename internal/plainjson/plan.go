package plainjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// form selects the method that reads a value.
type form uint8

const (
	slow form = iota // read by encoding/json
	text             // read by UnmarshalText
	instant
	raw
	word
	boolean
	signed
	unsigned
	floating
	pointer
	list
	object
)

// Type holds the instructions for reading a Go type.
type Type struct {
	of     reflect.Type
	form   form
	elem   *Type   // element of a pointer or list
	fields []field // fields of an object, in encoding order
}

type field struct {
	name  string
	index []int
	of    *Type
}

// maxFields is the maximum number of fields in a struct, because a set of 64 bits records the fields already read.
const maxFields = 64

// TypeFor returns the instructions for reading a T.
func TypeFor[T any]() *Type {
	return types{}.typeOf(reflect.TypeFor[T]())
}

// types caches the types prepared so far, because a type can contain itself.
type types map[reflect.Type]*Type

var (
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonReader = reflect.TypeFor[json.Unmarshaler]()
)

// kinds maps kinds of Go types to forms. typeOf examines a type of any other kind.
var kinds = map[reflect.Kind]form{
	reflect.String: word, reflect.Bool: boolean, reflect.Float32: floating, reflect.Float64: floating,
	reflect.Int: signed, reflect.Int8: signed, reflect.Int16: signed, reflect.Int32: signed, reflect.Int64: signed,
	reflect.Uint: unsigned, reflect.Uint8: unsigned, reflect.Uint16: unsigned, reflect.Uint32: unsigned,
	reflect.Uint64: unsigned,
}

func (all types) typeOf(of reflect.Type) *Type {
	if known := all[of]; known != nil {
		return known
	}
	t := &Type{of: of}
	all[of] = t
	switch p := reflect.PointerTo(of); {
	case of == reflect.TypeFor[time.Time]():
		t.form = instant
	case of == reflect.TypeFor[json.RawMessage]():
		t.form = raw
	case p.Implements(jsonReader): // left to encoding/json, which calls UnmarshalJSON
	case of.Kind() == reflect.Pointer:
		t.form, t.elem = pointer, all.typeOf(of.Elem())
	case p.Implements(textReader):
		t.form = text
	case of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8: // a byte slice is base64 text
		t.form, t.elem = list, all.typeOf(of.Elem())
	case of.Kind() == reflect.Struct:
		if all.fieldsOf(t, of, nil) && len(t.fields) <= maxFields {
			t.form = object
		}
	default:
		t.form = kinds[of.Kind()]
	}
	return t
}

// fieldsOf adds the fields of a struct. It returns false if only encoding/json can read the struct, because two fields
// have the same key, a field has the option ",string", or an embedded field is not a plain struct.
func (all types) fieldsOf(t *Type, of reflect.Type, at []int) bool {
	for i := range of.NumField() {
		f := of.Field(i)
		index := slices.Concat(at, []int{i})
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			if !all.fieldsOf(t, f.Type, index) {
				return false
			}
		case f.Anonymous:
			return false
		case !f.IsExported():
		case strings.Contains(","+options+",", ",string,"):
			return false
		default:
			if name == "" {
				name = f.Name
			}
			if t.find([]byte(name), 0) >= 0 {
				return false
			}
			t.fields = append(t.fields, field{name, index, all.typeOf(f.Type)})
		}
	}
	return true
}

// find returns the index of the field with this key, or -1. It starts at next, because keys usually come in order.
func (t *Type) find(key []byte, next int) int {
	for i := next; i < len(t.fields); i++ {
		if t.fields[i].name == string(key) {
			return i
		}
	}
	for i := range t.fields[:min(next, len(t.fields))] {
		if t.fields[i].name == string(key) {
			return i
		}
	}
	return -1
}

// Slow lists the parts of a type that need encoding/json, as key paths with their Go types.
func (t *Type) Slow() []string { return t.slow("", map[*Type]bool{}) }

func (t *Type) slow(path string, seen map[*Type]bool) (all []string) {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if t.form == slow {
		return []string{path + " " + t.of.String()}
	}
	if t.elem != nil {
		all = t.elem.slow(path, seen)
	}
	for _, f := range t.fields {
		all = append(all, f.of.slow(path+"."+f.name, seen)...)
	}
	return all
}
