package fsmtest

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// worldSteps is the number of steps with faults in a world. Many short worlds are better than one long world, because
// their violations are easier to shorten.
const worldSteps = 3000

// Options set the extent of a search.
type Options struct {
	Seed   uint64
	Steps  int       // number of events to decide, across all worlds
	World  int       // run only this world; negative means all
	Until  time.Time // latest start time of a world; zero means unlimited
	Losses bool      // each world loses all or part of its journal
	Live   bool      // check only the invariants about progress
	// Transcript, if set, receives the transcripts of the worlds.
	Transcript *[]string
	Without    string // a disabled invariant, to measure its cost
	Now        func() time.Time
}

// Result holds the statistics of a search, and the violation that it found, if any.
type Result struct {
	Seed                   uint64
	Steps, Worlds, Records int // Records counts journal records
	Backlogs               int // worlds with a backlog
	Took                   time.Duration
	Faults                 [sites]int
	Moves                  []int // by row of fsm.Transitions
	coverage
	rested, drained rest          // maxima for worlds without and with a backlog
	waited          time.Duration // longest time that finished work waited for delivery
	Found           *Found        // nil if there was no violation
}

// rest is the number of steps and the time that a world needs to come to rest after its last fault.
type rest struct {
	steps int
	time  time.Duration
}

// Found is a violation with the data to replay it.
type Found struct {
	Violation
	Seed  uint64
	World int
}

// worldSeed returns the seed of one world of a run.
func worldSeed(seed uint64, world int) uint64 { return mix(seed ^ mix(uint64(world))) }

// runWorld runs a whole world: first with faults, then without.
func runWorld(w *world, steps int) {
	w.run(steps)
	w.settle()
}

// Simulate runs worlds until they have taken enough steps, or one of them violates an invariant.
func Simulate(o Options) Result {
	r := Result{Seed: o.Seed, Moves: make([]int, len(fsm.Transitions)), coverage: newCoverage()}
	if o.Live {
		o.Without = allSafety
	}
	began := o.Now()
	for i := max(o.World, 0); r.Steps < o.Steps && r.Found == nil; i++ {
		if !o.Until.IsZero() && o.Now().After(o.Until) {
			break
		}
		w := newWorld(newChoices(worldSeed(o.Seed, i)), o.Without)
		w.cover, *r.last = &r.coverage, [sites]int{}
		if o.Transcript != nil {
			w.transcript(o.Transcript)
		}
		if o.Losses {
			w.runWithLosses(worldSeed(o.Seed, i), worldSteps)
		} else {
			runWorld(w, worldSteps)
		}
		r.add(w)
		if w.bad != nil {
			r.Found = &Found{*w.bad, o.Seed, i}
		}
		if o.World >= 0 {
			break
		}
	}
	r.Took = o.Now().Sub(began)
	return r
}

func (r *Result) add(w *world) {
	r.Worlds++
	r.Steps += w.steps
	r.Records += w.directors.history.record
	longest := &r.rested
	if w.hub.pace != nil {
		r.Backlogs++
		longest = &r.drained
	}
	r.waited = max(r.waited, w.directors.history.waited)
	longest.steps, longest.time = max(longest.steps, w.rested.steps), max(longest.time, w.rested.time)
	for i, n := range w.happened {
		r.Faults[i] += n
	}
	for i, n := range w.directors.history.moves {
		r.Moves[i] += n
	}
}

// Costs measures the cost of each invariant. It runs the same worlds with and without the invariant, and compares the
// time per step.
func Costs(seed uint64, steps int, now func() time.Time) string {
	run := func(without string) time.Duration {
		r := Simulate(Options{Seed: seed, Steps: steps, World: -1, Without: without, Now: now})
		return r.Took / time.Duration(max(r.Steps, 1))
	}
	// takes returns the minimum times with and without the invariant; any disturbance only adds time.
	takes := func(without string) (with, less time.Duration) {
		with, less = run(""), run(without)
		for range 4 {
			with, less = min(with, run("")), min(less, run(without))
		}
		return with, less
	}
	var b strings.Builder
	with, none := takes(everyOne)
	fmt.Fprintf(&b, "%5d ns/step  with every invariant\n%5d ns/step  without any\n", with.Nanoseconds(),
		none.Nanoseconds())
	for _, i := range invariants {
		with, less := takes(i.Name)
		fmt.Fprintf(&b, "%5d ns/step  %s\n", (with - less).Nanoseconds(), i.Name)
	}
	return b.String()
}

// Once faults have stopped, a world must come to rest within these limits. The time starts at the last fault, or at the
// last stated reset that tasks wait for, which is at most a day later. Each issue of a backlog extends the limits.
const (
	restSteps         = 10_000
	restStepsPerIssue = 30
	restTime          = 12 * time.Hour
	restTimePerIssue  = 20 * time.Second
)

// backlogRest is the limit for a world with a backlog.
var backlogRest = rest{
	steps: restSteps + restStepsPerIssue*backlogIssues, time: restTime + restTimePerIssue*backlogIssues,
}

// settle stops all faults, and lets the world come to rest.
func (w *world) settle() {
	if w.bad != nil {
		return
	}
	w.tell("faults stop")
	w.faultsStopped = true
	if w.directors.stale != nil {
		w.directors.end(w.directors.stale, "faults stop")
	}
	if p := w.directors.lead; p.asleep > w.now {
		p.asleep = w.now
		p.wake = w.directors.wakes(p)
	}
	for _, b := range w.runtime.containers {
		b.cut, b.silent = min(b.cut, w.now), min(b.silent, w.now)
		if b.lost && !b.travels { // its attempt cannot be fenced, so the node must return
			w.after(w.delay(600), func() { w.runtime.returns(b) })
		}
	}
	w.resume()
	h := w.directors.history
	h.stopped = w.wall(w.directors.lead)
	began, at, most := w.steps, w.now, rest{restSteps, restTime}
	if w.hub.pace != nil {
		most = backlogRest
	}
	if w.hub.losses != nil { // limits stated before a loss still apply, for up to a day
		most.time += 24 * time.Hour
	}
	for w.bad == nil && w.steps < began+most.steps && w.now < max(at, h.statedUntil())+int64(most.time) {
		if w.steps%20 == 0 && w.atRest() == "" {
			break
		}
		w.next()
	}
	w.rested = rest{w.steps - began, max(time.Duration(w.now-max(at, h.statedUntil())), 0)}
	for _, row := range h.rows {
		if row.end != nil && w.bad == nil {
			h.judge(row, row.end(h, w.directors.lead))
		}
	}
}

// statedUntil returns the last reset that work waits for, at most a day after the faults stopped. It can change,
// because messages in transit may still report a reset.
func (h *history) statedUntil() int64 {
	until := h.stopped
	for resource, reset := range h.limits.until {
		if strings.HasPrefix(resource, recovery.ModelPrefix) {
			until = latest(until, reset)
		}
	}
	for _, c := range h.begun {
		if c.state == fsm.Backoff {
			until = latest(until, c.until)
		}
	}
	return int64(min(until.Sub(h.stopped), 24*time.Hour)) + int64(h.stopped.Sub(epoch)) - h.w.directors.lead.skew
}

// resume repeats the operator's resume command, because a policy may have paused the director.
func (w *world) resume() {
	w.directors.offer(w.directors.lead, fsm.OperatorCommanded{Command: fsm.Resume}, nil)
	w.after(seconds(3600), w.resume)
}

// resting lists the states that tasks may have in a world at rest.
var resting = map[string]bool{"Running": true, "InReview": true, "Blocked": true}

// atRest describes why the world is not at rest, or returns "".
func (w *world) atRest() string {
	for _, t := range w.directors.lead.m.Tasks() {
		if t.State == fsm.Queued && w.hub.issue(t.Key).waits() {
			continue
		}
		if !resting[t.State.String()] || len(t.Outbox) > 0 {
			return fmt.Sprintf("%s stays %s, with %d planned effects, in phase %s", t.Key, t.State, len(t.Outbox),
				w.directors.lead.m.Phase())
		}
	}
	for _, t := range w.directors.lead.m.Tasks() {
		if text := w.hub.reviewOpen(t); text != "" {
			return text
		}
		if t.State == fsm.Blocked && !t.Until.IsZero() {
			return "a reminder is due for " + string(t.Key)
		}
	}
	if text := w.operator.unheard(); text != "" {
		return text
	}
	for _, i := range w.hub.issues {
		if t := w.directors.lead.m.Task(i.key); t != nil && t.State == fsm.Blocked && i.open &&
			(i.removed || i.answer != "") {
			return "a person answered on " + string(i.key) + ", but the director has not noticed"
		}
		if i.open && i.labels&(taskLabel|claimedLabel|blockedLabel) == taskLabel && i.nonce != foreign && !i.waits() {
			return string(i.key) + " is eligible, but unclaimed"
		}
		if i.halfClaimed() {
			return string(i.key) + " is half claimed, but the claim does not end"
		}
	}
	if text := w.contractsMended(); text != "" {
		return text
	}
	for _, b := range w.runtime.containers {
		if b.listed && (!b.lost || !b.revoked) { // a lost container that was shut out may remain
			return "a container remains: " + b.attempt
		}
	}
	for _, r := range w.workers.reports {
		if !r.acked {
			return fmt.Sprintf("report %s from %s is not acknowledged", r.body.Ref.ID, r.worker)
		}
	}
	if !w.directors.lead.d.Idle() {
		return "the journal is behind"
	}
	return ""
}

func atRest(h *history, _ *process) string { return h.w.atRest() }

func noTimerLeft(h *history, p *process) string {
	if next := p.m.NextDeadline(); !next.IsZero() && len(p.m.Cooldowns()) == 0 && h.w.atRest() == "" {
		return fmt.Sprintf("a timer is set for %s, %s from now, but no task is waiting", next.Format(time.TimeOnly),
			next.Sub(p.m.Now()))
	}
	return ""
}

// labelsAgree checks that in a world at rest, the labels of each issue agree with the state of its task.
func labelsAgree(h *history, p *process) string {
	if h.w.atRest() != "" {
		return ""
	}
	for _, i := range h.w.hub.issues {
		t := p.m.Task(i.key)
		switch {
		case i.nonce == foreign:
		case t != nil && t.State == fsm.Blocked && i.open && i.labels&blockedLabel == 0 && !i.removed:
			return fmt.Sprintf("%s is Blocked, but its labels are %v", i.key, labelSets[i.labels])
		case t != nil && t.State == fsm.InReview && i.labels&reviewLabel == 0:
			return fmt.Sprintf("%s is InReview, but its labels are %v", i.key, labelSets[i.labels])
		case t == nil && i.open && i.nonce != "" && i.labels&(claimedLabel|blockedLabel|reviewLabel) != 0:
			return fmt.Sprintf("%s is unknown, but its labels are %v", i.key, labelSets[i.labels])
		}
	}
	return ""
}
