package fsm

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrStopped means that the driver was stopped because the journal and the machine may differ. The shell must reload.
var ErrStopped = errors.New("fsm: driver stopped")

// Token stands for an input to acknowledge once its decision is durable. Zero means no acknowledgement.
type Token uint64

// Batch holds records that must be in the journal before their effects become visible. They are appended as one
// message.
type Batch struct {
	ID      string // unique; a retry of the same append carries the same ID
	After   uint64 // the append must fail unless this is the journal's last sequence
	Records []Record
	Data    []byte // the records as JSON Lines; nil if Encode returns no data
}

// Ready lists the shell's next work.
type Ready struct {
	Batch   *Batch   // nil if there is nothing to append or an append is under way
	Acks    []Token  // inputs with durable decisions
	Effects []Effect // effects with durable facts, in order
}

// batchBytes bounds one batch; the default limit of a JetStream message is 1 MiB. A single larger record is sent in a
// separate batch.
const batchBytes = 256 << 10

// Driver makes a machine durable. The machine decides at once, but its effects become visible only after the append.
// The driver does not do I/O. The shell appends the batch that Ready returns, and confirms it with Appended.
type Driver struct {
	// Encode encodes a decision as a line of the journal. The simulator replaces it because its journal keeps records
	// in memory.
	Encode func(at time.Time, e Event, facts []Fact) (Record, []byte, error)

	m        *Machine
	writer   string     // names this process in batch ids
	last     uint64     // the journal's last sequence, as far as this process knows
	records  []decision // not durable yet
	inFlight int        // number of records in the batch under way
	ready    Ready      // work that does not wait for an append
	stopped  bool
}

// decision is a record and the effects and acks that wait until it is durable.
type decision struct {
	record Record
	data   []byte
	then   Ready
}

// NewDriver wraps a machine that was restored up to the journal's sequence last. Writer must be unique to the process.
func NewDriver(m *Machine, last uint64, writer string) *Driver {
	return &Driver{Encode: encode, m: m, writer: writer, last: last}
}

// Machine returns the machine, for reading.
func (d *Driver) Machine() *Machine { return d.m }

// Last returns the journal's last sequence that is known to be ours.
func (d *Driver) Last() uint64 { return d.last }

// Offer decides about an event. Ready hands out the token and the effects once the decision is durable. After any error
// the driver is stopped.
func (d *Driver) Offer(e Event, ack Token) error {
	if d.stopped {
		return ErrStopped
	}
	facts, effects := d.m.Step(e)
	if len(facts) > 0 {
		r, data, err := d.Encode(d.m.now, e, facts)
		if err != nil { // the machine holds a decision that cannot be journaled
			d.Stop()
			return fmt.Errorf("fsm: record of %s: %w", e.Body.eventKind(), err)
		}
		d.records = append(d.records, decision{record: r, data: data})
	}
	to := &d.ready
	if n := len(d.records); n > 0 { // even an input without a decision waits for earlier decisions
		to = &d.records[n-1].then
	}
	if ack != 0 {
		to.Acks = append(to.Acks, ack)
	}
	to.Effects = append(to.Effects, effects...)
	return nil
}

// Ready returns the shell's next work. Each acknowledgement, effect and batch is returned once. At most one
// batch is in flight: the next one is returned after Appended has confirmed it.
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

// Appended confirms that the batch under way is in the journal at seq.
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

// Stop ends the driver after an append that was refused or may be lost. The machine then holds decisions that the
// journal may not have. The driver stops handing out work, and the shell reloads.
func (d *Driver) Stop() { d.stopped = true }

// Idle reports whether every decision is durable and was handed out.
func (d *Driver) Idle() bool { return len(d.records)+len(d.ready.Acks)+len(d.ready.Effects) == 0 }
