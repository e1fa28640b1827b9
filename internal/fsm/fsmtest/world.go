package fsmtest

import (
	"fmt"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// world is everything around the driver: what happens in it is drawn from choices, what must hold in it is
// checked by the table of invariants. It knows two directors at most: the leader, and one that was replaced and
// does not know it yet.
type world struct {
	choices       *choices
	rates         [sites]int
	happened      [sites]int // faults so far
	faultsStopped bool       // faults have stopped
	explored      bool       // nothing happens later: the explorer decides what happens

	now   int64 // since epoch
	queue eventQueue
	steps int // events that a machine has decided about

	maxWorkers, maxRetries int
	claimStale             time.Duration
	preset                 string
	limits                 policy.Limits
	cfg                    fsm.Config // of every machine that begins
	kept                   []settings // each of them
	withData               bool       // the journal keeps JSON, as production's does

	journal  journal
	lead     *process
	stale    *process
	standing bool // a standby waits for the end of the leader's lease
	born     int  // processes so far

	issues     []*issue
	containers []*container            // containers, and what outlived them
	spools     map[string][]fsm.Report // by worker: what it could not send yet; its checkout keeps it
	reports    []*report
	repos      []string
	claims     int        // nonces so far
	works      int        // attempts with an agent so far
	comments   []*comment // in order of their last edits
	said       int        // comments so far
	pulls      int        // pull requests so far
	reviews    int        // that request changes, so far
	requests   []*request // of the operator, that are not answered yet
	asked      int        // requests so far
	withPulls  bool       // work is delivered as a pull request

	outageTo  int64             // until then nothing succeeds, in any attempt
	outageEnd recovery.Evidence // how it ends instead
	gitTo     int64             // until then no attempt gets its checkout
	awayTo    int64             // until then GitHub answers nothing

	losses *losses // nil: no journal is lost

	inCluster bool // the runtime places attempts by itself

	without string // the invariant that is not checked, to learn what it costs
	history *history
	bad     *Violation
	say     func(format string, args ...any) // tells the transcript; nil: nobody reads
	follow  func(*process, fsm.Record)       // gets what a process has put into the journal; nil: nobody follows
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
func (w *world) fail(invariant, format string, args ...any) {
	if w.bad == nil {
		w.bad = &Violation{invariant, fmt.Sprintf(format, args...), w.steps}
		w.tell("VIOLATION %s: %s", invariant, w.bad.Text)
	}
}

func (w *world) tell(format string, args ...any) {
	if w.say != nil {
		w.say(format, args...)
	}
}

// newWorld draws the size of a world, and which faults it has: worlds with few kinds of faults find what worlds with
// all of them hide.
func newWorld(t *choices, without string) *world {
	return (&world{choices: t, without: without}).begin()
}

// newRecordedWorld is a world whose lines are kept, from its beginning.
func newRecordedWorld(t *choices, lines *[]string) *world {
	w := &world{choices: t}
	if lines != nil {
		w.transcript(lines)
	}
	return w.begin()
}

func (w *world) begin() *world {
	t := w.choices
	w.history = newHistory(w)
	w.maxWorkers = 1 + t.pick(atShape, 3)
	w.maxRetries = t.pick(atShape, 5)
	w.claimStale = claimStales[t.pick(atShape, len(claimStales))]
	keys := issueKeys[t.pick(atShape, len(issueKeys))]
	for _, k := range keys[:1+t.pick(atShape, len(keys))] {
		w.add(&issue{key: k, open: true, labels: taskLabel})
	}
	w.preset = presets[t.pick(atShape, len(presets))]
	w.limits = budgets[t.pick(atShape, len(budgets))]
	w.limits.MaxRetries = w.maxRetries
	w.cfg = machineConfig(w.maxWorkers, w.claimStale, w.preset, w.limits)
	w.cfg.HasAlternative = t.pick(atShape, 2) == 1
	w.cfg.Models = [][]string{nil, {"model.anthropic"}}[t.pick(atShape, 2)]
	w.cfg.RemindAfter = remindAfters[t.pick(atShape, len(remindAfters))]
	w.cfg.DeliverFor = deliverFors[t.pick(atShape, len(deliverFors))]
	w.withPulls = t.pick(atShape, 3) > 0
	w.withData = t.pick(atShape, 8) == 7
	all := t.pick(atShape, 6) == 5 // one world in six has every fault, in the others each has a third of them
	for s := faults; s < faultsEnd; s++ {
		if t.pick(atShape, 3) < 2 && !all {
			continue
		}
		w.rates[s] = max(siteTable[s].most/(1+2*t.pick(atShape, 2)), 1)
	}
	w.cfg.CleanValidation, w.cfg.FixRounds = t.pick(atShape, 3) == 2, 1+t.pick(atShape, 3)
	if t.pick(settingsRead, 6) == 5 {
		w.rates[settingsRead] = siteTable[settingsRead].most
	}
	if t.pick(signsWait, 4) == 3 {
		w.rates[signsWait] = siteTable[signsWait].most
	}
	w.order()
	w.cluster()
	w.boot()
	w.after(w.delay(10), w.people)
	if w.choices.pick(atRequest, 4) == 3 {
		w.after(seconds(60), w.request)
	}
	return w
}

// What worlds are configured with.
var (
	claimStales  = []time.Duration{6 * time.Hour, 10 * time.Minute, 0}
	remindAfters = []time.Duration{0, 5 * time.Minute, 20 * time.Minute, 2 * time.Hour}
	deliverFors  = []time.Duration{0, 30 * time.Second, 15 * time.Minute}
)

// issueKeys are those of a world of one repository, and of two.
var issueKeys = [][]fsm.IssueKey{
	{"acme/widgets#1", "acme/widgets#2", "acme/widgets#3", "acme/widgets#4", "acme/widgets#5"},
	{"acme/widgets#1", "acme/widgets#2", "acme/gadgets#3", "acme/widgets#4", "acme/gadgets#5", "acme/widgets#6"},
}

func (w *world) add(i *issue) {
	w.issues = append(w.issues, i)
	if r := i.key.Repo(); !slices.Contains(w.repos, r) {
		w.repos = append(w.repos, r)
	}
}

// fault reports whether a fault happens now.
func (w *world) fault(s site) bool {
	if w.faultsStopped || !w.choices.chance(s, w.rates[s]) {
		return false
	}
	w.happened[s]++
	w.tell("    %s", siteTable[s].name)
	return true
}

// delay draws a time up to so many seconds.
func (w *world) delay(seconds int) int64 {
	return int64(100*time.Millisecond) + int64(w.choices.pick(atDelay, seconds*4))*int64(250*time.Millisecond)
}

// interval is how much time lies between two polls. Without faults they are rarer.
func (w *world) interval(n int) int64 {
	if w.faultsStopped {
		n *= 5
	}
	return seconds(n)
}

func seconds(n int) int64 { return int64(n) * int64(time.Second) }

func (w *world) after(d int64, do func()) {
	if !w.explored {
		w.queue.add(w.now+d, do)
	}
}

// run lets so many steps happen.
func (w *world) run(steps int) {
	for w.bad == nil && w.steps < steps {
		w.next()
	}
}

// next lets the next thing happen: what is in the calendar, or a deadline of a director.
func (w *world) next() {
	at, p := w.queue.first(), (*process)(nil)
	for _, q := range [...]*process{w.lead, w.stale} {
		if q != nil && q.wake < at {
			at, p = q.wake, q
		}
	}
	w.now = max(w.now, at)
	if p == nil {
		w.queue.take()()
		return
	}
	w.deadline(p)
}

// wall is the time by a process's clock.
func (w *world) wall(p *process) time.Time { return epoch.Add(time.Duration(w.now + p.skew)) }
