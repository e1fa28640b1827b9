package record

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/audit"
	"retake/internal/director/failure"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// planned returns an effect from a task's outbox, or an effect with only the task set if it is not there.
func (c *Recorder) planned(k fsm.IssueKey, id string) fsm.Effect {
	if t := c.state.Task(k); t != nil {
		for _, p := range t.Outbox {
			if p.Effect.ID == id {
				return p.Effect
			}
		}
	}
	return fsm.Effect{Task: k}
}

// judgedEffects are the effects that end an attempt when they fail, so the audit records a verdict on that attempt.
var judgedEffects = []fsm.EffectKind{fsm.DoStart, fsm.DoStop, fsm.DoDeliver}

// tryAgainWhy is the explanation for a retried effect.
const tryAgainWhy = "the director retries the effect"

// ownFailure records telemetry about a failure of the director itself in a task's effect.
func (c *Recorder) ownFailure(at time.Time, e fsm.Effect, reason recovery.Reason, cause string, v recovery.Verdict) {
	failure := audit.NewFailure(recovery.Finding{Reason: reason, Cause: cause, Rule: ruleOwn, Confidence: 1}, v)
	attempt := audit.Classified{Caller: callerOf(e.Kind), Issue: string(e.Task), Failure: *failure}
	if e.Attempt > 0 {
		attempt.Attempt, attempt.AttemptID = e.Attempt, fsm.AttemptID(e.Nonce, e.Attempt)
	}
	c.Out.Classified(at, c.RunID, "", attempt)
}

// ruleOwn replaces a classifier's rule if the director itself has reported the failure.
const ruleOwn = "director.effect"

// callerOf returns the name of the component that carries out an effect.
func callerOf(k fsm.EffectKind) string {
	if k == fsm.DoRecheck {
		return string(fsm.DoClaim)
	}
	return cmp.Or(string(k), "director")
}

// Failed records telemetry about a repository or pull request that could not be read, once for each reason, until a
// read succeeds.
func (c *Recorder) Failed(caller, what string, err error, again time.Duration) {
	f := failure.Of(err)
	written, _ := c.unread.Load(what)
	reasons, _ := written.([]recovery.Reason)
	if slices.Contains(reasons, f.Reason) {
		return
	}
	c.unread.Store(what, append(slices.Clone(reasons), f.Reason))
	failure := audit.NewFailure(recovery.Finding{Reason: f.Reason, Cause: f.Text, Rule: ruleOwn, Confidence: 1},
		recovery.Verdict{Action: recovery.Retry, Delay: again, Why: tryAgainWhy})
	c.Out.Classified(time.Now(), c.RunID, "", audit.Classified{Caller: caller, Issue: what, Failure: *failure})
}

// Worked records a successful read.
func (c *Recorder) Worked(what string) { c.unread.Delete(what) }
