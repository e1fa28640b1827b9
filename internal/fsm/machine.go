package fsm

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
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

// The resources that limits close. A stage's model requests are the default model's, unless something says which.
const (
	GitHubRead   = "github.read"
	GitHubWrite  = "github.write"
	ModelDefault = "model.default"
	modelPrefix  = "model."
)

// Config is what Step decides by. Apply never reads it.
type Config struct {
	MaxWorkers   int           // tasks that hold a slot, ≥ 1
	HeartbeatTTL time.Duration // silence beyond it is suspect
	Watchdog     time.Duration // an attempt's whole life
	StartTimeout time.Duration // container started → hello
	StopGrace    time.Duration
	ClaimStale   time.Duration // a claim without progress is given back; 0: never
	Policy       *recovery.Policy
	// HasAlternative: another model is configured for the stages.
	HasAlternative bool
	// Models are the resources that the stages use ("model.anthropic"); while one is closed no attempt begins. Empty: any
	// model may be used.
	Models   []string
	Classify func(recovery.Evidence) recovery.Finding
	// Retry paces failed effects; its Max should be minutes, since an outbox waits for as long as an outage lasts.
	Retry recovery.Backoff
}

// Cooldown is a deadline before which a resource is not used.
type Cooldown struct {
	Resource string    `json:"resource"`
	Until    time.Time `json:"until"`
	Why      string    `json:"why"`
}

// Machine decides. It is not safe for concurrent use: one goroutine owns it.
type Machine struct {
	cfg Config

	// Hard state.
	decided   time.Time // of the last fact
	runID     string
	phase     Phase
	intent    Phase      // Paused or Draining if the operator wants it so, whatever the phase is meanwhile
	pausedAt  time.Time  // when the last pause began
	stale     []IssueKey // claims that were given back without progress, newest last, at most maxStale
	seq       uint64     // tasks so far
	order     []*Task    // in order of arrival
	cooldowns []Cooldown // at most one for each resource, in order of last use
	cursors   []RepoCursor
	incidents []Incident // at most maxIncidents, in order of last change

	// Derived.
	tasks  map[IssueKey]*Task // by folded key
	nonces map[string]*Task
	slots  int
	timers queue
	ready  queue

	// Soft.
	now   time.Time // of the last event; never behind decided
	began time.Time // when this process was told to begin
	grace time.Time // no silence counts before it
	holds bool      // effects may be held back by GitHub's cooldown
	calm  time.Time // since when waiting tasks could have gone on: no pause, drain, cooldown, incident or absence since
	// strangers are workers without an attempt that were heard, and when they were last fenced.
	strangers map[string]time.Time

	// The step under way.
	facts   []Fact
	effects []Effect
	touched []*Task
}

// RepoCursor says how far a repository was read.
type RepoCursor struct {
	Repo   string `json:"repo"`
	Cursor string `json:"cursor"`
}

// New returns an empty machine.
func New(cfg Config) *Machine {
	return &Machine{
		cfg: cfg, phase: PhaseMonitor, tasks: map[IssueKey]*Task{}, nonces: map[string]*Task{}, strangers: map[string]time.Time{},
		timers: queue{pos: func(t *Task) *int { return &t.soft.timer }},
		ready:  queue{pos: func(t *Task) *int { return &t.soft.ready }},
	}
}

// Step decides about one event. Every fact that it returns is applied already; the effects must wait until those facts
// are durable. Deadlines that have passed by the event's time are decided, too, after the event itself: a heartbeat
// that comes late but before the expiry was decided counts.
func (m *Machine) Step(e Event) ([]Fact, []Effect) {
	m.advance(e.At)
	m.facts, m.effects = nil, nil
	switch b := e.Body.(type) {
	case Booted:
		m.booted(b)
	case Resumed:
		m.resumed(b)
	case Signalled:
		m.setPhase(PhaseShutdown, "signal: "+b.Signal)
	case OperatorSaid:
		m.operatorSaid(b.Command)
	case Answered:
		m.answered(b)
	case BudgetEdited:
		m.budgetEdited(b)
	case IssuesSeen:
		m.issuesSeen(b)
	case Hello:
		m.hello(b)
	case Heard:
		m.heard(b)
	case Reported:
		m.reported(b)
	case Listed:
		m.listed(b)
	case CooldownReported:
		m.coolDown(b.Resource, b.Until, b.Why)
	case EffectEnded:
		m.effectEnded(b)
	case Tick:
	}
	m.expire()
	m.dispatch()
	slices.SortFunc(m.touched, func(a, b *Task) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, t := range m.touched {
		t.soft.touched = false
		m.pump(t)
	}
	m.touched = m.touched[:0]
	return m.facts, m.effects
}

// Decided returns what the last step decided. It belongs to the machine until the next step.
func (m *Machine) Decided() ([]Fact, []Effect) { return m.facts, m.effects }

// NextDeadline returns when time alone will change something; zero if nothing waits for time.
func (m *Machine) NextDeadline() time.Time {
	_, at := m.timers.first()
	if m.holds || m.phase == PhaseCooldown {
		at = sooner(at, m.githubOpens())
	}
	// Work is ready and only waits for the model.
	if t, _ := m.ready.first(); t != nil && m.phase == PhaseMonitor && m.slots < m.cfg.MaxWorkers {
		if end := m.modelOpens(); end.After(m.now) {
			at = sooner(at, end)
		}
	}
	return sooner(at, m.incidentDeadline())
}

// Pending lists the durable effects that are outstanding, the oldest task's first. Only the first of each task may be
// under way.
func (m *Machine) Pending() []Planned {
	var all []Planned
	for _, t := range m.order {
		all = append(all, t.Outbox...)
	}
	return all
}

// Tasks lists the tasks in order of arrival. They belong to the machine: read, don't keep.
func (m *Machine) Tasks() []*Task { return slices.Clone(m.order) }

// Task returns one task, or nil. GitHub does not tell upper from lower case in a repository's name, nor does this.
func (m *Machine) Task(k IssueKey) *Task { return m.tasks[k.fold()] }

// Worker returns the task that a worker's id belongs to, and whether its attempt is the current one and may still be
// heard.
func (m *Machine) Worker(id string) (t *Task, current bool) {
	nonce, n, ok := ParseAttemptID(id)
	if !ok {
		return nil, false
	}
	t = m.nonces[nonce]
	return t, t != nil && t.Attempt == n && t.State.Info().Live
}

// Phase returns the director's phase.
func (m *Machine) Phase() Phase { return m.phase }

// Now returns the time of the last event.
func (m *Machine) Now() time.Time { return m.now }

// Cooldowns lists the resources that are closed now.
func (m *Machine) Cooldowns() []Cooldown {
	var open []Cooldown
	for _, c := range m.cooldowns {
		if c.Until.After(m.now) {
			open = append(open, c)
		}
	}
	return open
}

// Cursor returns how far a repository was read; empty: not at all.
func (m *Machine) Cursor(repo string) string {
	for _, c := range m.cursors {
		if c.Repo == repo {
			return c.Cursor
		}
	}
	return ""
}

func (m *Machine) advance(at time.Time) {
	if at.After(m.now) {
		m.now = at.Round(0).UTC()
	}
}

// record applies a fact and keeps it for the journal.
func (m *Machine) record(f Fact) {
	m.facts = append(m.facts, f)
	m.Apply(m.now, f)
}

// move makes the table's transition; where the table has none, nothing happens.
func (m *Machine) move(t *Task, on Trigger, why string, until time.Time) {
	to, ok := next(t.State, on)
	if !ok {
		return
	}
	m.record(Moved{Task: t.Key, Attempt: t.Attempt, From: t.State, To: to, On: on, Why: why, Until: until})
	if !to.Info().Slot {
		m.left(t, on == OnGoneOK)
	}
	m.touch(t)
	if on != OnHeard { // the comment still says Running
		t.soft.show, t.soft.why = true, why
	}
}

// plan makes an effect durable. An effect that is planned already is not planned twice.
func (m *Machine) plan(t *Task, e Effect) {
	e.Task, e.Nonce, e.Attempt, e.Worker = t.Key, t.Nonce, t.Attempt, t.AttemptID()
	e.ID, e.At = effectID(e.Kind, t.AttemptID(), t.Answers), m.now
	if !t.planned(e.ID) {
		m.record(EffectPlanned{Effect: e})
		m.touch(t)
	}
}

// emit hands out a soft effect.
func (m *Machine) emit(t *Task, e Effect) {
	if t != nil {
		e.Task, e.Nonce, e.Attempt = t.Key, t.Nonce, t.Attempt
		if e.Worker == "" {
			e.Worker = t.AttemptID()
		}
	}
	e.ID = string(e.Kind) + "/" + string(e.Task) + e.Worker
	m.effects = append(m.effects, e)
}

func (m *Machine) touch(t *Task) {
	if !t.soft.touched {
		t.soft.touched = true
		m.touched = append(m.touched, t)
	}
}

// touchAll makes every task look for something to emit.
func (m *Machine) touchAll() {
	for _, t := range m.order {
		m.touch(t)
	}
}

// held says whether a kind of effect has to wait for GitHub.
func (m *Machine) held(k EffectKind) bool { return effects[k].github && m.githubOpens().After(m.now) }

// pump emits what a task's comment should say, and the first planned effect, if nothing keeps them back.
func (m *Machine) pump(t *Task) {
	if m.phase == PhaseShutdown {
		return
	}
	if t.soft.show && !m.held(DoProgress) && !t.plans(DoEscalate) { // the comment points to the question: that comes first
		t.soft.show = false
		m.show(t, t.soft.why)
	}
	if len(t.Outbox) == 0 || t.soft.inFlight != "" {
		return
	}
	p := t.Outbox[0]
	if p.NotBefore.After(m.now) || m.held(p.Effect.Kind) {
		return
	}
	t.soft.inFlight = p.Effect.ID
	m.effects = append(m.effects, p.Effect)
	m.index(t)
}

// dispatch fills free slots: tasks that wait for their next attempt first, then the queue, each in order.
func (m *Machine) dispatch() {
	for t := m.nextReady(); t != nil; t = m.nextReady() {
		switch {
		case t.State == Queued:
			m.plan(t, Effect{Kind: DoClaim})
			m.move(t, OnDispatch, "", time.Time{})
		case t.Resumed:
			m.plan(t, Effect{Kind: DoClaim})
		default:
			m.plan(t, Effect{Kind: DoRecheck})
		}
		m.dispatched(t)
	}
}

// expire decides about every deadline that has passed.
func (m *Machine) expire() {
	if (m.holds || m.phase == PhaseCooldown) && !m.githubOpens().After(m.now) {
		m.holds = false
		if m.phase == PhaseCooldown {
			m.setPhase(PhaseMonitor, "cooldown over")
		}
		m.touchAll()
	}
	m.prove()
	for {
		t, at := m.timers.first()
		if t == nil || at.After(m.now) {
			return
		}
		m.deadline(t)
		m.touch(t)
		m.index(t)
	}
}

// setPhase records a change of phase.
func (m *Machine) setPhase(to Phase, why string) {
	if m.phase != to {
		m.record(PhaseChanged{From: m.phase, To: to, Why: why})
		m.calm = m.now
		m.reindex() // which deadlines count depends on the phase
	}
}

// coolDown closes a resource, if that is news.
func (m *Machine) coolDown(resource string, until time.Time, why string) {
	for _, c := range m.cooldowns {
		if c.Resource == resource && !until.After(c.Until) {
			return
		}
	}
	if !until.After(m.now) {
		return
	}
	m.record(CooldownSet{Resource: resource, Until: until.Round(0).UTC(), Why: why})
	m.holds = m.githubOpens().After(m.now)
	if m.phase == PhaseMonitor && m.githubOpens().After(m.now) {
		m.setPhase(PhaseCooldown, resource+": "+why)
	}
}

// githubOpens returns when GitHub may be used again: a limit on either resource stops intake, re-reads and writes.
func (m *Machine) githubOpens() time.Time { return later(m.opens(GitHubRead), m.opens(GitHubWrite)) }

// modelOpens returns when the models that the stages use may be used again.
func (m *Machine) modelOpens() (at time.Time) {
	for _, c := range m.cooldowns {
		if c.Resource == ModelDefault || slices.Contains(m.cfg.Models, c.Resource) || len(m.cfg.Models) == 0 && strings.HasPrefix(c.Resource, modelPrefix) {
			at = later(at, c.Until)
		}
	}
	return at
}

// opens returns the end of a resource's last cooldown.
func (m *Machine) opens(resource string) time.Time {
	for _, c := range m.cooldowns {
		if c.Resource == resource {
			return c.Until
		}
	}
	return time.Time{}
}
