package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"

	"retake/internal/plainjson"
)

// BatchReader reads batches of the journal back. It is for one goroutine; the zero one is ready.
type BatchReader struct {
	plain plainjson.Reader
	facts []Fact // of the record under way
	room  []any  // for a fact of each kind, by its row
	slow  int    // records that encoding/json had to read
}

// ReadBatch reads the records of a batch back. An unknown kind of fact is an error: skipping it would lose state.
func ReadBatch(data []byte) ([]Record, error) { return new(BatchReader).Read(data) }

// Read reads the records of a batch back, as ReadBatch does. The bodies of their causes are parts of the data.
func (b *BatchReader) Read(data []byte) ([]Record, error) {
	out := make([]Record, 0, bytes.Count(data, []byte("\n"))+1)
	for line := range bytes.Lines(data) {
		r, ok := b.record(bytes.TrimSuffix(line, []byte("\n")))
		if !ok {
			b.slow++
			r = Record{}
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("fsm: record %d of the batch: %w", len(out)+1, err)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// record reads a line as it is written; of any other it says false.
func (b *BatchReader) record(line []byte) (r Record, ok bool) {
	p := &b.plain
	p.Reset(line)
	ok = p.Literal(`{"at":`)
	if ok {
		r.At, ok = p.Time()
	}
	if ok = ok && p.Literal(`,"cause":{"kind":`); ok {
		r.Cause.Kind, ok = p.String()
	}
	if ok = ok && p.Literal(`,"body":`); ok {
		r.Cause.Body, ok = p.Raw()
	}
	if ok = ok && p.Literal(`},"facts":[`); ok {
		r.Facts, ok = b.list()
	}
	return r, ok && p.Literal("}") && p.End()
}

// list reads the rest of a list of facts.
func (b *BatchReader) list() (FactList, bool) {
	p := &b.plain
	b.facts = b.facts[:0]
	for more := !p.Literal("]"); more; {
		f, ok := b.fact()
		if !ok {
			return nil, false
		}
		b.facts = append(b.facts, f)
		if more = p.Literal(","); !more && !p.Literal("]") {
			return nil, false
		}
	}
	return append(make(FactList, 0, len(b.facts)), b.facts...), true
}

func (b *BatchReader) fact() (f Fact, ok bool) {
	p := &b.plain
	if !p.Literal(`{"kind":`) {
		return nil, false
	}
	kind, ok := p.Text()
	if !ok {
		return nil, false
	}
	row, ok := rowOf[string(kind)]
	if !ok || facts[row].plain == nil || !p.Literal(`,"body":`) {
		return nil, false
	}
	if b.room == nil {
		b.room = make([]any, len(facts))
	}
	f, ok = facts[row].plain(p, &b.room[row])
	return f, ok && p.Literal("}")
}

// rowOf has the rows of facts by kind.
var rowOf = func() map[string]int {
	rows := make(map[string]int, len(facts))
	for i, r := range facts {
		rows[r.kind] = i
	}
	return rows
}()

// plainOf reads a fact as a T. The room keeps a T, so that a fact is allocated once.
func plainOf[T Fact](how *plainjson.Type, complete func(*T)) func(*plainjson.Reader, *any) (Fact, bool) {
	return func(p *plainjson.Reader, room *any) (Fact, bool) {
		f, ok := (*room).(*T)
		if !ok {
			f = new(T)
			*room = f
		}
		*f = *new(T)
		if !p.Value(how, f) {
			return nil, false
		}
		complete(f)
		return *f, true
	}
}

// Replay applies the records of a batch.
func (m *agenda) Replay(records []Record) {
	for _, r := range records {
		for _, f := range r.Facts {
			m.Apply(r.At, f)
		}
	}
}
