package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// encode makes the journal's line of what was decided.
func encode(at time.Time, e Event, facts []Fact) (Record, []byte, error) {
	cause, err := causeOf(e)
	if err != nil {
		return Record{}, nil, err
	}
	r := Record{At: at, Cause: cause, Facts: facts}
	line, err := r.line()
	return r, line, err
}

// line is the record as encoding/json would write it, byte for byte, and a line feed. Each fact is written
// once, where encoding/json would write it, check it, and copy it at each level.
func (r Record) line() ([]byte, error) {
	at, err := r.At.MarshalJSON()
	if err != nil {
		return nil, err
	}
	w := bytes.NewBuffer(make([]byte, 0, 256+len(r.Cause.Body)+256*len(r.Facts)))
	for _, part := range [...]string{
		`{"at":`, string(at), `,"cause":{"kind":"`, r.Cause.Kind, `","body":`,
		string(r.Cause.Body), `},"facts":`,
	} {
		w.WriteString(part)
	}
	if err := writeFacts(w, r.Facts); err != nil {
		return nil, err
	}
	w.WriteString("}\n")
	return w.Bytes(), nil
}

// writeFacts writes each fact as {"kind": "…", "body": {…}}.
func writeFacts(w *bytes.Buffer, list []Fact) error {
	to := json.NewEncoder(w)
	w.WriteByte('[')
	for i, f := range list {
		kind := KindOf(f)
		if kind == "" {
			return fmt.Errorf("fsm: %T is not in the table of facts", f)
		}
		if i > 0 {
			w.WriteByte(',')
		}
		w.WriteString(`{"kind":"`)
		w.WriteString(kind)
		w.WriteString(`","body":`)
		if err := to.Encode(f); err != nil {
			return fmt.Errorf("fsm: fact %s: %w", kind, err)
		}
		w.Truncate(w.Len() - 1) // the encoder ends with a line feed
		w.WriteByte('}')
	}
	w.WriteByte(']')
	return nil
}

// kinds are the words of the table of facts, by type.
var kinds = func() map[reflect.Type]string {
	all := map[reflect.Type]string{}
	for _, row := range facts {
		if row.of != nil {
			all[row.of] = row.kind
		}
	}
	return all
}()

// KindOf is the word that the journal has for a kind of fact; empty: it is not in the table.
func KindOf(f Fact) string { return kinds[reflect.TypeOf(f)] }
