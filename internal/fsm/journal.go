package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"retake/internal/plainjson"
)

// Record is one line of the journal: an event and the facts decided about it.
type Record struct {
	At    time.Time `json:"at"`
	Cause Cause     `json:"cause"`
	Facts FactList  `json:"facts"`
}

// FactList is a list of facts. In JSON, each fact is {"kind": "…", "body": {…}}.
type FactList []Fact

type factJSON struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
}

// MarshalJSON writes the list.
func (l FactList) MarshalJSON() ([]byte, error) {
	var w bytes.Buffer
	err := writeFacts(&w, l)
	return w.Bytes(), err
}

// UnmarshalJSON reads the list. It rejects an unknown kind of fact, because skipping the fact would lose state.
func (l *FactList) UnmarshalJSON(b []byte) error {
	var raw []factJSON
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*l = make(FactList, len(raw))
	for i, one := range raw {
		row, ok := rowOf[one.Kind]
		if !ok {
			return fmt.Errorf("fsm: unknown kind of fact %q: the journal was written by a newer version", one.Kind)
		}
		f, err := facts[row].read(one.Body)
		if err != nil {
			return fmt.Errorf("fsm: fact %d (%s): %w", i, one.Kind, err)
		}
		(*l)[i] = f
	}
	return nil
}

// encode encodes a decision as a journal line.
func encode(at time.Time, e Event, facts []Fact) (Record, []byte, error) {
	cause, err := causeOf(e)
	if err != nil {
		return Record{}, nil, err
	}
	r := Record{At: at, Cause: cause, Facts: facts}
	line, err := r.line()
	return r, line, err
}

// line returns exactly the bytes that encoding/json would write for the record, followed by a line feed. It is faster
// than encoding/json, which would check and copy each fact again at every level of nesting.
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
			return fmt.Errorf("fsm: encode facts: unknown type %T", f)
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
		w.Truncate(w.Len() - 1) // drop the encoder's final line feed
		w.WriteByte('}')
	}
	w.WriteByte(']')
	return nil
}

// kinds maps the types of facts to their kinds.
var kinds = func() map[reflect.Type]string {
	all := map[reflect.Type]string{}
	for _, row := range facts {
		if row.of != nil {
			all[row.of] = row.kind
		}
	}
	return all
}()

// KindOf returns the name of a fact's kind in the journal, or an empty string for an unknown kind.
func KindOf(f Fact) string { return kinds[reflect.TypeOf(f)] }

// Kinds returns the kinds of facts that this version writes, in the order of the table.
func Kinds() (all []string) {
	for _, row := range facts {
		if row.of != nil {
			all = append(all, row.kind)
		}
	}
	return all
}

// BatchReader reads journal batches. It is not safe for concurrent use. Its zero value is ready to use.
type BatchReader struct {
	plain plainjson.Reader
	facts []Fact // facts of the current record
	room  []any  // one reusable fact of each kind, by index in the facts table
	slow  int    // number of records read by encoding/json
}

// ReadBatch reads the records of a batch. It rejects an unknown kind of fact, because skipping the fact would lose
// state.
func ReadBatch(data []byte) ([]Record, error) { return new(BatchReader).Read(data) }

// Read reads the records of a batch, as ReadBatch does. Cause.Body of each record aliases data.
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

// record reads a line in exactly the format that Record.line writes. ok is false for any other format.
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

// list reads the rest of a list of facts after the opening bracket.
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

// rowOf maps each kind of fact to the index of its row in facts.
var rowOf = func() map[string]int {
	rows := make(map[string]int, len(facts))
	for i, r := range facts {
		rows[r.kind] = i
	}
	return rows
}()

// plainOf returns a reader for facts of type T. It reuses the T in room, so each fact costs only one allocation.
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

// factRow describes how to encode and decode one kind of fact.
type factRow struct {
	kind string
	of   reflect.Type // type of the fact; nil if this version does not write it
	read func([]byte) (Fact, error)
	// plain is a faster reader for facts in exactly the format that this package writes, or nil. how describes that
	// format, and plain reuses the memory in room.
	plain func(p *plainjson.Reader, room *any) (Fact, bool)
	how   *plainjson.Type
}

// facts is the table of kinds. Kinds are never renamed. A kind that has been merged into another is still read, but no
// longer written.
var facts = []factRow{
	kindOf[RunBegan]("run_began"),
	kindOf[SettingsChanged]("settings_changed"),
	kindOf[PhaseChanged]("phase_changed"),
	kindOf[CursorAdvanced]("cursor_advanced"),
	kindOf[CooldownSet]("cooldown_set"),
	kindOf[CooldownLifted]("cooldown_lifted"),
	kindOf[LimitStated]("limit_stated"),
	kindOf[IncidentChanged]("incident_changed"),
	kindOf[TaskQueued]("task_queued"),
	kindWith("state_kept", func(f *StateKept) { f.State.readEffects() }),
	kindWith("task_rebuilt", func(f *TaskRebuilt) { f.Rebuilt.readEffects() }),
	kindOf[RebuildWritten]("rebuild_written"),
	kindOf[TaskRenamed]("task_renamed"),
	kindOf[StandingChanged]("standing_changed"),
	kindOf[Moved]("moved"),
	kindOf[AttemptBegan]("attempt_began"),
	kindOf[ContainerWaits]("container_waits"),
	kindOf[ContainerStarted]("container_started"),
	kindOf[AttemptFenced]("attempt_fenced"),
	kindOf[AttemptContract]("attempt_contract"),
	kindOf[LabelsConfirmed]("labels_confirmed"),
	kindOf[ReportAccepted]("report_accepted"),
	kindOf[WorkerAnswered]("worker_answered"),
	kindOf[WatchdogMoved]("watchdog_moved"),
	kindOf[HintsGiven]("hints_given"),
	kindOf[ClaimWentStale]("claim_went_stale"),
	kindOf[EndingSet]("ending_set"),
	kindOf[ValidationDue]("validation_due"),
	kindOf[VerdictMade]("verdict_made"),
	kindOf[UsageCounted]("usage_counted"),
	kindOf[TallyReset]("tally_reset"),
	kindOf[CommandTaken]("command_taken"),
	kindOf[CommentHeard]("comment_heard"),
	kindOf[ReviewNoted]("review_noted"),
	kindOf[WorkDelivered]("work_delivered"),
	kindOf[WorkPushed]("work_pushed"),
	kindWith("effect_planned", func(f *EffectPlanned) { f.Effect.readAnswers() }),
	kindOf[EffectDone]("effect_done"),
	kindOf[EffectDeferred]("effect_deferred"),

	// Only older journals contain these kinds.
	legacy("worker_greeted", func(f *WorkerAnswered) { f.Welcome = true }),
	legacy("stranger_met", func(*WorkerAnswered) {}),
	legacy("usage_seen", func(*UsageCounted) {}),
	legacy("attempt_used", func(f *UsageCounted) { f.Ended = true }),
	legacy("paid_calls_set", func(*UsageCounted) {}),
	{kind: "incident_over", read: func(b []byte) (Fact, error) {
		f := IncidentChanged{Over: true}
		err := json.Unmarshal(b, &f.Incident)
		return f, err
	}},
}

func kindOf[T Fact](kind string) factRow { return kindWith(kind, func(*T) {}) }

// kindWith returns the row for a kind of fact that has fields the journal does not store. complete sets these fields
// once a fact has been read.
func kindWith[T Fact](kind string, complete func(*T)) factRow {
	row := legacy(kind, complete)
	row.of = reflect.TypeFor[T]()
	return row
}

// legacy returns the row for a kind that this version reads as a T, but does not write. complete sets the fields
// implied by the kind.
func legacy[T Fact](kind string, complete func(*T)) factRow {
	how := plainjson.TypeFor[T]()
	return factRow{kind: kind, how: how, plain: plainOf(how, complete), read: func(b []byte) (Fact, error) {
		var f T
		err := json.Unmarshal(b, &f)
		complete(&f)
		return f, err
	}}
}
