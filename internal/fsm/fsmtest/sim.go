package fsmtest

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/fsm"
)

// worldSteps is how many steps a world lives before its faults stop. Worlds are many and short: what one of them found
// can be shrunk.
const worldSteps = 3000

// Options say how much is searched.
type Options struct {
	Seed   uint64
	Steps  int       // events decided about, over all worlds
	World  int       // only this one; negative: all
	Until  time.Time // no further world begins after; zero: no limit
	Losses bool      // each world loses its journal, or a part of it
	// Transcript, if set, gets the lines of the worlds.
	Transcript *[]string
	Without    string // an invariant that is not checked, to learn what it costs
	Now        func() time.Time
}

// Result is what was searched.
type Result struct {
	Seed                   uint64
	Steps, Worlds, Records int // Records went into a journal
	Took                   time.Duration
	Faults                 [sites]int
	Moves                  []int  // by row of fsm.Transitions
	Found                  *Found // nil: nothing
}

// Found is a violation, and what is needed to see it again.
type Found struct {
	Violation
	Seed  uint64
	World int
}

// worldSeed is the seed of one of the worlds of a run.
func worldSeed(seed uint64, world int) uint64 { return mix(seed ^ mix(uint64(world))) }

// runWorld runs a whole world: first with faults, then without.
func runWorld(w *world, steps int) {
	w.run(steps)
	w.settle()
}

// Simulate lets worlds happen until the steps are made, or one of them violates an invariant.
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
	r.Records += w.history.record
	for i, n := range w.happened {
		r.Faults[i] += n
	}
	for i, n := range w.history.moves {
		r.Moves[i] += n
	}
}

// String tells what was searched, and how much of each fault and each transition was in it.
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

// Costs runs the same worlds with every invariant and without each, side by side, and says what each takes of a step.
func Costs(seed uint64, steps int, now func() time.Time) string {
	run := func(without string) time.Duration {
		r := Simulate(Options{Seed: seed, Steps: steps, World: -1, Without: without, Now: now})
		return r.Took / time.Duration(max(r.Steps, 1))
	}
	// takes is the least of what it takes with and without: whatever disturbs makes it more.
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
