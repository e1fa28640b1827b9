package fsmtest

import (
	"fmt"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// world simulates everything around the driver. Choices determine its events, and the invariants check the decisions.
// All parts of a world share one stage.
type world struct {
	*stage
	hub       *hub
	runtime   *runtime
	workers   *workers
	directors *directors
	shell     *shell
	operator  *operator
	without   string // the disabled invariant, to measure its cost
}

// stage holds the time, the choices and the transcript of a world.
type stage struct {
	choices       *choices
	rates         [sites]int
	happened      [sites]int // number of faults so far
	cover         *coverage  // nil if faults are not counted
	faultsStopped bool
	explored      bool // the explorer chooses the next event, so the queue stays empty

	now    int64 // nanoseconds since epoch
	queue  eventQueue
	steps  int // number of decided events
	rested rest

	bad *Violation
	say func(format string, args ...any) // writes the transcript, unless nil
}

// hub simulates GitHub and the people who use it.
type hub struct {
	*stage
	issues    []*issue
	byKey     map[fsm.IssueKey]*issue // only with a backlog
	pace      *pace                   // nil if there is no backlog
	repos     []string
	claims    int        // number of nonces so far
	works     int        // number of versions of the work so far, across all issues
	comments  []*comment // in order of their last edits
	said      int        // number of comments so far, including questions
	pulls     int        // number of pull requests so far
	reviews   int        // number of requests for changes so far
	withPulls bool       // work is delivered as a pull request
	gitTo     int64      // git fails until this time
	awayTo    int64      // GitHub is down until this time
	losses    *losses    // nil in worlds that keep their journal
	contracts []*repository
}

// runtime runs containers. In a cluster, an attempt may have to wait for capacity.
type runtime struct {
	*stage
	hub        *hub
	workers    *workers
	directors  *directors
	containers []*container // including removed containers whose worker still runs
	inCluster  bool
}

// workers are the programs in the containers. Their messages reach directors over the bus and the report stream.
type workers struct {
	*stage
	hub       *hub
	runtime   *runtime
	directors *directors
	spools    map[string][]fsm.Report // unsent reports in the checkout, by worker
	reports   []*report
	outageTo  int64             // all attempts fail until this time
	outageEnd recovery.Evidence // the failure during the outage
}

// directors holds the leader and at most one replaced director, which has not noticed the replacement yet.
type directors struct {
	*stage
	hub      *hub
	runtime  *runtime
	workers  *workers
	shell    *shell
	operator *operator
	set      settings   // settings for every new machine
	kept     []settings // all settings so far
	withData bool       // the journal keeps JSON, as in production
	journal  journal
	history  *history
	lead     *process
	stale    *process
	standing bool                       // a standby waits for the leader's lease to expire
	born     int                        // number of processes so far
	follow   func(*process, fsm.Record) // receives each record that a process has appended; may be nil
}

// shell simulates the part of a director that carries out effects, and that polls GitHub and the runtime.
type shell struct {
	*stage
	hub       *hub
	runtime   *runtime
	workers   *workers
	directors *directors
}

// operator commands directors and edits their configuration. It also causes faults in directors.
type operator struct {
	*stage
	hub       *hub
	runtime   *runtime
	workers   *workers
	directors *directors
	requests  []*request // unanswered requests
	asked     int        // number of requests so far
}

// assemble connects the parts of a world.
func assemble(c *choices) *world {
	st := &stage{choices: c}
	w := &world{stage: st, hub: &hub{stage: st}, runtime: &runtime{stage: st}, workers: &workers{stage: st}}
	d := &directors{stage: st, hub: w.hub, runtime: w.runtime, workers: w.workers}
	w.runtime.hub, w.runtime.workers, w.runtime.directors = w.hub, w.workers, d
	w.workers.hub, w.workers.runtime, w.workers.directors = w.hub, w.runtime, d
	w.shell = &shell{stage: st, hub: w.hub, runtime: w.runtime, workers: w.workers, directors: d}
	w.operator = &operator{stage: st, hub: w.hub, runtime: w.runtime, workers: w.workers, directors: d}
	w.directors, d.shell, d.operator = d, w.shell, w.operator
	return w
}

// Violation is an invariant that did not hold.
type Violation struct {
	Invariant string
	Text      string
	Step      int
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %s (step %d)", v.Invariant, v.Text, v.Step)
}

// fail keeps the first violation.
func (w *stage) fail(invariant, format string, args ...any) {
	if w.bad == nil {
		w.bad = &Violation{invariant, fmt.Sprintf(format, args...), w.steps}
		w.tell("VIOLATION %s: %s", invariant, w.bad.Text)
	}
}

func (w *stage) tell(format string, args ...any) {
	if w.say != nil {
		w.say(format, args...)
	}
}

// newWorld chooses the size of a world and its kinds of faults. Worlds with few kinds of faults find violations that
// the other faults would hide.
func newWorld(t *choices, without string) *world {
	w := assemble(t)
	w.without = without
	return w.begin()
}

// newRecordedWorld returns a world that keeps a transcript from its start.
func newRecordedWorld(t *choices, lines *[]string) *world {
	w := assemble(t)
	if lines != nil {
		w.transcript(lines)
	}
	return w.begin()
}

func (w *world) begin() *world {
	t := w.choices
	w.directors.history = newHistory(w)
	workers, retries := 1+t.pick(atShape, 3), t.pick(atShape, 5)
	claimStale := claimStales[t.pick(atShape, len(claimStales))]
	keys := issueKeys[t.pick(atShape, len(issueKeys))]
	for _, k := range keys[:1+t.pick(atShape, len(keys))] {
		w.hub.add(&issue{key: k, open: true, labels: taskLabel})
	}
	preset := presets[t.pick(atShape, len(presets))]
	limits := budgets[t.pick(atShape, len(budgets))]
	limits.MaxRetries = retries
	w.directors.set = newSettings(workers, claimStale, preset, limits)
	cfg := &w.directors.set.cfg
	cfg.HasAlternative = t.pick(atShape, 2) == 1
	cfg.Models = [][]string{nil, {"model.anthropic"}}[t.pick(atShape, 2)]
	cfg.RemindAfter = remindAfters[t.pick(atShape, len(remindAfters))]
	cfg.PlainAnswers = cfg.RemindAfter > 0 // not a choice, so that recorded searches still find the same worlds
	cfg.DeliverFor = deliverFors[t.pick(atShape, len(deliverFors))]
	w.hub.withPulls = t.pick(atShape, 3) > 0
	w.directors.withData = t.pick(atShape, 8) == 7
	all := t.pick(atShape, 6) == 5 // one world in six has every kind of fault, the others a third of them
	for s := faults; s < faultsEnd; s++ {
		if t.pick(atShape, 3) < 2 && !all {
			continue
		}
		w.rates[s] = max(siteTable[s].most/(1+2*t.pick(atShape, 2)), 1)
	}
	if w.rates[outage] > 0 && retries == 4 { // the model refuses every login from the beginning
		w.workers.outageTo, w.workers.outageEnd = seconds(7200), refusedLogin()
	}
	cfg.CleanValidation, cfg.FixRounds = t.pick(atShape, 3) == 2, 1+t.pick(atShape, 3)
	if t.pick(settingsRead, 6) == 5 {
		w.rates[settingsRead] = siteTable[settingsRead].most
	}
	if t.pick(signsWait, 4) == 3 {
		w.rates[signsWait] = siteTable[signsWait].most
	}
	w.order()
	w.cluster()
	w.backlog()
	w.operator.programs()
	w.operator.contracts()
	w.directors.boot()
	w.after(w.delay(10), w.hub.people)
	if w.choices.pick(atRequest, 4) == 3 {
		w.after(seconds(60), w.operator.request)
	}
	return w
}

// Configuration values that worlds choose from.
var (
	claimStales  = []time.Duration{6 * time.Hour, 10 * time.Minute, 0}
	remindAfters = []time.Duration{0, 5 * time.Minute, 20 * time.Minute, 2 * time.Hour}
	deliverFors  = []time.Duration{0, 30 * time.Second, 15 * time.Minute}
)

// issueKeys lists the issues in a world with one repository, and in a world with two.
var issueKeys = [][]fsm.IssueKey{
	{"acme/widgets#1", "acme/widgets#2", "acme/widgets#3", "acme/widgets#4", "acme/widgets#5"},
	{"acme/widgets#1", "acme/widgets#2", "acme/gadgets#3", "acme/widgets#4", "acme/gadgets#5", "acme/widgets#6"},
}

func (w *hub) add(i *issue) {
	w.issues = append(w.issues, i)
	if w.byKey != nil {
		w.byKey[i.key] = i
	}
	if r := i.key.Repo(); !slices.Contains(w.repos, r) {
		w.repos = append(w.repos, r)
	}
}

// fault reports whether a fault happens now.
func (w *stage) fault(s site) bool {
	if w.faultsStopped || !w.choices.chance(s, w.rates[s]) {
		return false
	}
	w.happened[s]++
	w.cover.fault(s, w.steps)
	w.tell("    %s", siteTable[s].name)
	return true
}

// delay chooses a duration of up to the given number of seconds.
func (w *stage) delay(seconds int) int64 {
	return int64(100*time.Millisecond) + int64(w.choices.pick(atDelay, seconds*4))*int64(250*time.Millisecond)
}

// interval returns the time between two polls. Without faults, polls are less frequent.
func (w *stage) interval(n int) int64 {
	if w.faultsStopped {
		n *= 5
	}
	return seconds(n)
}

func seconds(n int) int64 { return int64(n) * int64(time.Second) }

func (w *stage) after(d int64, do func()) {
	if !w.explored {
		w.queue.add(w.now+d, do)
	}
}

// run runs the world up to the given number of steps.
func (w *world) run(steps int) {
	for w.bad == nil && w.steps < steps {
		w.next()
	}
}

// next runs the next event: a queue entry or a director's deadline.
func (w *world) next() {
	at, p := w.queue.first(), (*process)(nil)
	for _, q := range [...]*process{w.directors.lead, w.directors.stale} {
		if q != nil && q.wake < at {
			at, p = q.wake, q
		}
	}
	w.now = max(w.now, at)
	if p == nil {
		w.queue.take()()
		return
	}
	w.directors.deadline(p)
}

// wall returns the time on a process's clock.
func (w *stage) wall(p *process) time.Time { return epoch.Add(time.Duration(w.now + p.skew)) }
