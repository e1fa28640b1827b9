package fsm

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// Phase is what the director as a whole is doing.
type Phase string

// The phases. Changes between them are facts.
const (
	PhaseMonitor  Phase = "MONITOR"
	PhaseCooldown Phase = "COOLDOWN"
	PhasePaused   Phase = "PAUSED"
	PhaseDraining Phase = "DRAINING"
	PhaseShutdown Phase = "SHUTDOWN"
)

// Config is what Step decides by. Apply never reads it.
type Config struct {
	MaxWorkers   int           // tasks that hold a slot, ≥ 1
	HeartbeatTTL time.Duration // a worker silent for longer is suspect
	Watchdog     time.Duration // an attempt's whole life
	StartTimeout time.Duration // container started → hello
	StopGrace    time.Duration
	// PendingTimeout is for how long a runtime that places attempts by itself may look for room for one; 0:
	// what is started runs.
	PendingTimeout time.Duration
	// FenceAfter is for how long the end of an attempt is asked for that nobody can confirm, before the attempt
	// is fenced.
	FenceAfter time.Duration
	// CheckoutTravels: attempts that begin from now on fetch their checkout, and send back what they change.
	// Otherwise they work on the director's own.
	CheckoutTravels bool
	ClaimStale      time.Duration // a claim without progress is given back; 0: never
	RemindAfter     time.Duration // a question without an answer is raised once more; 0: never
	DeliverFor      time.Duration // finished work that cannot be handed in is tried again for so long; 0: for ever
	// Caps bound how many tasks with a label hold a slot, by the label in lower case; 0: none begins.
	Caps map[string]int
	// Repositories are those whose issues are worked on; what is under way in another is finished. Empty: any.
	Repositories []string
	// Only are the issues that this run takes from the queue; others wait there. What was begun is gone on with
	// in any case. Empty: all.
	Only []IssueKey
	// CleanValidation: what an attempt has done is delivered only after another one, without an agent, has
	// validated it.
	CleanValidation bool
	FixRounds       int // of CODE, the first included, that a clean container may refuse; ≥ 1
	Policy          *policy.Policy
	// HasAlternative: another model is configured for the stages.
	HasAlternative bool
	// Models are the resources that the stages use ("model.anthropic"); while one is closed no attempt begins.
	// Empty: any model may be used.
	Models []string
	// MaxStatedWait is for how long one task's word closes a resource for others, in sum over a day; 0: it
	// closes nothing.
	MaxStatedWait time.Duration
	Classify      func(recovery.Evidence) recovery.Finding
	Classifier    any // stands for Classify, and is compared: what it has found before is taken; nil: nothing is
	// Retry paces failed effects; its Max should be minutes, since an outbox waits for as long as an outage lasts.
	Retry recovery.Backoff
}

// Machine decides. It is not safe for concurrent use: one goroutine owns it.
//
// It takes the events. Below it are parts, of which each knows only those further below: attempts decides how
// attempts begin and end, recorder turns decisions into facts and effects, agenda says what is due and whose turn it
// is, and memory is the hard state.
type Machine struct {
	attempts

	answers []answer // that this process gives
}

// attempts decides how attempts begin, end, and are judged.
type attempts struct{ recorder }

// recorder is the step under way: what it has decided is recorded here, and so applied to the memory at once.
type recorder struct {
	agenda

	unknownWorkers unknownWorkers
	facts          []Fact
	effects        []Effect
}

// agenda is what is due, and whose turn it is; all of it follows from the memory, and is lost with the process.
type agenda struct {
	memory

	timers            queue     // by deadline
	ready             waiters   // may begin an attempt
	dirty             []*Task   // may have something to emit
	began             time.Time // when this process was told to begin
	grace             time.Time // no silence counts before it
	githubClosed      bool      // effects may be held back by GitHub's cooldown
	dispatchableSince time.Time // since then no pause, drain, cooldown, incident or restart kept tasks waiting
}

// memory is the hard state, and what finds things in it.
type memory struct {
	cfg    Config
	hard   hardState
	tasks  map[IssueKey]*Task // by folded key
	nonces map[string]*Task
	slots  slots     // hold one of director.max_workers
	now    time.Time // of the last event; never behind decided
}

// RepoCursor says how far a repository was read.
type RepoCursor struct {
	Repo   string `json:"repo"`
	Cursor string `json:"cursor"`
}

// New returns an empty machine.
func New(cfg Config) *Machine {
	m := &Machine{}
	m.memory = memory{
		cfg: cfg, tasks: map[IssueKey]*Task{}, nonces: map[string]*Task{},
		hard: hardState{
			Version: SnapshotVersion, Phase: PhaseMonitor,
			Cooldowns: []Cooldown{}, Cursors: []RepoCursor{}, Incidents: []Incident{}, Tasks: []*Task{},
		},
		slots: slots{byRepo: map[string]int{}, byLabel: map[string]int{}},
	}
	return m
}

// Step decides about one event. Every fact that it returns is applied already; the effects must wait until those facts
// are durable. Deadlines that have passed by the event's time are decided, too, after the event itself: a heartbeat
// that comes late but before the expiry was decided counts.
func (m *Machine) Step(e Event) ([]Fact, []Effect) {
	m.advance(e.At)
	m.facts, m.effects = nil, nil
	e.Body.step(m)
	if !m.began.IsZero() { // before, a state is being built anew
		if signs, ok := e.Body.(WorkersSeen); !ok || !signs.More {
			m.passDeadlines()
		}
		m.dispatch()
	}
	slices.SortFunc(m.dirty, func(a, b *Task) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, t := range slices.Compact(m.dirty) {
		m.emitFor(t)
	}
	m.dirty = m.dirty[:0]
	return m.facts, m.effects
}

// Decided returns what the last step decided. It belongs to the machine until the next step.
func (m *recorder) Decided() ([]Fact, []Effect) { return m.facts, m.effects }

// NextDeadline returns when time alone will change something; zero if nothing waits for time.
func (m *agenda) NextDeadline() time.Time {
	_, at := m.timers.first()
	if m.githubClosed || m.hard.Phase == PhaseCooldown {
		at = sooner(at, m.githubOpensAt())
	}
	// Work is ready and only waits for the model.
	if m.ready.n > 0 && m.slotFree() && m.modelOpensAt().After(m.now) {
		at = sooner(at, m.modelOpensAt())
	}
	if m.ready.n > 0 && m.slotFree() && m.hostOpensAt().After(m.now) {
		at = sooner(at, m.hostOpensAt())
	}
	return sooner(at, m.incidentDeadline())
}

// Tasks lists the tasks in order of arrival. They belong to the machine: read, don't keep.
func (m *memory) Tasks() []*Task { return slices.Clone(m.hard.Tasks) }

// Live are the tasks whose current attempt may have a worker.
func (m *memory) Live() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for t := range m.slots.all() {
			if t.State.Info().Live && !yield(t) {
				return
			}
		}
	}
}

// Task returns one task, or nil. Upper and lower case in a repository's name are the same, as on GitHub.
func (m *memory) Task(k IssueKey) *Task { return m.tasks[k.fold()] }

// Worker returns the task that a worker's id belongs to, and whether its attempt is the current one and may still be
// heard.
func (m *memory) Worker(id string) (t *Task, current bool) {
	nonce, n, ok := ParseAttemptID(id)
	if !ok {
		return nil, false
	}
	t = m.nonces[nonce]
	return t, t != nil && t.Attempt == n && t.State.Info().Live
}

// Phase returns the director's phase.
func (m *memory) Phase() Phase { return m.hard.Phase }

// Now returns the time of the last event.
func (m *memory) Now() time.Time { return m.now }

// Cursor returns how far a repository was read; empty: not at all.
func (m *memory) Cursor(repo string) string {
	for _, c := range m.hard.Cursors {
		if c.Repo == repo {
			return c.Cursor
		}
	}
	return ""
}

func (m *memory) advance(at time.Time) {
	if at.After(m.now) {
		m.now = at.Round(0).UTC()
	}
}

// record applies a fact and keeps it for the journal.
func (m *recorder) record(f Fact) {
	m.facts = append(m.facts, f)
	m.apply(m.now, f)
}

// move makes the table's transition; where the table has none, nothing happens.
func (m *recorder) move(t *Task, on Trigger, why string, until time.Time) {
	to, ok := t.State.After(on)
	if !ok {
		return
	}
	m.record(Moved{OfTask: OfTask{t.Key}, Attempt: t.Attempt, From: t.State, To: to, On: on, Why: why, Until: until})
	if !t.holdsSlot() { // one in Backoff whose issue is being read again keeps its slot
		m.slotReleased(t, func(i *Incident) bool { return t.provesWell(on, i) })
	}
	m.revisit(t)
	// Before a claim is won there is no comment, Done and Released have comments of their own, and the other
	// states are too short.
	if on != OnSeenAgain { // the comment still says Running
		t.soft.commentDue, t.soft.commentWhy = to == Running || to == Backoff || to == Parked || to == Blocked, why
	}
}

// plan makes an effect durable. An effect that is planned already is not planned twice.
func (m *recorder) plan(t *Task, e Effect) {
	e.Task, e.Nonce, e.Attempt, e.Worker = t.Key, t.Nonce, t.Attempt, t.AttemptID()
	e.Answers, e.At = t.Answers, m.now
	e.ID = effectID(e.Kind, e.Worker, e.Answers)
	if t.Work.Branch != "" {
		e.Work = new(t.Work)
	}
	if !slices.ContainsFunc(t.Outbox, func(p Planned) bool { return p.Effect.ID == e.ID }) {
		m.record(EffectPlanned{Effect: e})
		m.revisit(t)
	}
}

// emit hands out a soft effect.
func (m *recorder) emit(t *Task, e Effect) {
	if t != nil {
		e.Task, e.Nonce, e.Attempt = t.Key, t.Nonce, t.Attempt
		if e.Worker == "" {
			e.Worker = t.AttemptID()
		}
	}
	e.ID = string(e.Kind) + "/" + string(e.Task) + e.Worker
	m.effects = append(m.effects, e)
}

// A process begins: workers get twice the TTL to be seen again, and what was outstanding is emitted again.
func (b Booted) step(m *Machine) {
	before := m.hard.Settings
	m.record(RunBegan(b))
	if m.hard.Phase == PhaseShutdown {
		m.setPhase(cmp.Or(m.hard.Intent, m.defaultPhase()), "a new run")
	}
	m.began, m.dispatchableSince, m.githubClosed = m.now, m.now, m.githubOpensAt().After(m.now)
	m.grantGrace()
	m.dropUncovered(before, b.Settings)
}

// setPhase records a change of phase.
func (m *recorder) setPhase(to Phase, why string) {
	if m.hard.Phase != to {
		m.record(PhaseChanged{From: m.hard.Phase, To: to, Why: why})
		m.dispatchableSince = m.now
		m.revisitAll() // which deadlines count depends on the phase
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// sooner is the earlier of two deadlines; zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func passed(now, d time.Time) bool { return !d.After(now) }
