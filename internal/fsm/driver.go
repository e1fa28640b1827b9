package fsm

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrStopped means that the driver has stopped because the journal may differ from the machine. The shell must reload
// the state.
var ErrStopped = errors.New("fsm: driver stopped")

// Token identifies an input that must be acknowledged after its decision is durable. Zero means that no acknowledgement
// is necessary.
type Token uint64

// Batch contains records that must be in the journal before their effects are carried out. The shell appends them as
// one message.
type Batch struct {
	ID      string // unique; a retry of the same append carries the same ID
	After   uint64 // the append must fail if this is not the journal's last sequence
	Records []Record
	Data    []byte // the records as JSON Lines, or nil if Encode returns nil
}

// Ready is the shell's next work.
type Ready struct {
	Batch   *Batch   // nil if there is nothing to append or an append is under way
	Acks    []Token  // inputs to acknowledge now, because their decisions are durable
	Effects []Effect // effects to carry out now, in order, because their facts are durable
}

// batchBytes limits one batch, because JetStream limits messages to 1 MiB by default. A larger record gets a separate
// batch.
const batchBytes = 256 << 10

// Driver makes a machine's decisions durable. The machine decides at once, but the driver releases the effects only
// after the append. The driver does not perform I/O: the shell appends the batch returned by Ready, and confirms the
// append with Appended.
type Driver struct {
	// Encode encodes a decision as a journal line. The simulator replaces it, because its journal is in memory.
	Encode func(at time.Time, e Event, facts []Fact) (Record, []byte, error)

	m        *Machine
	writer   string     // identifies this process in batch ids
	last     uint64     // the journal's last known sequence
	records  []decision // decisions that are not durable yet
	inFlight int        // number of records in the batch not yet confirmed
	ready    Ready      // work that does not wait for an append
	stopped  bool
}

// decision is a record with the effects and acknowledgements that wait until it is durable.
type decision struct {
	record Record
	data   []byte
	then   Ready
}

// NewDriver wraps a machine restored from the journal up to sequence last. writer must be unique to the process.
func NewDriver(m *Machine, last uint64, writer string) *Driver {
	return &Driver{Encode: encode, m: m, writer: writer, last: last}
}

// Machine returns the driver's machine. Callers must not change it.
func (d *Driver) Machine() *Machine { return d.m }

// Last returns the sequence of the last journal record that this process wrote or read.
func (d *Driver) Last() uint64 { return d.last }

// Offer passes an event to the machine. Once the decision is durable, Ready returns the token and the effects. If Offer
// fails, the driver has stopped.
func (d *Driver) Offer(e Event, ack Token) error {
	if d.stopped {
		return ErrStopped
	}
	facts, effects := d.m.Step(e)
	if len(facts) > 0 {
		r, data, err := d.Encode(d.m.now, e, facts)
		if err != nil { // the machine made a decision that the journal cannot store
			d.Stop()
			return fmt.Errorf("fsm: encode record of %s: %w", e.Body.eventKind(), err)
		}
		d.records = append(d.records, decision{record: r, data: data})
	}
	to := &d.ready
	if n := len(d.records); n > 0 { // even an event without facts waits until the earlier decisions are durable
		to = &d.records[n-1].then
	}
	if ack != 0 {
		to.Acks = append(to.Acks, ack)
	}
	to.Effects = append(to.Effects, effects...)
	return nil
}

// Ready returns the shell's next work. It returns each acknowledgement, effect and batch only once. It does not return
// another batch until Appended has confirmed the last one.
func (d *Driver) Ready() Ready {
	if d.stopped {
		return Ready{}
	}
	r := d.ready
	d.ready = Ready{}
	if d.inFlight == 0 && len(d.records) > 0 {
		r.Batch = d.batch()
	}
	return r
}

func (d *Driver) batch() *Batch {
	b := &Batch{ID: fmt.Sprintf("%s/%d", d.writer, d.last+1), After: d.last}
	bytes := 0
	for d.inFlight < len(d.records) && (d.inFlight == 0 || bytes+len(d.records[d.inFlight].data) <= batchBytes) {
		bytes += len(d.records[d.inFlight].data)
		d.inFlight++
	}
	b.Records, b.Data = slices.Grow(b.Records, d.inFlight), slices.Grow(b.Data, bytes)
	for _, one := range d.records[:d.inFlight] {
		b.Records, b.Data = append(b.Records, one.record), append(b.Data, one.data...)
	}
	return b
}

// Appended confirms that the last batch is in the journal at seq.
func (d *Driver) Appended(seq uint64) {
	if d.stopped || d.inFlight == 0 {
		return
	}
	d.last = seq
	for _, one := range d.records[:d.inFlight] {
		d.ready.Acks, d.ready.Effects = append(d.ready.Acks, one.then.Acks...), append(d.ready.Effects,
			one.then.Effects...)
	}
	d.records = slices.Delete(d.records, 0, d.inFlight)
	d.inFlight = 0
}

// Stop ends the driver. The shell calls it if an append failed or has no clear result, because the machine may contain
// decisions that are missing from the journal. Ready then returns no more work, and the shell must reload the state.
func (d *Driver) Stop() { d.stopped = true }

// Idle reports whether every decision is durable and Ready has returned all work.
func (d *Driver) Idle() bool { return len(d.records)+len(d.ready.Acks)+len(d.ready.Effects) == 0 }
