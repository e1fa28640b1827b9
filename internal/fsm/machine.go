package fsm

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
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
