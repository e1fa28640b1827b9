package fsmtest

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/fsm"
)

// worldSteps is the number of steps with faults in a world. Many short worlds are better than a long one, because a
// violation in a short world is easier to shorten.
const worldSteps = 3000

// Options set the extent of a search.
type Options struct {
	Seed   uint64
	Steps  int       // number of decided events in all worlds
	World  int       // only this world; negative for all
	Until  time.Time // the end of the search, unless zero
	Losses bool      // each world loses its journal, or a part of it
	// Transcript, if set, receives the lines of the worlds.
	Transcript *[]string
	Without    string // a disabled invariant, to measure its cost
	Now        func() time.Time
}

// Result is the extent of a search, and its violation.
type Result struct {
	Seed                   uint64
	Steps, Worlds, Records int // Records is the number of journal records
	Took                   time.Duration
	Faults                 [sites]int
	Moves                  []int  // by row of fsm.Transitions
	Found                  *Found // nil without a violation
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

// Simulate runs worlds until enough steps are made, or a world violates an invariant.
func Simulate(o Options) Result {
	r := Result{Seed: o.Seed, Moves: make([]int, len(fsm.Transitions))}
	began := o.Now()
	for i := max(o.World, 0); r.Steps < o.Steps && r.Found == nil; i++ {
		if !o.Until.IsZero() && o.Now().After(o.Until) {
			break
		}
		w := newWorld(newChoices(worldSeed(o.Seed, i)), o.Without)
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
	for i, n := range w.happened {
		r.Faults[i] += n
	}
	for i, n := range w.directors.history.moves {
		r.Moves[i] += n
	}
}

// String lists the extent of the search, with the number of each fault and each transition.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d steps of the machine in %d worlds, %d records, %.0f steps/s, %d invariants, "+
		"no violation\n",
		r.Seed, r.Steps, r.Worlds, r.Records, float64(r.Steps)/r.Took.Seconds(), len(invariants))
	for s := range siteTable {
		if siteTable[s].most == 0 {
			continue
		}
		fmt.Fprintf(&b, "%9d  %s\n", r.Faults[s], siteTable[s].name)
	}
	for i, t := range fsm.Transitions {
		fmt.Fprintf(&b, "%9d  %v → %s: %s\n", r.Moves[i], t.From, t.To, t.On)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Costs runs the same worlds with every invariant and without each, and compares the time of a step.
func Costs(seed uint64, steps int, now func() time.Time) string {
	run := func(without string) time.Duration {
		r := Simulate(Options{Seed: seed, Steps: steps, World: -1, Without: without, Now: now})
		return r.Took / time.Duration(max(r.Steps, 1))
	}
	// takes returns the minimum times with and without the invariant, because any disturbance adds time.
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

// Once faults have stopped, a world must come to rest within these limits.
const (
	restSteps = 10_000
	restTime  = 24 * time.Hour
)

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
		if b.lost && !b.travels { // its attempt cannot be fenced
			w.after(w.delay(600), func() { w.runtime.returns(b) })
		}
	}
	w.resume()
	steps, until := w.steps+restSteps, w.now+int64(restTime)
	for w.bad == nil && w.steps < steps && w.now < until {
		if w.steps%20 == 0 && w.atRest() == "" {
			break
		}
		w.next()
	}
	h := w.directors.history
	for _, row := range h.rows {
		if row.end != nil && w.bad == nil {
			h.judge(row, row.end(h, w.directors.lead))
		}
	}
}

// resume repeats the operator's command resume, because a policy may have paused the director.
func (w *world) resume() {
	w.directors.offer(w.directors.lead, fsm.OperatorCommanded{Command: fsm.Resume}, nil)
	w.after(seconds(3600), w.resume)
}

// resting lists the states of tasks in a world at rest.
var resting = map[string]bool{"Running": true, "InReview": true, "Blocked": true}

// atRest describes an outstanding event, or returns "".
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
			return "a person answered on " + string(i.key) + ", but the director does not know it"
		}
		if i.open && i.labels&(taskLabel|claimedLabel|blockedLabel) == taskLabel && i.nonce != foreign && !i.waits() {
			return string(i.key) + " is eligible, but not taken"
		}
		if i.halfClaimed() {
			return string(i.key) + " is half claimed, but the claim does not end"
		}
	}
	for _, b := range w.runtime.containers {
		if b.listed && (!b.lost || !b.revoked) { // a lost container that was shut out may remain
			return "a container remains: " + b.attempt
		}
	}
	for _, r := range w.workers.reports {
		if !r.acked {
			return fmt.Sprintf("%s of %s is not acknowledged", r.body.Ref.ID, r.worker)
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
		return fmt.Sprintf("a timer is set for %s, %s from now, without a waiting task", next.Format(time.TimeOnly),
			next.Sub(p.m.Now()))
	}
	return ""
}

// labelsAgree checks that in a world at rest, issues are claimed or blocked if and only if they have a task.
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
