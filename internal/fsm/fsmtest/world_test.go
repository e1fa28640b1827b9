package fsmtest

import (
	"slices"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/fsm/fsmtest/deep"
)

// A world depends only on its choices, drawn or replayed, so that its seed repeats it.
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

// A copy of a machine does not change the machine.
func TestCloneSharesNothing(t *testing.T) {
	for i := range 20 {
		w := newWorld(newChoices(worldSeed(2, i)), "")
		w.run(400 + 37*i)
		m := w.directors.lead.m
		whole := deep.New(mutable, "turn.list") // turn.list is a back-pointer to the list
		state := func(m *fsm.Machine) uint64 {
			h := deep.Hash{From: epoch}
			deep.Sum(whole, m, &h)
			return h.Sum
		}
		before, c := state(m), deep.Clone(whole, m)
		if state(c) != before {
			t.Fatal("the copy differs")
		}
		at := w.wall(w.directors.lead)
		for _, body := range []fsm.EventBody{
			fsm.Booted{RunID: "copy"},
			fsm.DirectorResumed{Gap: time.Hour},
			w.runtime.list(w.directors.lead),
			fsm.ContainersListed{TakenAt: at.Add(time.Hour)},
			fsm.OperatorCommanded{Command: fsm.Pause},
			fsm.OperatorCommanded{Command: fsm.Resume},
			fsm.Tick{},
		} {
			at = at.Add(time.Hour)
			c.Step(fsm.Event{At: at, Body: body})
		}
		if state(m) != before {
			t.Fatalf("world %d: the copy changed the machine", i)
		}
		if state(c) == before {
			t.Fatal("the copied machine did not change, or the sum does not see the change")
		}
	}
}

// A claim is late if a newer director has since asked a question, delivered a later attempt or ended the claim. A late
// claim is refused without a change of labels.
func TestLateClaimsAreRefused(t *testing.T) {
	for _, row := range []struct {
		name, claim string
		attempt     int
		issue       issue
		ours        bool
	}{
		{"first claim, asked since", "n1-0/claim", 0, issue{asked: "n1-1/escalate", labels: blockedLabel}, false},
		{"the answer to the question", "n1-1/claim.1", 1, issue{asked: "n1-1/escalate", labels: blockedLabel}, true},
		{
			"the answer to the question before", "n1-1/claim.1", 1,
			issue{asked: "n1-2/escalate.1", labels: blockedLabel},
			false,
		},
		{"back from review", "n1-2/claim.1", 2, issue{delivered: "n1-2", deliveredAt: 2, labels: reviewLabel}, true},
		{
			"a later attempt is in review", "n1-1/claim.1", 1,
			issue{delivered: "n1-2", deliveredAt: 2, labels: reviewLabel},
			false,
		},
		{"given back since", "n1-0/claim", 0, issue{ended: "n1", labels: taskLabel}, false},
		{
			"an earlier claim's delivery", "n1-0/claim", 0,
			issue{delivered: "n0-2", deliveredAt: 2, labels: taskLabel},
			true,
		},
	} {
		w := newWorld(newChoices(1), everyOne)
		w.faultsStopped = true
		i := row.issue
		i.key, i.nonce, i.open = "acme/widgets#1", "n1", true
		if i.ended != "" {
			i.nonce = ""
		}
		before := i.labels
		got := w.hub.claim(&i, fsm.Effect{
			ID: row.claim, Nonce: "n1", Attempt: row.attempt, Kind: fsm.DoClaim, Answers: answers(row.claim),
		})
		if got.Ours != row.ours || !row.ours && i.labels != before || row.ours && i.labels != claimedLabel {
			t.Errorf("%s: ours %t, labels %v", row.name, got.Ours, labelSets[i.labels])
		}
	}
}

// The director restores the label of an open question, unless a person has removed it.
func TestOpenQuestionsKeepTheirLabel(t *testing.T) {
	for _, row := range []struct {
		name   string
		issue  issue
		labels labels
	}{
		{"a late delivery", issue{asked: "n1-1/escalate", labels: reviewLabel}, blockedLabel},
		{"a person", issue{asked: "n1-1/escalate", removed: true}, 0},
		{
			"a person, before a late delivery",
			issue{asked: "n1-1/escalate", removed: true, labels: reviewLabel},
			reviewLabel,
		},
		{"the claim after the answer", issue{labels: claimedLabel}, claimedLabel},
	} {
		w := newWorld(newChoices(1), everyOne)
		i := row.issue
		i.key, i.nonce, i.open = "acme/widgets#1", "n1", true
		if w.shell.read(w.directors.lead, &i); i.labels != row.labels {
			t.Errorf("%s: labels %v, want %v", row.name, labelSets[i.labels], labelSets[row.labels])
		}
	}
}
