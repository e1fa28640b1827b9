package timeline

import (
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// TestNumbersCountWhatBecameOfIt checks that a failed retry, a successful retry, and questions that were answered,
// repeated or ended by an incident count once each.
func TestNumbersCountWhatBecameOfIt(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := NewBook(config(t), Limits{})
	seq := uint64(0)
	add := func(facts ...fsm.Fact) {
		seq++
		at = at.Add(time.Minute)
		b.Apply(seq, []fsm.Record{{At: at, Facts: facts}})
	}
	k := fsm.OfTask{Task: "acme/widgets#1"}
	verdict := func(a recovery.Action) fsm.Fact {
		return fsm.VerdictMade{
			OfTask: k, Attempt: 1, Finding: recovery.Finding{Reason: recovery.Overloaded},
			Verdict: recovery.Verdict{Action: a, Reason: recovery.Overloaded},
		}
	}
	begin := func(n int) fsm.Fact { return fsm.AttemptBegan{OfTask: k, N: n} }
	move := func(from fsm.State, on fsm.Trigger, to fsm.State) fsm.Fact {
		return fsm.Moved{OfTask: k, Attempt: 1, From: from, On: on, To: to}
	}
	ask := fsm.EffectPlanned{Effect: fsm.Effect{
		Kind: fsm.DoEscalate, Task: k.Task,
		Escalation: &fsm.Escalation{Ask: "what?"},
	}}
	add(fsm.TaskQueued{Task: k.Task, Nonce: "n"})
	add(verdict(recovery.Retry), move(fsm.Stopping, fsm.OnRetry, fsm.Backoff))
	add(begin(2), fsm.UsageCounted{OfTask: k, Usage: recovery.Usage{CostUSD: 0.5}, Ended: true},
		verdict(recovery.Retry), move(fsm.Stopping, fsm.OnRetry, fsm.Backoff))
	add(begin(3), verdict(recovery.Escalate), ask, move(fsm.Stopping, fsm.OnEscalate, fsm.Blocked))
	asked := at
	add(move(fsm.Blocked, fsm.OnUnblocked, fsm.Backoff))
	answered := at
	add(begin(4), verdict(recovery.Escalate), ask, move(fsm.Stopping, fsm.OnEscalate, fsm.Blocked))
	add(move(fsm.Blocked, fsm.OnIncidentOver, fsm.Backoff))
	add(begin(5), verdict(recovery.Replan), move(fsm.Stopping, fsm.OnRetry, fsm.Backoff))
	add(begin(6), move(fsm.Stopping, fsm.OnGoneOK, fsm.Delivering))

	n := b.Numbers(time.Time{})
	if len(n.Failures) != 5 || len(n.Costs) != 1 || n.Costs[0].Usage.CostUSD != 0.5 {
		t.Errorf("failures %+v, costs %+v", n.Failures, n.Costs)
	}
	if len(n.Retries) != 2 || n.Retries[0] != (Retried{Action: recovery.Retry, Failed: 2}) ||
		n.Retries[1] != (Retried{Action: recovery.Replan, OK: 1}) {
		t.Errorf("retries %+v", n.Retries)
	}
	want := []Asked{
		{At: asked, Issue: k.Task, Answered: answered},
		{At: answered.Add(time.Minute), Issue: k.Task, Again: true, Alone: true},
	}
	if len(n.Asked) != 2 || n.Asked[0] != want[0] || n.Asked[1] != want[1] {
		t.Errorf("asked %+v, want %+v", n.Asked, want)
	}
	if len(n.Reasons) != 1 || n.Reasons[0].N != 5 {
		t.Errorf("by reason %+v", n.Reasons)
	}
	if late := b.Numbers(at); len(late.Failures) != 0 || len(late.Asked) != 0 {
		t.Errorf("since the end: %+v", late)
	}
}
