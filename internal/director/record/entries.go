package record

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"retake/internal/agent"
	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/projection"
	"retake/internal/recovery"
)

// reached records the current stage of a task's attempt. All stages before it count as completed, because stages run in
// order.
func (c *Recorder) reached(k fsm.IssueKey, stage string) {
	s, t, of := c.stats[k], c.state.Task(k), c.course
	if t != nil {
		if its, known := c.courses.Load(fsm.AttemptID(t.Nonce, t.Attempt)); known {
			of = its.(course)
		}
	}
	s.Stage = stage
	switch i := slices.Index(of.stages, stage); {
	case i >= 0:
		s.StagesCompleted = slices.Clone(of.stages[:i])
	case stage == wire.StageDone:
		done := of.stages
		if t != nil && t.LeavesValidation {
			done = done[:len(done)-of.judges]
		}
		s.StagesCompleted = slices.Clone(done)
	}
	c.stats[k] = s // the director's own stages are not in the plan, and leave StagesCompleted unchanged
}

// waitFor returns the tasks that wait for k.
func (c *Recorder) waitFor(k fsm.IssueKey) (out []string) {
	for _, t := range c.state.Tasks() {
		if slices.Contains(t.Standing.After, k) {
			out = append(out, string(t.Key))
		}
	}
	slices.Sort(out)
	return out
}

func (c *Recorder) began(at time.Time, f fsm.AttemptBegan) {
	t := c.state.Task(f.Task)
	if t == nil {
		return
	}
	c.forget(fsm.AttemptID(t.Nonce, f.N-1))
	if s := c.stats[f.Task]; !f.Next.Validate { // a validation continues the last attempt's work
		s.StagesCompleted = nil
		c.stats[f.Task] = s
	}
	why := ""
	if n := len(t.History); n > 0 && f.Next.Action != "" {
		why = string(t.History[n-1].Reason) + ": " + t.History[n-1].Cause
	}
	c.attempt(t, f.N, func(m *audit.Meta) {
		m.RunID, m.Action, m.Why, m.Image, m.Branch = c.RunID, string(f.Next.Action), why, c.Image,
			cmp.Or(t.Work.Branch, fsm.BranchName(f.Task, f.N))
		m.StartedAt = wire.At(at)
	})
}

// forget removes the cached data about a finished attempt.
func (c *Recorder) forget(attempt string) {
	c.ends.Delete(attempt)
	c.courses.Delete(attempt)
}

// Starts records the agent, the model and the stages of an attempt from its plan and the setup in force. A later
// configuration does not change them.
func (c *Recorder) Starts(e fsm.Effect, p wire.Plan, in *inforce.Setup) {
	c.courses.Store(e.Worker, courseOf(in))
	who, model := workerOf(p)
	c.Out.Attempt(e.Worker, func(m *audit.Meta) {
		m.Issue, m.Attempt, m.Agent, m.Model, m.Image = string(e.Task), e.Attempt, who, model, p.ImageTag
	})
}

// workerOf returns the agent or program that does the work of a plan, and its model. Both are empty for an attempt
// that only validates. The model is also empty if the agent chooses it.
func workerOf(p wire.Plan) (who, model string) {
	i := slices.IndexFunc(p.Stages, func(g wire.StagePlan) bool { return g.Name == wire.StageCode })
	if i < 0 {
		i = slices.IndexFunc(p.Stages, func(g wire.StagePlan) bool { return g.Agent != nil })
	}
	if i < 0 || p.ValidateOnly {
		return "", ""
	}
	g := p.Stages[i]
	if model = agent.Model(g, p.AttemptFile); g.Agent != nil {
		return g.Agent.Name, model
	}
	return filepath.Base(g.Run[0]), model
}

func (c *Recorder) moved(at time.Time, f fsm.Moved, t *fsm.Task) {
	if t == nil {
		return
	}
	if f.Attempt > 0 {
		c.Out.Transition(audit.Transition{
			At: wire.At(at), AttemptID: fsm.AttemptID(t.Nonce, f.Attempt), Issue: string(f.Task), Attempt: f.Attempt,
			From: f.From.String(), To: f.To.String(), On: string(f.On), Means: f.On.Info().Means, Why: f.Why,
		})
	}
	if end := projection.AttemptEnd(f); end == projection.OK || end == projection.Withdrawn {
		c.attempt(t, f.Attempt, func(m *audit.Meta) { m.EndedAt, m.Outcome, m.Failure = wire.At(at), end, nil })
	} else if f.Attempt > 0 && (f.From == fsm.Stopping || f.From == fsm.Delivering || f.From == fsm.InReview) {
		// render the summary again, because it lists the attempt's transitions
		c.attempt(t, f.Attempt, func(*audit.Meta) {})
	}
	switch f.To {
	case fsm.Done:
		s := c.stats[f.Task]
		s.Signatures, s.Merged = nil, f.On == fsm.OnMerged
		c.stats[f.Task] = s
		c.task(at, t)
	case fsm.Delivering, fsm.InReview, fsm.Released, fsm.Blocked, fsm.Backoff, fsm.Parked, fsm.Running:
		c.task(at, t)
	}
	if projection.Over(f.To) {
		c.forget(fsm.AttemptID(t.Nonce, f.Attempt))
		delete(c.stats, f.Task)
	}
}

// judged records the verdict on an attempt in the telemetry, the attempt's audit and the task's state.
func (c *Recorder) judged(at time.Time, f fsm.VerdictMade) {
	t := c.state.Task(f.Task)
	if t == nil {
		return
	}
	id := fsm.AttemptID(t.Nonce, f.Attempt)
	var end attemptEnd // stays zero if no attempt ended with this failure
	if known, ok := c.ends.Load(id); ok {
		end = known.(attemptEnd)
	}
	failure := audit.NewFailure(f.Finding, f.Verdict)
	failure.ErrorID, failure.Assertion, failure.DecidedAt = end.errorID, end.assertion, wire.At(at)
	c.Out.Classified(at, c.RunID, f.Stage, audit.Classified{
		Caller: f.Failed(), Issue: string(f.Task), Attempt: f.Attempt, AttemptID: id, Failure: *failure,
	})
	// a revalidation tests only the merge, so the attempt's work is good
	if f.Attempt > 0 && f.Verdict.Action != recovery.Revalidate {
		c.attempt(t, f.Attempt, func(m *audit.Meta) {
			m.Outcome, m.Stage, m.Failure = audit.OutcomeFailed, f.Stage, failure
			if m.EndedAt.IsZero() { // the delivery or the review failed, not the attempt
				m.EndedAt = wire.At(at)
			}
		})
	}
	class, ok := recovery.As(c.preset, f.Finding)
	if !ok {
		class = string(f.Finding.Reason)
	}
	c.reached(t.Key, f.Stage)
	s := c.standing(at, t)
	s.Signatures = maps.Clone(s.Signatures) // the writer may still read the previous map
	s.See(f.Finding.Signature, class, t.Tally.Seen(f.Finding.Signature), at)
	c.stats[t.Key] = s
	last := audit.NewLastFailure(s, failure, end.message, end.tail)
	last.AttemptID, last.ExitCode, last.Signal = id, end.exitCode, end.signal
	if !f.Verdict.Action.Again() {
		last.BlockedDependencies = c.waitFor(t.Key)
	}
	c.judgments = append(c.judgments, judgment{s, last})
}

// pronounce writes the verdicts that judged has collected from one record. It first updates them with the task's
// state after that record.
func (c *Recorder) pronounce(at time.Time) {
	for _, j := range c.judgments {
		if t := c.state.Task(fsm.IssueKey(j.stats.Issue)); t != nil {
			j.stats = c.standing(at, t)
			j.last.Phase = j.stats.State
			c.stats[t.Key] = j.stats
		}
		c.Out.Task(j.stats, j.last)
	}
	c.judgments = nil
}

// task records the state of a task.
func (c *Recorder) task(at time.Time, t *fsm.Task) {
	if t != nil {
		c.stats[t.Key] = c.standing(at, t)
		c.Out.Task(c.stats[t.Key], nil)
	}
}

func (c *Recorder) standing(at time.Time, t *fsm.Task) audit.Stats {
	s := c.stats[t.Key]
	s.Issue, s.Title, s.URL, s.RunID, s.UpdatedAt = string(t.Key), t.Title, t.URL, c.RunID, wire.At(at)
	s.State, s.Attempt = t.State.String(), t.Attempt
	s.PaidCallsUsed, s.PaidCallBudget = int(t.Tally.PaidCalls), c.guards.PaidCallBudget
	s.Iterations = audit.Iterations{
		Used: t.Tally.Iterations, Refunded: t.Tally.Refunded,
		Budget: c.guards.IterationBudget,
	}
	s.DependsOn = nil
	for _, k := range t.Standing.After {
		s.DependsOn = append(s.DependsOn, string(k))
	}
	s.Tokens, s.CostUSD, s.CostBudgetUSD = t.Tally.Tokens, t.Tally.CostUSD, c.guards.CostBudgetUSD
	s.Spent = audit.Spent{PaidCalls: t.Spent.PaidCalls, Tokens: t.Spent.Tokens, CostUSD: t.Spent.CostUSD}
	return s
}

// spent records the usage of an attempt that has ended.
func (c *Recorder) spent(f fsm.UsageCounted) {
	u, t := projection.Spent(f), c.state.Task(f.Task)
	if u == (recovery.Usage{}) || t == nil {
		return
	}
	c.attempt(t, t.Attempt, func(m *audit.Meta) {
		m.Usage = &wire.Usage{
			Tokens: u.Tokens, CostUSD: u.CostUSD, PaidCalls: int(u.PaidCalls), CacheHits: int(u.CacheHits),
		}
	})
}

// attempt changes the audit of a task's attempt.
func (c *Recorder) attempt(t *fsm.Task, n int, change func(*audit.Meta)) {
	issue, title, url := string(t.Key), t.Title, t.URL
	c.Out.Attempt(fsm.AttemptID(t.Nonce, n), func(m *audit.Meta) {
		m.Issue, m.Title, m.URL, m.Attempt = issue, title, url, n
		change(m)
	})
}
