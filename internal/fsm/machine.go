package fsm

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// Config configures the decisions of Step. Apply never reads it.
type Config struct {
	MaxWorkers   int           // tasks that hold a slot, ≥ 1
	HeartbeatTTL time.Duration // a worker silent for longer is suspect
	Watchdog     time.Duration // time limit of an attempt
	StartTimeout time.Duration // container started → hello
	StopGrace    time.Duration
	// PendingTimeout bounds the wait for room if the runtime schedules attempts. Zero means that attempts run at once.
	PendingTimeout time.Duration
	// FenceAfter bounds the time for which the director tries to confirm an attempt's end. Then it fences the attempt.
	FenceAfter time.Duration
	// CheckoutTravels makes future attempts fetch their checkout and send back their changes. Otherwise they work on
	// the director's checkout.
	CheckoutTravels bool
	ClaimStale      time.Duration // a claim without progress is given back; 0 means never
	PlainAnswers    bool          // a comment without a command answers a question that the agent wrote
	RemindAfter     time.Duration // people are reminded of an unanswered question after it; 0 means never
	DeliverFor      time.Duration // bounds the retries of a failing delivery; 0 means no limit
	// Caps bound how many tasks with a label hold a slot, by the label in lower case. With a cap of 0 no such
	// task begins.
	Caps map[string]int
	// Repositories lists the repositories to work on. Tasks under way in other repositories are finished. An empty list
	// means any repository.
	Repositories []string
	// Only lists the issues that this run takes from the queue. Others wait there. Existing claims continue in any
	// case. An empty list means all issues.
	Only []IssueKey
	// CleanValidation delivers work only after a separate attempt without an agent has validated it.
	CleanValidation bool
	FixRounds       int // runs of CODE, including the first, that a clean container may refuse; ≥ 1
	Policy          *policy.Policy
	// Callers replace the default callers, by the name of the stage.
	Callers map[string]string
	// HasAlternative means that another model is configured for the stages.
	HasAlternative bool
	// Models are the resources that the stages use, such as "model.anthropic". Attempts wait while one of them is
	// closed. If the list is empty, attempts wait for any closed model.
	Models []string
	// MaxStatedWait bounds the time for which one task alone may close resources for others, in total per day. With
	// zero, one task alone cannot close a resource.
	MaxStatedWait time.Duration
	// Programs identifies the programs that the stages start, and where they must be. No attempt begins before a search
	// for them. An empty value disables the search.
	Programs   string
	Classify   func(recovery.Evidence) recovery.Finding
	Classifier any // identifies Classify to reuse its earlier findings; nil disables that
	// Retry paces failed effects; its Max should be minutes, since an outbox waits for as long as an outage lasts.
	Retry recovery.Backoff
}

// Machine makes the decisions. It is not safe for concurrent use.
//
// It takes the events. Its parts form layers, and each part uses only the parts below it. From top to bottom, attempts
// decides how attempts begin and end, recorder turns decisions into facts and effects, agenda keeps the deadlines and
// chooses the next task, and memory holds the hard state.
type Machine struct {
	attempts

	answers []answer // given by this process
}

// attempts decides how attempts begin, end, and are judged.
type attempts struct{ recorder }

// agenda keeps the deadlines and chooses the next task. Its state is derived from the memory and lost with the process.
type agenda struct {
	memory

	timers            queue     // by deadline
	ready             waiters   // may begin an attempt
	finished          int       // tasks waiting for their first delivery, which bound claims (see mayClaim)
	owes              int       // tasks that still need a comment or a pull request (see Owed)
	dirty             []*Task   // may have something to emit
	began             time.Time // when Booted was decided
	grace             time.Time // silence before it does not count
	githubClosed      bool      // effects may be held back by GitHub's cooldown
	dispatchableSince time.Time // since then no pause, drain, cooldown, incident or restart kept tasks waiting
	searched          string    // the last Config.Programs with a search
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

// Step decides about one event. The facts that it returns are already applied. The caller must hold the effects
// back until those facts are durable. Step handles the event first and then the deadlines that have passed by
// its time, so a heartbeat that comes late, but before its expiry was decided, still counts.
func (m *Machine) Step(e Event) ([]Fact, []Effect) {
	m.advance(e.At)
	m.facts, m.effects = nil, nil
	e.Body.step(m)
	if !m.began.IsZero() { // until then, the state is being rebuilt
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

// Decided returns the last step's facts and effects. The next step overwrites them.
func (m *recorder) Decided() ([]Fact, []Effect) { return m.facts, m.effects }

// NextDeadline returns when time alone will change something, or zero if nothing waits for time. It may change
// with every step, so the shell must ask again after each one.
func (m *agenda) NextDeadline() time.Time {
	_, at := m.timers.first()
	if m.githubClosed || m.hard.Phase == PhaseCooldown {
		at = sooner(at, m.githubOpensAt())
	}
	// Ready work with a free slot waits only for the model.
	if m.ready.n > 0 && m.slotFree() && m.modelOpensAt().After(m.now) {
		at = sooner(at, m.modelOpensAt())
	}
	if m.ready.n > 0 && m.slotFree() && m.hostOpensAt().After(m.now) {
		at = sooner(at, m.hostOpensAt())
	}
	if open := m.closed(GitHubClaims).Until; m.ready.n > 0 && m.slotFree() && open.After(m.now) {
		at = sooner(at, open)
	}
	return sooner(at, m.incidentDeadline())
}

// A process begins. Workers get twice the TTL to be seen again, and outstanding effects are emitted again.
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
