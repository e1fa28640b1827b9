package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"retake/internal/recovery/circumstances"
)

// layout describes the wire format of a Go type, and the rules for its values, so that plain can read a message in one
// pass. It is computed once, from the type and the Fields that the slow reader uses.
type layout struct {
	of      reflect.Type
	shape   shape
	rule    *Field          // rule for the value itself, or nil
	elem    *layout         // element layout of a pointer, list or map
	members []memberLayout  // field layouts of a struct
	named   map[string]int  // index in members, by name
	folded  map[string]bool // the names in lower case, because encoding/json ignores case
	must    uint64          // bits of the required members
	zeroBad uint64          // bits of the members for which the zero value is invalid
}

type memberLayout struct {
	layout
	index int // index of the field in its struct
}

// shape selects how a value is read.
type shape int

const (
	shapeText shape = iota + 1
	shapeBool
	shapeInt
	shapeCount // an unsigned integer
	shapeFloat
	shapeTime
	shapeRaw
	shapeOwn // a type with an UnmarshalJSON method
	shapePointer
	shapeList
	shapeMap
	shapeStruct
)

var shapes = map[reflect.Kind]shape{
	reflect.String: shapeText, reflect.Bool: shapeBool, reflect.Int: shapeInt, reflect.Int64: shapeInt,
	reflect.Uint64: shapeCount, reflect.Float64: shapeFloat,
	reflect.Pointer: shapePointer, reflect.Slice: shapeList, reflect.Map: shapeMap, reflect.Struct: shapeStruct,
}

// maxMembers is the maximum number of members of a struct, because each needs one bit of a uint64.
const maxMembers = 64

// layoutOf returns the layout of a type. ok is false if plain does not support the type or one of the rules.
func layoutOf(t reflect.Type, fields []Field) (l layout, ok bool) {
	l, used, ok := layoutBelow(t, fields, "")
	return l, ok && used == len(fields)
}

// layoutBelow returns the layout of a value at a path, and the number of rules that match a field.
func layoutBelow(t reflect.Type, fields []Field, at string) (l layout, used int, ok bool) {
	l = layout{of: t, shape: shapes[t.Kind()]}
	switch t {
	case reflect.TypeFor[Time]():
		l.shape = shapeTime
	case reflect.TypeFor[json.RawMessage]():
		l.shape = shapeRaw
	case reflect.TypeFor[circumstances.Record]():
		l.shape = shapeOwn
	}
	if i := slices.IndexFunc(fields, func(f Field) bool { return f.Path == at }); i >= 0 {
		l.rule, used = &fields[i], 1
		if l.rule.Moment && l.shape != shapeTime && l.shape != shapePointer {
			return l, used, false
		}
	}
	elem := func(below string) bool {
		inner, n, ok := layoutBelow(t.Elem(), fields, below)
		if inner.rule != nil && below == at { // a pointer and its value share one rule
			n--
		}
		l.elem, used = &inner, used+n
		return ok
	}
	switch l.shape {
	case shapePointer:
		ok = elem(at)
	case shapeList:
		ok = elem(at + "[]")
	case shapeMap:
		ok = elem(at+".*") && t.Key().Kind() == reflect.String
	case shapeStruct:
		ok = t.NumField() <= maxMembers && l.structBelow(fields, at, &used)
	default:
		ok = l.shape != 0
	}
	return l, used, ok
}

func (l *layout) structBelow(fields []Field, at string, used *int) bool {
	l.named, l.folded = map[string]int{}, map[string]bool{}
	for i := range l.of.NumField() {
		f := l.of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" || f.Anonymous || !f.IsExported() || strings.Contains(options, "string") {
			return false
		}
		inner, n, ok := layoutBelow(f.Type, fields, join(at, name))
		if !ok {
			return false
		}
		bit := uint64(1) << len(l.members)
		l.named[name], l.folded[strings.ToLower(name)] = len(l.members), true
		l.members = append(l.members, memberLayout{inner, i})
		*used += n
		if inner.rule != nil && inner.rule.Required {
			l.must |= bit
		}
		if !inner.zeroHolds() {
			l.zeroBad |= bit
		}
	}
	return true
}

// zeroHolds reports whether an absent field, which leaves a zero value, satisfies the rules.
func (l *layout) zeroHolds() bool {
	switch r := l.rule; l.shape {
	case shapeStruct:
		return l.must == 0 && l.zeroBad == 0
	case shapeText:
		return r == nil || r.takesText("")
	case shapeInt, shapeCount, shapeFloat:
		return r == nil || r.takesNumber(0)
	}
	return true
}

// takesText reports whether a string satisfies the rule. It is like checkValue, but does not return the reason.
func (f *Field) takesText(v string) bool {
	return (v != "" || !f.NonEmpty) && (f.OneOf == nil || slices.Contains(f.OneOf, v))
}

func (f *Field) takesNumber(n float64) bool {
	return (f.Min == nil || n >= *f.Min) && (f.Max == nil || n <= *f.Max) && (f.Above == nil || n > *f.Above)
}

// Layouts of the envelope and of each message type's payload.
var (
	frameLayout, _ = layoutOf(reflect.TypeFor[frame](), frameFields)
	payloadLayouts = layoutsOf(messages)
)

func layoutsOf(rows []MessageRow) map[string]layout {
	all := make(map[string]layout, len(rows))
	for _, row := range rows {
		if l, ok := layoutOf(reflect.TypeOf(row.New()).Elem(), row.Fields); ok {
			all[row.Type] = l
		}
	}
	return all
}
