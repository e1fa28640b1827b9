package trace

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/projection"
)

// Book turns a journal into spans. It holds the open spans of unfinished tasks. Only one goroutine may use it.
type Book struct {
	fleet string
	tasks map[fsm.IssueKey]*task // by projection.Fold of the issue
	done  func(at time.Time, s Span)
}

// task holds the open spans of one task.
type task struct {
	root     Span
	key      fsm.IssueKey
	nonce    string
	state    fsm.State
	n        int // number of the last attempt
	attempt  *Span
	phase    *Span // the state's span, or nil
	effects  []*effect
	reason   string // reason of the last verdict
	spent    []Attribute
	finished bool

	at   time.Time // time in the last id returned by timed
	same int       // number of earlier ids with the same time
}

// effect is an unfinished effect.
type effect struct {
	id   string
	span Span
	open bool // its parent span has been set
}

// NewBook returns an empty book. The book calls done for each span that ends, with the time of the record that ended
// it. A span ends after its children.
func NewBook(fleet string, done func(at time.Time, s Span)) *Book {
	return &Book{fleet: fleet, tasks: map[fsm.IssueKey]*task{}, done: done}
}

// phases lists the states that have a span. If within is set, the span is a child of the attempt's span.
var phases = map[fsm.State]struct {
	name   string
	within bool
}{
	fsm.Queued: {"queued", false}, fsm.Claiming: {"claim", false},
	fsm.Starting: {"start", true}, fsm.Running: {"run", true}, fsm.Suspect: {"silent", true},
	fsm.Stopping: {"stop", true},
	fsm.Backoff:  {"backoff", false}, fsm.Parked: {"parked", false}, fsm.Delivering: {"delivery", false},
	fsm.InReview: {"review", false},
	fsm.Blocked:  {"blocked", false},
}

// Apply implements projection.Projection.
func (b *Book) Apply(_ uint64, records []fsm.Record) {
	for _, r := range records {
		for _, f := range r.Facts {
			b.follow(r.At, f)
		}
		for _, t := range b.touched(r) {
			t.adoptEffects()
			if t.finished && len(t.effects) == 0 {
				delete(b.tasks, projection.Fold(t.key))
			}
		}
	}
}

// Restore implements projection.Restorer. It adds the tasks that started before the first record.
func (b *Book) Restore(_ uint64, snapshot []byte) error {
	m := fsm.New(fsm.Config{})
	if err := m.Restore(snapshot); err != nil {
		return fmt.Errorf("trace: restore snapshot: %w", err)
	}
	for _, t := range m.Tasks() {
		b.meet(t.Since, t)
	}
	return nil
}

// meet adds a task with an unknown beginning, in its current state. It does not change known tasks.
func (b *Book) meet(at time.Time, k *fsm.Task) {
	if t := b.tasks[projection.Fold(k.Key)]; t != nil && t.nonce == k.Nonce {
		return
	}
	t := b.begin(at, k.Key, k.Nonce, k.Title, k.URL)
	t.root.add(keyIncomplete, true)
	t.n = k.Attempt
	if phases[k.State].within && k.Attempt > 0 {
		t.beginAttempt(b.fleet, at, k.Attempt)
		t.attempt.add(keyIncomplete, true)
	}
	t.enter(at, k.State)
}

// touched returns the tasks that a record is about.
func (b *Book) touched(r fsm.Record) (out []*task) {
	for _, f := range r.Facts {
		if t := b.tasks[projection.Fold(fsm.About(f))]; t != nil && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

func (b *Book) follow(at time.Time, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.TaskQueued:
		t := b.begin(at, f.Task, f.Nonce, f.Title, f.URL)
		t.enter(at, fsm.Queued)
		t.waitsFor(at, f.Standing)
		return
	case fsm.TaskRebuilt:
		b.meet(at, &f.Rebuilt)
		return
	}
	if t := b.tasks[projection.Fold(fsm.About(f))]; t != nil {
		t.follow(b, at, f)
	}
}

// begin opens a task's trace. It drops an unfinished earlier task of the same issue, because the end of that task is
// missing from the journal.
func (b *Book) begin(at time.Time, key fsm.IssueKey, nonce, title, url string) *task {
	t := &task{key: key, nonce: nonce, root: Span{Context: Of(b.fleet, nonce), Name: "task", Start: at}}
	t.root.add(KeyIssue, string(key))
	t.root.add(keyTitle, title)
	t.root.add(keyURL, url)
	b.tasks[projection.Fold(key)] = t
	return t
}

func (t *task) follow(b *Book, at time.Time, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.TaskRenamed:
		t.root.add(keyTitle, f.Title)
		t.root.add(keyURL, f.URL)
	case fsm.StandingChanged:
		t.waitsFor(at, f.Standing)
	case fsm.AttemptBegan:
		b.endAttempt(at, t)
		t.beginAttempt(b.fleet, at, f.N)
		t.attempt.add(keyAction, string(f.Next.Action))
		t.attempt.add(keyReason, string(f.Next.Reason))
		t.attempt.add(keyValidates, f.Next.Validate)
	case fsm.ContainerWaits:
		t.phase.happened(at, "container waits", Attribute{keyCause, f.For})
	case fsm.AttemptContract:
		t.attempt.add(keyContract, f.Contract.Commit)
	case fsm.AttemptFenced:
		t.attempt.happened(at, "fenced", Attribute{keyCause, f.Words})
	case fsm.ContainerStarted:
		t.phase.happened(at, "container started")
	case fsm.ReportAccepted:
		t.reported(at, f)
	case fsm.EndingSet:
		t.attempt.happened(at, "ending", Attribute{keyOutcome, string(f.Outcome)},
			Attribute{keyReason, string(f.Known)}, Attribute{keyCause, f.Cause})
	case fsm.VerdictMade:
		b.judged(at, t, f)
	case fsm.UsageCounted:
		t.used(f)
	case fsm.CommandTaken:
		t.root.happened(at, "command", Attribute{keyCommand, string(f.Command)}, Attribute{keyWhy, f.Refused})
	case fsm.WorkDelivered:
		for _, s := range []*Span{t.phase, &t.root} {
			s.add(keyBranch, f.Delivery.Branch)
			s.add(keySHA, f.Delivery.SHA)
			s.add(keyDelivered, f.Delivery.URL)
		}
	case fsm.EffectPlanned:
		e := &effect{id: f.Effect.ID, span: Span{
			Context: t.root.Context.Child("effect " + f.Effect.ID),
			Name:    "effect " + string(f.Effect.Kind), Start: at,
		}}
		e.span.add(KeyIssue, string(t.key))
		e.span.add(keyEffect, f.Effect.ID)
		t.effects = append(t.effects, e)
	case fsm.EffectDeferred:
		t.deferred(at, f)
	case fsm.EffectDone:
		b.effectDone(at, t, f)
	case fsm.Moved:
		b.moved(at, t, f)
	}
}

func (t *task) used(f fsm.UsageCounted) {
	if !f.Ended {
		return
	}
	t.attempt.add(keyTokens, f.Usage.Tokens)
	t.attempt.add(keyPaidCalls, f.Usage.PaidCalls)
	t.attempt.add(keyCost, f.Usage.CostUSD)
	t.spent = []Attribute{
		{keyTokens, f.Spent.Tokens},
		{keyPaidCalls, f.Spent.PaidCalls},
		{keyCost, f.Spent.CostUSD},
	}
}

func (t *task) waitsFor(at time.Time, s fsm.Standing) {
	if t.state == fsm.Queued && len(s.After) > 0 {
		issues := make([]string, len(s.After))
		for i, k := range s.After {
			issues[i] = string(k)
		}
		t.phase.happened(at, "waits for", Attribute{keyIssues, issues})
	}
}

func (t *task) beginAttempt(fleet string, at time.Time, n int) {
	id := fsm.AttemptID(t.nonce, n)
	p, _ := OfAttempt(fleet, id)
	t.n = n
	t.attempt = &Span{Context: p, Parent: t.root.Context.Span, Name: "attempt", Start: at, Worker: id}
	t.attempt.add(KeyIssue, string(t.key))
	t.attempt.add(keyAttempt, int64(n))
	t.attempt.add(keyWorker, id)
}

func (t *task) reported(at time.Time, f fsm.ReportAccepted) {
	t.attempt.happened(at, "report", Attribute{keyOK, f.OK}, Attribute{keyFinal, f.Final}, Attribute{keyStage, f.Stage},
		Attribute{keyErrorID, f.Ref.ID})
	if t.attempt != nil && f.Worker == t.attempt.Worker && f.Final && (t.attempt.Report == 0 || f.OK) {
		t.attempt.Report = f.Ref.Seq
	}
}

func (t *task) deferred(at time.Time, f fsm.EffectDeferred) {
	for _, e := range t.effects {
		if e.id == f.Effect {
			e.span.happened(at, "deferred", Attribute{keyTries, int64(f.Tries)}, Attribute{keyUntil, moment(f.Until)},
				Attribute{keyWhy, f.Why})
			e.span.add(keyTries, int64(f.Tries))
		}
	}
}

// adoptEffects makes the spans of newly planned effects children of the current state's span.
func (t *task) adoptEffects() {
	for _, e := range t.effects {
		if e.open {
			continue
		}
		e.open, e.span.Parent = true, t.root.Context.Span
		if t.phase != nil {
			e.span.Parent = t.phase.Context.Span
		}
	}
}

func (b *Book) effectDone(at time.Time, t *task, f fsm.EffectDone) {
	t.effects = slices.DeleteFunc(t.effects, func(e *effect) bool {
		if e.id != f.Effect {
			return false
		}
		e.span.Failed = oneLine("", f.Failed)
		if !e.open { // planned and replaced by the same record, so it never ran
			return true
		}
		b.end(at, &e.span)
		return true
	})
}

func (b *Book) moved(at time.Time, t *task, f fsm.Moved) {
	if t.phase != nil {
		t.phase.add(keyEndedBy, string(f.On))
		b.end(at, t.phase)
		t.phase = nil
	}
	if !phases[f.To].within {
		b.endAttempt(at, t)
	}
	t.enter(at, f.To)
	t.phase.add(keyWhy, f.Why)
	if !f.Until.IsZero() {
		t.phase.add(keyUntil, moment(f.Until))
	}
	if f.To == fsm.Backoff || f.To == fsm.Blocked {
		t.phase.add(keyReason, t.reason)
	}
	if projection.Over(f.To) {
		t.finished = true
		t.root.add(keyOutcome, f.To.String())
		t.root.add(keyEndedBy, string(f.On))
		t.root.add(keyWhy, f.Why)
		t.root.add(keyAttempts, int64(t.n))
		for _, a := range t.spent {
			t.root.add(a.Key, a.Value)
		}
		b.end(at, &t.root)
	}
}

// enter opens the span of a state.
func (t *task) enter(at time.Time, s fsm.State) {
	t.state = s
	phase, has := phases[s]
	if !has {
		return
	}
	parent := t.root.Context
	if phase.within && t.attempt != nil {
		parent = t.attempt.Context
	}
	t.phase = &Span{
		Context: parent.Child(phase.name + " " + t.timed(at)), Parent: parent.Span, Name: phase.name,
		Start: at,
	}
	t.phase.add(KeyIssue, string(t.key))
	if t.n > 0 {
		t.phase.add(keyAttempt, int64(t.n))
	}
}

func (b *Book) endAttempt(at time.Time, t *task) {
	if t.attempt != nil {
		b.end(at, t.attempt)
		t.attempt = nil
	}
}

func (b *Book) end(at time.Time, s *Span) {
	if s.End = at; at.Before(s.Start) { // a rebuild can mix times from two clocks
		s.End = s.Start
	}
	b.done(at, *s)
}

// timed formats a time for span ids. It adds a counter, because one record can move a task twice.
func (t *task) timed(at time.Time) string {
	if t.same++; !at.Equal(t.at) {
		t.at, t.same = at, 0
	}
	return strconv.FormatInt(at.UnixNano(), 10) + "." + strconv.Itoa(t.same)
}

func moment(t time.Time) string { return wire.At(t).Format(time.RFC3339) }

func itoa(n int) string { return strconv.Itoa(n) }
