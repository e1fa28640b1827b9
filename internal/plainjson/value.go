package plainjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"time"
)

// Value reads a value of type t into the variable that to points to. The variable must have its zero value.
func (r *Reader) Value(t *Type, to any) bool {
	return r.value(t, reflect.ValueOf(to).Elem(), 0)
}

func (r *Reader) value(t *Type, v reflect.Value, depth int) bool {
	if depth == maxDepth {
		return false
	}
	if t.form != raw && r.peek() == 'n' { // null leaves the zero value
		return t.form != slow && r.Literal("null")
	}
	switch t.form {
	case word:
		s, ok := r.String()
		v.SetString(s)
		return ok
	case object:
		return r.object(t, v, depth)
	case instant:
		at, ok := r.Time()
		*v.Addr().Interface().(*time.Time) = at
		return ok
	case text:
		s, ok := r.Text()
		return ok && v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(s) == nil
	case signed:
		n, ok := r.integer()
		v.SetInt(n)
		return ok && v.Int() == n
	case unsigned:
		minus := r.peek() == '-'
		n, ok := r.integer()
		v.SetUint(uint64(n)) //nolint:gosec // a negative value is rejected below
		return ok && !minus && v.Uint() == uint64(n)
	case boolean:
		is := r.Literal("true")
		v.SetBool(is)
		return is || r.Literal("false")
	case floating:
		f, ok := r.float(v.Type().Bits())
		v.SetFloat(f)
		return ok
	case pointer:
		v.Set(reflect.New(t.elem.of))
		return r.value(t.elem, v.Elem(), depth+1)
	case list:
		return r.list(t, v, depth)
	case raw:
		part, ok := r.Raw()
		v.SetBytes(part)
		return ok
	default:
		part, ok := r.Raw()
		return ok && json.Unmarshal(part, v.Addr().Interface()) == nil
	}
}

func (r *Reader) object(t *Type, v reflect.Value, depth int) bool {
	if !r.is('{') {
		return false
	}
	if r.is('}') {
		return true
	}
	seen := uint64(0)
	for next := 0; ; next++ {
		key, ok := r.Text()
		if !ok || !r.is(':') {
			return false
		}
		if next = t.find(key, next); next < 0 || seen&(1<<next) != 0 { // encoding/json must read the text
			return false
		}
		seen |= 1 << next
		f := &t.fields[next]
		to := v.Field(f.index[0])
		for _, i := range f.index[1:] {
			to = to.Field(i)
		}
		if !r.value(f.of, to, depth+1) {
			return false
		}
		if !r.is(',') {
			return r.is('}')
		}
	}
}

func (r *Reader) list(t *Type, v reflect.Value, depth int) bool {
	if !r.is('[') {
		return false
	}
	if r.is(']') {
		v.Set(reflect.MakeSlice(t.of, 0, 0))
		return true
	}
	for n := 0; ; n++ {
		v.Grow(1)
		v.SetLen(n + 1)
		if !r.value(t.elem, v.Index(n), depth+1) {
			return false
		}
		if !r.is(',') {
			return r.is(']')
		}
	}
}
