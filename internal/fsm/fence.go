package fsm

import (
	"time"

	"retake/internal/recovery"
)

// AttemptFenced: nobody can say when the attempt's container is gone, and so its worker was shut out: it may
// still run, but nothing that it does counts.
type AttemptFenced struct {
	OfTask
	Attempt int    `json:"attempt"`
	Words   string `json:"words"` // why its end cannot be confirmed, in the runtime's words
}

func (f AttemptFenced) apply(_ *agenda, t *Task) { t.Ending.Fenced = f.Words }

// stopOrder is how the current attempt is stopped. One that works on the director's checkout could still change
// it, and is never fenced.
func (m *attempts) stopOrder(t *Task, grace time.Duration, why StopReason) *StopOrder {
	o := &StopOrder{Grace: grace, Reason: why}
	if t.Travels {
		o.FenceAt = m.now.Add(grace + m.cfg.FenceAfter)
	}
	return o
}

// rowFenced names the verdict on a success of an attempt that had to be fenced.
const rowFenced = "director.fenced"

// validateFenced lets another attempt validate what a fenced one has left, although it has reported a success:
// what is here is the last that it sent, and nobody can ask it whether that was all.
func (m *attempts) validateFenced(t *Task, f recovery.Finding) {
	if t.Validates || m.cfg.Policy.Forbids(t.Tally) != "" {
		m.decide(t, f, "")
		return
	}
	const why = "it reported success, and had to be fenced: what it has sent of its work is validated once more"
	m.record(VerdictMade{
		OfTask: OfTask{t.Key}, Attempt: t.Attempt, Finding: f,
		Verdict: recovery.Verdict{
			Action: recovery.Revalidate, Charges: recovery.Infrastructure, Reason: f.Reason,
			Row: rowFenced, Why: why,
		},
	})
	m.move(t, OnRetry, why, m.now)
}

// EndCause is why a runtime that places attempts by itself has ended one. The journal keeps its word.
type EndCause string

// The causes.
const (
	EndEvicted   EndCause = "evicted"
	EndPreempted EndCause = "preempted"
	EndDeadline  EndCause = "deadline"
	EndNodeLost  EndCause = "node_lost"
	EndDeleted   EndCause = "deleted"
)

// endCauses say what each means. All of them are the cluster's doing: what follows costs the agent nothing.
var endCauses = map[EndCause]struct {
	reason recovery.Reason
	says   string
}{
	EndEvicted: {recovery.WorkerLost, "the cluster evicted the worker, whose node needed what it used"},
	EndPreempted: {recovery.WorkerLost, "the cluster ended the worker for something more important, which " +
		"needed its room"},
	EndDeadline: {recovery.Timeout, "the cluster ended the worker at its own deadline for it"},
	EndNodeLost: {recovery.WorkerLost, "the worker's node does not answer any more"},
	EndDeleted:  {recovery.WorkerLost, "somebody else deleted the worker in the cluster"},
}

// ownCause is what the runtime's own words mean for an attempt that has left no other. What was decided comes
// first: words may be long.
func (g *StopResult) ownCause() (recovery.Reason, string) {
	about := endCauses[g.Cause]
	if g.Fenced {
		about.reason, about.says = recovery.WorkerLost, "fenced, since nobody can confirm its end: it may still run, "+
			"but nothing that it does counts"
	}
	if words := shortWords(g.Words); words != "" {
		about.says += ": " + words
	}
	return about.reason, about.says
}
