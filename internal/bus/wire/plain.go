package wire

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
)

// plain is the fast reader, for messages in the form written by Retake's programs. Such a message is an envelope. Names
// are spelled as in the types and occur once, and values have their types and satisfy their rules. Times are in UTC,
// and text is UTF-8. plain rejects any other message without giving a reason, and the slow reader then accepts the
// message or explains the refusal. For a message that plain accepts, the slow reader would return the same result.
type plain struct {
	data []byte
	at   int
	text []byte // buffer for a string with escapes
}

// maxDepth is the maximum nesting of unknown values.
const maxDepth = 100

// decodePlain is like Decode, but only for messages that plain accepts. The envelope's Raw shares memory with data.
func decodePlain(data []byte) (e Envelope, ok bool) {
	var f frame
	if !readPlain(data, &frameLayout, reflect.ValueOf(&f).Elem()) || f.SchemaVersion != SchemaVersion {
		return e, false
	}
	row, known := rowOf(f.MessageType)
	if !known {
		return e, false
	}
	l, known := payloadLayouts[row.Type]
	p := row.New()
	if !known || !readPlain(f.Payload, &l, reflect.ValueOf(p).Elem()) {
		return e, false
	}
	return Envelope{
		SentAt: f.SentAt.UTC(), Sender: f.Sender, Seq: f.Seq, Payload: p, Raw: f.Payload,
		Signature: f.Signature,
	}, true
}

// readPlain reads one value and fails if other data follows.
func readPlain(data []byte, l *layout, into reflect.Value) bool {
	r := plain{data: data}
	r.space()
	if !r.value(l, into) {
		return false
	}
	r.space()
	return r.at == len(data)
}

func (r *plain) space() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return
		}
	}
}

// next returns the next byte, or 0 at the end. A value never contains 0.
func (r *plain) next() byte {
	if r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

// token consumes one byte between values, and the white space around it.
func (r *plain) token(c byte) bool {
	r.space()
	if r.next() != c {
		return false
	}
	r.at++
	r.space()
	return true
}

func (r *plain) word(w string) bool {
	if len(r.data)-r.at < len(w) || string(r.data[r.at:r.at+len(w)]) != w {
		return false
	}
	r.at += len(w)
	return true
}

// value reads the next value into a zero value. It does not accept null.
func (r *plain) value(l *layout, into reflect.Value) bool {
	switch l.shape {
	case shapeText:
		s, ok := r.str()
		if ok {
			into.SetString(s)
		}
		return ok && (l.rule == nil || l.rule.takesText(s))
	case shapeBool:
		yes := r.word("true")
		into.SetBool(yes)
		return yes || r.word("false")
	case shapeInt, shapeCount, shapeFloat:
		return r.number(l, into)
	case shapeTime:
		return r.time(into)
	case shapeRaw:
		from := r.at
		ok := r.skip(0)
		into.SetBytes(r.data[from:r.at:r.at])
		return ok
	case shapeOwn:
		from := r.at
		return r.skip(0) && into.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(r.data[from:r.at]) == nil
	case shapePointer:
		to := reflect.New(l.elem.of)
		into.Set(to)
		return r.value(l.elem, to.Elem())
	case shapeList:
		return r.list(l, into)
	case shapeMap:
		return r.dict(l, into)
	default:
		return r.object(l, into)
	}
}

func (r *plain) object(l *layout, into reflect.Value) bool {
	seen := uint64(0)
	ok := r.members(func() bool {
		name, ok := r.key()
		if !ok {
			return false
		}
		i, known := l.named[string(name)]
		switch bit := uint64(1) << i; {
		case !known:
			return !l.folded[string(r.lower(name))] && r.colon() && r.skip(0)
		case seen&bit != 0 || !r.colon():
			return false
		case r.word("null"):
			return l.members[i].shape != shapeRaw
		default:
			seen |= bit
			m := &l.members[i]
			return r.value(&m.layout, into.Field(m.index))
		}
	})
	return ok && seen&l.must == l.must && seen&l.zeroBad == l.zeroBad
}

func (r *plain) colon() bool { return r.token(':') }

// members reads an object. It calls member for each member, to read its name and value.
func (r *plain) members(member func() bool) bool {
	if !r.token('{') {
		return false
	}
	for n := 0; ; n++ {
		if r.token('}') {
			return n == 0
		}
		if !member() {
			return false
		}
		r.space()
		switch r.next() {
		case ',':
			r.at++
			r.space()
			if r.next() != '"' {
				return false
			}
		case '}':
			r.at++
			return true
		default:
			return false
		}
	}
}

// elements reads an array. It calls element to read each element.
func (r *plain) elements(element func() bool) bool {
	if !r.token('[') {
		return false
	}
	if r.next() == ']' {
		r.at++
		return true
	}
	for {
		if !element() {
			return false
		}
		r.space()
		switch r.next() {
		case ',':
			r.at++
			r.space()
		case ']':
			r.at++
			return true
		default:
			return false
		}
	}
}

func (r *plain) list(l *layout, into reflect.Value) bool {
	into.Set(reflect.MakeSlice(l.of, 0, 0))
	return r.elements(func() bool {
		n := into.Len()
		into.Set(reflect.Append(into, reflect.Zero(l.elem.of)))
		return r.value(l.elem, into.Index(n))
	})
}

func (r *plain) dict(l *layout, into reflect.Value) bool {
	into.Set(reflect.MakeMap(l.of))
	return r.members(func() bool {
		key, ok := r.str()
		v := reflect.New(l.elem.of).Elem()
		if !ok || !r.colon() || !r.value(l.elem, v) {
			return false
		}
		into.SetMapIndex(reflect.ValueOf(key), v)
		return true
	})
}

// maxDigits is the number of digits that fit into any integer field.
const maxDigits = 18

// number reads a number into a field of its type.
func (r *plain) number(l *layout, into reflect.Value) bool {
	from := r.at
	whole := r.digits()
	said := r.data[from:r.at]
	var n float64
	switch {
	case len(said) == 0:
		return false
	case l.shape == shapeFloat:
		var err error
		if n, err = strconv.ParseFloat(string(said), 64); err != nil || math.IsInf(n, 0) {
			return false
		}
		into.SetFloat(n)
	case !whole || len(said) > maxDigits || l.shape == shapeCount && said[0] == '-':
		return false
	default:
		i, _ := strconv.ParseInt(string(said), 10, 64)
		n = float64(i)
		if l.shape == shapeInt {
			into.SetInt(i)
		} else {
			into.SetUint(uint64(i))
		}
	}
	return l.rule == nil || l.rule.takesNumber(n)
}

// digits consumes a JSON number. It does not advance if the current position holds anything else. whole is true for a
// number without a fraction or exponent.
func (r *plain) digits() (whole bool) {
	i := r.at
	run := func() (some bool) {
		for ; i < len(r.data) && '0' <= r.data[i] && r.data[i] <= '9'; i++ {
			some = true
		}
		return some
	}
	is := func(set string) bool {
		for _, c := range []byte(set) {
			if i < len(r.data) && r.data[i] == c {
				i++
				return true
			}
		}
		return false
	}
	is("-")
	if !is("0") && !run() {
		return false
	}
	whole = true
	if is(".") {
		whole = false
		if !run() {
			return false
		}
	}
	if is("eE") {
		whole = false
		is("+-")
		if !run() {
			return false
		}
	}
	r.at = i
	return whole
}

// time reads a time that ends in Z. It leaves other offsets to the slow reader, because the conversion to UTC could
// change the year.
func (r *plain) time(into reflect.Value) bool {
	from := r.at
	if _, ok := r.key(); !ok || r.data[r.at-2] != 'Z' {
		return false
	}
	return into.Addr().Interface().(*Time).UnmarshalJSON(r.data[from:r.at]) == nil
}

// skip consumes an unknown value.
func (r *plain) skip(depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch c := r.next(); c {
	case '{':
		return r.members(func() bool { return r.skipText() && r.colon() && r.skip(depth+1) })
	case '[':
		return r.elements(func() bool { return r.skip(depth + 1) })
	case '"':
		return r.skipText()
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	default:
		from := r.at
		r.digits()
		return r.at > from
	}
}
