// Package deep hashes, counts and copies values of any type, including unexported fields.
//
// It derives everything from the types, so it includes new fields automatically. It reads memory directly, so the value
// must not change concurrently.
package deep

import (
	"reflect"
	"time"
	"unsafe"
)

// Walker hashes and copies values. It makes one plan for each type.
type Walker struct {
	skip    map[string]bool // "Type.field": excluded from hashes
	mutable map[string]bool // a pointer to one of these types is copied with its value
	plans   map[reflect.Type]*plan
}

// New returns a walker. skip lists fields to exclude from hashes, as "Type.field". mutable lists the types whose values
// change behind their pointers. Clone copies these values, and shares all others.
func New(mutable []string, skip ...string) *Walker {
	w := &Walker{skip: map[string]bool{}, mutable: map[string]bool{}, plans: map[reflect.Type]*plan{}}
	for _, s := range skip {
		w.skip[s] = true
	}
	for _, t := range mutable {
		w.mutable[t] = true
	}
	return w
}

type plan struct {
	hash func(unsafe.Pointer, *Hash)
	copy func(dst, src unsafe.Pointer, seen *copies)
}

// Hash is a hash under construction.
type Hash struct {
	From    time.Time  // times are hashed relative to From
	Letters *[256]byte // replacement of each letter in strings; may be nil
	Sum     uint64
	Size    int // number of elements in lists and maps
}

// part returns an empty hash with the same options.
func (h *Hash) part() Hash { return Hash{From: h.From, Letters: h.Letters} }

// Add adds a number.
func (h *Hash) Add(x uint64) {
	h.Sum = (h.Sum ^ x) * 0x9E3779B97F4A7C15
	h.Sum ^= h.Sum >> 29
}

// Text adds a string.
func (h *Hash) Text(s string) {
	sum := uint64(0xcbf29ce484222325)
	if h.Letters == nil {
		for i := range len(s) {
			sum = (sum ^ uint64(s[i])) * 0x100000001b3
		}
	} else {
		for i := range len(s) {
			sum = (sum ^ uint64(h.Letters[s[i]])) * 0x100000001b3
		}
	}
	h.Add(sum ^ uint64(len(s))<<56)
}

// Unordered adds n elements regardless of their order.
func (h *Hash) Unordered(n int, each func(int, *Hash)) {
	var all uint64
	for i := range n {
		one := h.part()
		each(i, &one)
		all += one.Sum * 0xBF58476D1CE4E5B9
	}
	h.Add(all + uint64(n))
}

// when adds a time, relative to h.From.
func (h *Hash) when(t time.Time) {
	if t.IsZero() {
		h.Add(1 << 63)
		return
	}
	h.Add(uint64(t.Sub(h.From)))
}

// copies maps copied values to their copies, because several pointers may point to one value.
type copies struct {
	from, to []unsafe.Pointer
}

func (c *copies) find(p unsafe.Pointer) unsafe.Pointer {
	for i, f := range c.from {
		if f == p {
			return c.to[i]
		}
	}
	return nil
}

// Sum adds the value behind p to h.
func Sum[T any](w *Walker, p *T, h *Hash) { w.plan(reflect.TypeFor[T]()).hash(unsafe.Pointer(p), h) }

// Clone copies the value behind p.
func Clone[T any](w *Walker, p *T) *T {
	q := new(T)
	seen := &copies{from: []unsafe.Pointer{unsafe.Pointer(p)}, to: []unsafe.Pointer{unsafe.Pointer(q)}}
	w.plan(reflect.TypeFor[T]()).copy(unsafe.Pointer(q), unsafe.Pointer(p), seen)
	return q
}

func (w *Walker) plan(t reflect.Type) *plan {
	if p, ok := w.plans[t]; ok {
		return p
	}
	p := &plan{}
	w.plans[t] = p
	made := w.make(t)
	p.hash, p.copy = made.hash, made.copy
	return p
}

var timeType = reflect.TypeFor[time.Time]()

func (w *Walker) make(t reflect.Type) plan {
	size := t.Size()
	flat := func(dst, src unsafe.Pointer, _ *copies) {
		copy(unsafe.Slice((*byte)(dst), size), unsafe.Slice((*byte)(src), size))
	}
	assign := func(dst, src unsafe.Pointer, _ *copies) {
		reflect.NewAt(t, dst).Elem().Set(reflect.NewAt(t, src).Elem())
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return plan{number(size), flat}
	case reflect.String:
		return plan{
			func(p unsafe.Pointer, h *Hash) { h.Text(*(*string)(p)) },
			func(dst, src unsafe.Pointer, _ *copies) { *(*string)(dst) = *(*string)(src) },
		}
	case reflect.Struct:
		if t == timeType {
			return plan{
				func(p unsafe.Pointer, h *Hash) { h.when(*(*time.Time)(p)) },
				func(dst, src unsafe.Pointer, _ *copies) { *(*time.Time)(dst) = *(*time.Time)(src) },
			}
		}
		return w.structure(t)
	case reflect.Pointer:
		return w.pointer(t)
	case reflect.Slice:
		return w.slice(t)
	case reflect.Map:
		return w.mapping(t)
	case reflect.Interface:
		return plan{w.dynamic(t), assign}
	}
	return plan{func(unsafe.Pointer, *Hash) {}, assign} // functions
}

func number(size uintptr) func(unsafe.Pointer, *Hash) {
	switch size {
	case 1:
		return func(p unsafe.Pointer, h *Hash) { h.Add(uint64(*(*uint8)(p))) }
	case 2:
		return func(p unsafe.Pointer, h *Hash) { h.Add(uint64(*(*uint16)(p))) }
	case 4:
		return func(p unsafe.Pointer, h *Hash) { h.Add(uint64(*(*uint32)(p))) }
	}
	return func(p unsafe.Pointer, h *Hash) { h.Add(*(*uint64)(p)) }
}

func (w *Walker) structure(t reflect.Type) plan {
	type field struct {
		at   uintptr
		skip bool
		*plan
	}
	fields := make([]field, t.NumField())
	for i := range fields {
		f := t.Field(i)
		fields[i] = field{f.Offset, w.skip[t.Name()+"."+f.Name], w.plan(f.Type)}
	}
	return plan{
		func(p unsafe.Pointer, h *Hash) {
			for _, f := range fields {
				if !f.skip {
					f.hash(unsafe.Add(p, f.at), h)
				}
			}
		},
		func(dst, src unsafe.Pointer, c *copies) {
			for _, f := range fields {
				f.copy(unsafe.Add(dst, f.at), unsafe.Add(src, f.at), c)
			}
		},
	}
}

func (w *Walker) pointer(t reflect.Type) plan {
	to := w.plan(t.Elem())
	shared := !w.mutable[t.Elem().Name()]
	return plan{
		func(p unsafe.Pointer, h *Hash) {
			at := *(*unsafe.Pointer)(p)
			if at == nil {
				h.Add(2)
				return
			}
			h.Add(3)
			to.hash(at, h)
		},
		func(dst, src unsafe.Pointer, c *copies) {
			at := *(*unsafe.Pointer)(src)
			if at == nil || shared {
				*(*unsafe.Pointer)(dst) = at
				return
			}
			q := c.find(at)
			if q == nil {
				q = reflect.New(t.Elem()).UnsafePointer()
				c.from, c.to = append(c.from, at), append(c.to, q)
				to.copy(q, at, c)
			}
			*(*unsafe.Pointer)(dst) = q
		},
	}
}

// header is the layout of a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

func (w *Walker) slice(t reflect.Type) plan {
	of, size := w.plan(t.Elem()), t.Elem().Size()
	return plan{
		func(p unsafe.Pointer, h *Hash) {
			s := (*header)(p)
			h.Add(uint64(s.len))
			h.Size += s.len
			for i := range s.len {
				of.hash(unsafe.Add(s.data, uintptr(i)*size), h)
			}
		},
		func(dst, src unsafe.Pointer, c *copies) {
			s := (*header)(src)
			if s.data == nil {
				return
			}
			q := reflect.MakeSlice(t, s.len, s.len)
			for i := range s.len {
				of.copy(q.Index(i).Addr().UnsafePointer(), unsafe.Add(s.data, uintptr(i)*size), c)
			}
			reflect.NewAt(t, dst).Elem().Set(q)
		},
	}
}

func (w *Walker) mapping(t reflect.Type) plan {
	key, of := w.plan(t.Key()), w.plan(t.Elem())
	hold := func(v reflect.Value, t reflect.Type) unsafe.Pointer {
		q := reflect.New(t)
		q.Elem().Set(v)
		return q.UnsafePointer()
	}
	return plan{
		func(p unsafe.Pointer, h *Hash) {
			m := reflect.NewAt(t, p).Elem()
			h.Add(uint64(m.Len()))
			h.Size += m.Len()
			var all uint64 // a sum, because the map's order must not matter
			for it := m.MapRange(); it.Next(); {
				one := h.part()
				key.hash(hold(it.Key(), t.Key()), &one)
				of.hash(hold(it.Value(), t.Elem()), &one)
				all += one.Sum
				h.Size += one.Size
			}
			h.Add(all)
		},
		func(dst, src unsafe.Pointer, c *copies) {
			m := reflect.NewAt(t, src).Elem()
			if m.IsNil() {
				return
			}
			q := reflect.MakeMapWithSize(t, m.Len())
			for it := m.MapRange(); it.Next(); {
				v := reflect.New(t.Elem())
				of.copy(v.UnsafePointer(), hold(it.Value(), t.Elem()), c)
				q.SetMapIndex(it.Key(), v.Elem())
			}
			reflect.NewAt(t, dst).Elem().Set(q)
		},
	}
}

// dynamic hashes the value in an interface, with its type's name.
func (w *Walker) dynamic(t reflect.Type) func(unsafe.Pointer, *Hash) {
	return func(p unsafe.Pointer, h *Hash) {
		v := reflect.NewAt(t, p).Elem().Elem()
		if !v.IsValid() {
			h.Add(4)
			return
		}
		h.Text(v.Type().Name())
		q := reflect.New(v.Type())
		q.Elem().Set(v)
		w.plan(v.Type()).hash(q.UnsafePointer(), h)
	}
}
