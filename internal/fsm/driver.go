package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Token stands for an input that wants to be acknowledged once its decision is durable. Zero: none.
type Token uint64

// Batch is what must be appended to the journal, as one message, before anything that was decided with it may be seen.
type Batch struct {
	ID      string // unique for ever; a second try of the same append carries the same
	After   uint64 // the journal's last sequence must be this
	Records []Record
	Data    []byte // the records as JSON Lines; none after OmitData
}

// Ready is what the shell has to do now.
type Ready struct {
	Batch   *Batch   // nil: nothing to append, or an append is under way
	Acks    []Token  // inputs whose decisions are durable
	Effects []Effect // effects whose facts are durable, in order
}

// batchBytes bounds one batch; a JetStream message may have 1 MiB by default. A record that is larger alone is a batch
// of its own.
const batchBytes = 256 << 10

// Driver makes a machine durable: decided at once, seen only after the append. It knows of no I/O; the shell appends
// what Ready returns and says with Appended how that went.
type Driver struct {
	m      *Machine
	writer string // names this process in batch ids

	last     uint64 // the journal's last sequence, as far as we know
	records  []encoded
	next     uint64 // number of the next record
	inFlight int    // records in the batch under way
	durable  uint64 // records below this number are durable
	held     []held // in order of offering
	stopped  bool
	inMemory bool // OmitData
}

type encoded struct {
	record Record
	data   []byte
}

// held waits for the records below upTo.
type held struct {
	upTo    uint64
	ack     Token
	effects []Effect
}

// NewDriver wraps a machine that was restored up to the journal's sequence last. Writer must be unique to the process.
func NewDriver(m *Machine, last uint64, writer string) *Driver {
	return &Driver{m: m, writer: writer, last: last}
}

// OmitData makes batches carry their records only, whatever their size: for a journal that keeps them in memory.
func (d *Driver) OmitData() { d.inMemory = true }

// Machine returns the machine, for reading.
func (d *Driver) Machine() *Machine { return d.m }

// Last returns the journal's last sequence that is known to be ours.
func (d *Driver) Last() uint64 { return d.last }

// Offer decides about an event. The token is handed out by Ready once the decision is durable; so are the effects. After
// any error the driver is stopped.
func (d *Driver) Offer(e Event, ack Token) error {
	if d.stopped {
		return ErrStopped
	}
	facts, effects := d.m.Step(e)
	if len(facts) > 0 {
		r, err := d.encode(d.m.now, e, facts)
		if err != nil { // the machine holds a decision that cannot be journaled
			d.Stop()
			return fmt.Errorf("fsm: record of %s: %w", e.Body.eventKind(), err)
		}
		d.records = append(d.records, r)
		d.next++
	}
	if ack != 0 || len(effects) > 0 {
		d.held = append(d.held, held{upTo: d.next, ack: ack, effects: effects})
	}
	return nil
}

func (d *Driver) encode(at time.Time, e Event, facts []Fact) (encoded, error) {
	if d.inMemory {
		return encoded{record: Record{At: at, Facts: facts}}, nil
	}
	cause, err := causeOf(e)
	if err != nil {
		return encoded{}, err
	}
	r := Record{At: at, Cause: cause, Facts: facts}
	data, err := json.Marshal(r)
	return encoded{r, data}, err
}

// Ready returns what is to be done now; what it has returned once it does not return again.
func (d *Driver) Ready() Ready {
	var r Ready
	if d.stopped {
		return r
	}
	n := 0
	for ; n < len(d.held) && d.held[n].upTo <= d.durable; n++ {
		if d.held[n].ack != 0 {
			r.Acks = append(r.Acks, d.held[n].ack)
		}
		r.Effects = append(r.Effects, d.held[n].effects...)
	}
	d.held = slices.Delete(d.held, 0, n)
	if d.inFlight == 0 && len(d.records) > 0 {
		r.Batch = d.batch()
	}
	return r
}

func (d *Driver) batch() *Batch {
	b := &Batch{ID: fmt.Sprintf("%s/%d", d.writer, d.last+1), After: d.last}
	var data bytes.Buffer
	for i, e := range d.records {
		if i > 0 && data.Len()+len(e.data) >= batchBytes {
			break
		}
		b.Records = append(b.Records, e.record)
		if !d.inMemory {
			data.Write(e.data)
			data.WriteByte('\n')
		}
	}
	b.Data, d.inFlight = data.Bytes(), len(b.Records)
	return b
}

// Appended says that the batch under way is in the journal at seq.
func (d *Driver) Appended(seq uint64) {
	if d.stopped || d.inFlight == 0 {
		return
	}
	d.last = seq
	d.durable += uint64(d.inFlight)
	d.records = slices.Delete(d.records, 0, d.inFlight)
	d.inFlight = 0
}

// Stop ends the driver after an append that was refused, or whose fate is unknown: the machine holds decisions that
// the journal does not. Nothing is handed out any more; the shell reloads.
func (d *Driver) Stop() { d.stopped = true }

// Idle says whether every decision is durable and was handed out.
func (d *Driver) Idle() bool { return len(d.records) == 0 && len(d.held) == 0 }

// ReadBatch reads the records of a batch back. An unknown kind of fact is an error: skipping it would lose state.
func ReadBatch(data []byte) ([]Record, error) {
	var out []Record
	for line := range bytes.Lines(data) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("fsm: record %d of the batch: %w", len(out)+1, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// Replay applies the records of a batch.
func (m *Machine) Replay(records []Record) {
	for _, r := range records {
		for _, f := range r.Facts {
			m.Apply(r.At, f)
		}
	}
}
