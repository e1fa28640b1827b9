package fsmtest

import (
	"slices"
	"testing"
	"time"

	"retake/internal/fsm"
)

// A world is a function of its choices, drawn or played back: otherwise no seed would repeat anything.
func TestWorldsRepeat(t *testing.T) {
	for i := range 5 {
		var first, again, played []string
		drawn := newChoices(worldSeed(1, i))
		drawn.record = &choiceTracks{}
		runWorld(newRecordedWorld(drawn, &first), worldSteps)
		runWorld(newRecordedWorld(newChoices(worldSeed(1, i)), &again), worldSteps)
		runWorld(newRecordedWorld(replayedChoices(drawn.record), &played), worldSteps)
		if len(first) < 100 || !slices.Equal(first, again) || !slices.Equal(first, played) {
			t.Fatalf("world %d: %d lines, again %d, played back %d", i, len(first), len(again), len(played))
		}
	}
}

// What happens to a copy of a machine does not happen to the machine.
func TestCloneSharesNothing(t *testing.T) {
	for i := range 20 {
		w := newWorld(newChoices(worldSeed(2, i)), "")
		w.run(400 + 37*i)
		m := w.lead.m
		whole := newWalker()
		state := func(m *fsm.Machine) uint64 {
			h := hash{from: epoch}
			sum(whole, m, &h)
			return h.sum
		}
		before, c := state(m), clone(whole, m)
		if state(c) != before {
			t.Fatal("the copy differs")
		}
		at := w.wall(w.lead)
		for _, body := range []fsm.EventBody{
			fsm.Booted{RunID: "copy"},
			fsm.DirectorResumed{Gap: time.Hour},
			w.list(w.lead),
			fsm.ContainersListed{TakenAt: at.Add(time.Hour)},
			fsm.OperatorCommanded{Command: fsm.Pause},
			fsm.OperatorCommanded{Command: fsm.Resume},
			fsm.Tick{},
		} {
			at = at.Add(time.Hour)
			c.Step(fsm.Event{At: at, Body: body})
		}
		if state(m) != before {
			t.Fatalf("world %d: what the copy did changed the machine", i)
		}
		if state(c) == before {
			t.Fatal("the copy did nothing, or the sum does not see it")
		}
	}
}
