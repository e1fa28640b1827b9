package fsm

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// Config configures the decisions of Step. Apply never reads it.
type Config struct {
	MaxWorkers   int           // maximum number of tasks that hold a slot, ≥ 1
	HeartbeatTTL time.Duration // a worker that is silent for longer becomes suspect
	Watchdog     time.Duration // time limit of an attempt
	StartTimeout time.Duration // maximum time from the container's start to the hello
	StopGrace    time.Duration
	// PendingTimeout limits how long an attempt may wait for capacity in a cluster. Zero means that the runtime starts
	// attempts at once.
	PendingTimeout time.Duration
	// FenceAfter limits the time for confirming an attempt's end. After that, the director fences the attempt.
	FenceAfter time.Duration
	// CheckoutTravels makes future attempts fetch their checkout and send back their changes, instead of working on the
	// director's checkout.
	CheckoutTravels bool
	ClaimStale      time.Duration // time without progress after which a claim is released; 0 means never
	PlainAnswers    bool          // a comment without a command answers a question that the agent wrote
	RemindAfter     time.Duration // time until a reminder of an unanswered question; 0 means never
	DeliverFor      time.Duration // time limit for retrying a failing delivery; 0 means unlimited
	// Caps maps a label, in lower case, to the maximum number of tasks with this label that may hold a slot. 0 means
	// that such tasks never begin.
	Caps map[string]int
	// Repositories lists the repositories from which to take new issues. The director still finishes existing tasks in
	// other repositories. An empty list means any repository.
	Repositories []string
	// Projects holds the settings of repositories that differ from the others, by lower-case name. Only the fields that
	// concern stages and budgets count: CleanValidation, FixRounds, Policy, Callers and HasAlternative.
	Projects map[string]*Config
	// Only lists the issues that this run may take from the queue. The others wait, but existing claims continue. An
	// empty list means all issues.
	Only []IssueKey
	// CleanValidation requires a separate attempt, without an agent, to validate the work before delivery.
	CleanValidation bool
	FixRounds       int // maximum number of CODE runs under clean validation, including the first; ≥ 1
	Policy          *policy.Policy
	// Callers maps stage names to callers that override the defaults.
	Callers map[string]string
	// HasAlternative means that another model is configured for the stages.
	HasAlternative bool
	// Models lists the resources that the stages use, such as "model.anthropic". Attempts wait while one of them is
	// closed. If the list is empty, attempts wait for any closed model.
	Models []string
	// MaxStatedWait limits how long in total per day the reports of a single task can close resources for all tasks. If
	// it is 0, the reports of a single task cannot close a resource.
	MaxStatedWait time.Duration
	// Programs identifies the programs that the stages start, and where they must exist. No attempt begins before the
	// director has searched for them. An empty value disables the search.
	Programs   string
	Classify   func(recovery.Evidence) recovery.Finding
	Classifier any // identifies Classify, so that its findings can be reused; nil disables this
	// Retry is the backoff for failed effects. Its Max should be a few minutes, because an outbox may wait for hours
	// during an outage.
	Retry recovery.Backoff
}

// of returns the settings for a task's repository, with the contract that its attempt began with.
func (c *Config) of(t *Task) *Config {
	if p := c.Projects[strings.ToLower(t.Key.Repo())]; p != nil {
		c = p
	}
	if k := t.Contract; k != nil && k.FixRounds > 0 {
		own := *c
		own.FixRounds, c = k.FixRounds, &own
	}
	if k := t.Contract; k != nil && k.Staged {
		own := *c
		own.Callers, own.HasAlternative = map[string]string{}, k.Alternative
		for _, s := range k.Callers {
			own.Callers[s.Stage] = s.Caller
		}
		return &own
	}
	return c
}

// Machine makes the decisions. It is not safe for concurrent use.
//
// Machine handles the events. Its parts form layers, and each part uses only the parts below it. From top to bottom,
// attempts begins, ends and judges attempts, and recorder turns decisions into facts and effects. Below them, agenda
// tracks deadlines and chooses the next task, and memory contains the hard state.
type Machine struct {
	attempts

	answers []answer // this process's replies to commands
}

// attempts begins, ends and judges attempts.
type attempts struct{ recorder }

// agenda tracks deadlines and chooses the next task. Its state is derived from the memory and lost with the process.
type agenda struct {
	memory

	timers            queue         // tasks with a deadline, earliest first
	ready             waiters       // tasks that may begin an attempt
	finished          int           // tasks waiting for their first delivery (see mayClaim)
	owes              int           // tasks that still need a comment or a pull request (see Owed)
	dirty             []*Task       // tasks that may have an effect to emit
	began             time.Time     // time of Booted
	grace             time.Time     // a worker's silence before this time does not count
	late              time.Duration // extends the deadlines for workers' signs of life
	githubClosed      bool          // set while a GitHub cooldown might hold up effects
	dispatchableSince time.Time     // end of the last pause, drain, cooldown, incident or restart
	searched          string        // Config.Programs at the last search

	readTo    map[string]string // the cursor of the last poll, by repository
	undecided []IssueKey        // issues to read again, because the machine could not decide on them
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
	m.readTo = map[string]string{}
	return m
}

// Step decides on one event. It applies the facts before returning them, but the caller must delay the effects until
// the facts are durable. Step handles the event before the deadlines that have passed by then, so a heartbeat counts
// even if its deadline passes in the same step.
func (m *Machine) Step(e Event) ([]Fact, []Effect) {
	m.advance(e.At)
	m.facts, m.effects = nil, nil
	e.Body.step(m)
	if _, late := e.Body.(DirectorLate); !late && !m.began.IsZero() { // before Booted, the state is being rebuilt
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

// Decided returns the last step's facts and effects. The next step overwrites both.
func (m *recorder) Decided() ([]Fact, []Effect) { return m.facts, m.effects }

// NextDeadline returns the next time at which the machine must decide even if no event arrives, or zero. It may change
// with every step, so the shell must call it after each step.
func (m *agenda) NextDeadline() time.Time {
	_, at := m.timers.first()
	if m.githubClosed || m.hard.Phase == PhaseCooldown {
		at = sooner(at, m.githubOpensAt())
	}
	// While a slot is free, ready tasks can wait for a closed model, the host or GitHub's quota for claims.
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

// Workers get twice the TTL to send a sign of life, and outstanding effects are emitted again.
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
