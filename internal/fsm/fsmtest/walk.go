package fsmtest

import (
	"reflect"
	"time"
	"unsafe"
)

// walker hashes, counts and copies values of one type, unexported fields included. It goes by the types, so
// that a field that is added to the machine is hashed and copied without anybody thinking of it. Plans are made
// once for each type.
type walker struct {
	skip  map[string]bool // "Type.field": not hashed
	plans map[reflect.Type]*plan
}

type plan struct {
	hash func(unsafe.Pointer, *hash)
	copy func(dst, src unsafe.Pointer, seen *copies)
}

// hash is a sum under way. Times count relative to from; every string is spelt by letters first, if that is set.
type hash struct {
	sum     uint64
	from    time.Time
	letters *[256]byte
	size    int // elements of lists and maps
}

func (h *hash) add(x uint64) {
	h.sum = (h.sum ^ x) * 0x9E3779B97F4A7C15
	h.sum ^= h.sum >> 29
}

func (h *hash) text(s string) {
	sum := uint64(0xcbf29ce484222325)
	if h.letters == nil {
		for i := range len(s) {
			sum = (sum ^ uint64(s[i])) * 0x100000001b3
		}
	} else {
		for i := range len(s) {
			sum = (sum ^ uint64(h.letters[s[i]])) * 0x100000001b3
		}
	}
	h.add(sum ^ uint64(len(s))<<56)
}

// when hashes a time by its distance.
func (h *hash) when(t time.Time) {
	if t.IsZero() {
		h.add(1 << 63)
		return
	}
	h.add(uint64(t.Sub(h.from)))
}

// copies are what was copied already: several lists point to one task.
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

func newWalker(skip ...string) *walker {
	w := &walker{skip: map[string]bool{}, plans: map[reflect.Type]*plan{}}
	for _, s := range skip {
		w.skip[s] = true
	}
	return w
}

// sum adds the value behind p to h. P must be a pointer.
func sum[T any](w *walker, p *T, h *hash) { w.plan(reflect.TypeFor[T]()).hash(unsafe.Pointer(p), h) }

// clone copies the value behind p. What is behind a pointer is shared, unless its type is a changing one.
func clone[T any](w *walker, p *T) *T {
	q := new(T)
	seen := &copies{from: []unsafe.Pointer{unsafe.Pointer(p)}, to: []unsafe.Pointer{unsafe.Pointer(q)}}
	w.plan(reflect.TypeFor[T]()).copy(unsafe.Pointer(q), unsafe.Pointer(p), seen)
	return q
}

func (w *walker) plan(t reflect.Type) *plan {
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

func (w *walker) make(t reflect.Type) plan {
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
			func(p unsafe.Pointer, h *hash) { h.text(*(*string)(p)) },
			func(dst, src unsafe.Pointer, _ *copies) { *(*string)(dst) = *(*string)(src) },
		}
	case reflect.Struct:
		if t == timeType {
			return plan{
				func(p unsafe.Pointer, h *hash) { h.when(*(*time.Time)(p)) },
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
	return plan{func(unsafe.Pointer, *hash) {}, assign} // functions
}

func number(size uintptr) func(unsafe.Pointer, *hash) {
	switch size {
	case 1:
		return func(p unsafe.Pointer, h *hash) { h.add(uint64(*(*uint8)(p))) }
	case 2:
		return func(p unsafe.Pointer, h *hash) { h.add(uint64(*(*uint16)(p))) }
	case 4:
		return func(p unsafe.Pointer, h *hash) { h.add(uint64(*(*uint32)(p))) }
	}
	return func(p unsafe.Pointer, h *hash) { h.add(*(*uint64)(p)) }
}

func (w *walker) structure(t reflect.Type) plan {
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
		func(p unsafe.Pointer, h *hash) {
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

// changing are the types of which a value behind a pointer is changed after it was made.
var changing = map[string]bool{
	"Machine": true, "Task": true, "waiterList": true, "Driver": true,
	"world": true, "process": true, "history": true, "claim": true, "softView": true, "issue": true, "pull": true,
	"comment": true, "container": true, "report": true, "flight": true,
}

func (w *walker) pointer(t reflect.Type) plan {
	to := w.plan(t.Elem())
	shared := !changing[t.Elem().Name()]
	return plan{
		func(p unsafe.Pointer, h *hash) {
			at := *(*unsafe.Pointer)(p)
			if at == nil {
				h.add(2)
				return
			}
			h.add(3)
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

// header is how Go lays out a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

func (w *walker) slice(t reflect.Type) plan {
	of, size := w.plan(t.Elem()), t.Elem().Size()
	return plan{
		func(p unsafe.Pointer, h *hash) {
			s := (*header)(p)
			h.add(uint64(s.len))
			h.size += s.len
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

func (w *walker) mapping(t reflect.Type) plan {
	key, of := w.plan(t.Key()), w.plan(t.Elem())
	hold := func(v reflect.Value, t reflect.Type) unsafe.Pointer {
		q := reflect.New(t)
		q.Elem().Set(v)
		return q.UnsafePointer()
	}
	return plan{
		func(p unsafe.Pointer, h *hash) {
			m := reflect.NewAt(t, p).Elem()
			h.add(uint64(m.Len()))
			h.size += m.Len()
			var all uint64 // in no order
			for it := m.MapRange(); it.Next(); {
				one := hash{from: h.from, letters: h.letters}
				key.hash(hold(it.Key(), t.Key()), &one)
				of.hash(hold(it.Value(), t.Elem()), &one)
				all += one.sum
				h.size += one.size
			}
			h.add(all)
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

// dynamic hashes what an interface holds, by its type's name and its value.
func (w *walker) dynamic(t reflect.Type) func(unsafe.Pointer, *hash) {
	return func(p unsafe.Pointer, h *hash) {
		v := reflect.NewAt(t, p).Elem().Elem()
		if !v.IsValid() {
			h.add(4)
			return
		}
		h.text(v.Type().Name())
		q := reflect.New(v.Type())
		q.Elem().Set(v)
		w.plan(v.Type()).hash(q.UnsafePointer(), h)
	}
}
