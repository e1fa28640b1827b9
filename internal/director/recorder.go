package director

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/agent"
	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/projection"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// recorder writes what people read later (audits, telemetry, the state of tasks) from durable records. It runs on
// the owner's goroutine. Its writer never blocks.
type recorder struct {
	state  *fsm.Machine // as of the last durable record; the owner's machine is ahead of the journal
	out    *audit.Writer
	dir    string
	runID  string
	image  string
	guards policy.Guards
	preset string
	course course                // of future attempts
	setup  func() *inforce.Setup // in force
	log    *zap.Logger
	stats  map[fsm.IssueKey]audit.Stats // as last written

	judgments []judgment // from the current record

	ends    sync.Map // attempt → attemptEnd, until the next attempt begins or the task is over
	courses sync.Map // attempt → course, for the same time; missing for attempts that an earlier process began
	unread  sync.Map // what cannot be read at GitHub → recorded reasons; each key has one caller
}

// course is the sequence of stages of a whole attempt.
type course struct {
	stages []string // in order
	judges int      // how many of the last stages are VALIDATE or follow it
}

func courseOf(in *inforce.Setup) (all course) {
	for _, g := range in.StagePlans {
		all.stages = append(all.stages, g.Name)
	}
	all.judges = len(in.ValidateStages())
	return all
}

// judgment is a verdict to be written together with the resulting state.
type judgment struct {
	stats audit.Stats
	last  *audit.LastFailure
}

// newRecorder starts from the machine's state, because an earlier process may have ended before it wrote
// everything. It returns the numbers of paid calls that people edited in stats.json files while no director ran.
func (d *daemon) newRecorder(m *fsm.Machine) (c *recorder, edits []fsm.BudgetEdited, err error) {
	c = &recorder{
		state: fsm.New(fsm.Config{}), out: d.audit, dir: d.config.Director.DataDir, runID: d.runID, image: d.image(),
		setup: d.setup, log: d.log, stats: map[fsm.IssueKey]audit.Stats{},
	}
	c.follow(d.setup())
	state, err := m.Snapshot()
	if err == nil {
		err = c.state.Restore(state)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, t := range c.state.Tasks() {
		if calls, edited := c.readStats(t.Key); edited {
			edits = append(edits, fsm.BudgetEdited{Task: t.Key, PaidCalls: calls})
		} else {
			c.task(m.Now(), t)
		}
		for _, f := range t.History {
			if f.Attempt == 0 || f.Attempt == t.Attempt && t.State.Info().Live {
				continue
			}
			c.attempt(t, f.Attempt, func(m *audit.Meta) {
				if m.Outcome == audit.OutcomeRunning {
					m.EndedAt, m.Outcome, m.Stage = wire.At(f.At), audit.OutcomeFailed, f.Stage
				}
			})
		}
	}
	return c, edits, nil
}

// follow uses another configuration for future entries.
func (c *recorder) follow(now *inforce.Setup) {
	c.course = courseOf(now)
	c.preset, c.guards = now.Recovery.Preset, now.Policy.With(now.Limits()).Guards()
}

// readStats reads from a task's stats.json what only people and earlier processes know.
func (c *recorder) readStats(k fsm.IssueKey) (paidCalls int64, edited bool) {
	path, err := audit.StatsPath(c.dir, string(k))
	if err != nil {
		return 0, false
	}
	s, err := audit.ReadStats(path)
	if errors.Is(err, audit.ErrCorrupt) {
		aside, renamed := audit.SetAside(path)
		c.log.Error("stats.json cannot be read; the director's own count goes on", zap.String("issue", string(k)),
			zap.String("kept_as", aside),
			zap.Error(errors.Join(err, renamed)))
	}
	c.stats[k] = audit.Stats{Stage: s.Stage, Signatures: s.Signatures, StagesCompleted: s.StagesCompleted}
	return int64(s.PaidCallsUsed), err == nil && s.Edited()
}

// Apply implements projection.Projection.
func (c *recorder) Apply(_ uint64, records []fsm.Record) {
	for _, r := range records {
		c.record(r)
	}
}

// record writes the changes that a record's facts make.
func (c *recorder) record(r fsm.Record) {
	defer c.pronounce(r.At)
	for _, f := range r.Facts {
		var moved *fsm.Task // this fact removes a finished task from the machine
		var tried fsm.Effect
		switch f := f.(type) {
		case fsm.Moved:
			moved = c.state.Task(f.Task)
		case fsm.EffectDone: // this fact removes it from the outbox
			tried = c.planned(f.Task, f.Effect)
		case fsm.EffectDeferred:
			tried = c.planned(f.Task, f.Effect)
		}
		c.state.Replay([]fsm.Record{{At: r.At, Facts: fsm.FactList{f}}})
		switch f := f.(type) {
		case fsm.AttemptBegan:
			c.began(r.At, f)
		case fsm.ReportAccepted:
			c.reached(f.Task, f.Stage)
		case fsm.EffectDeferred:
			if f.Reason != "" {
				c.ownFailure(r.At, tried, f.Reason, f.Why,
					recovery.Verdict{Action: recovery.Retry, Delay: f.Until.Sub(r.At), Why: tryAgainWhy})
			}
		case fsm.EffectDone:
			if f.Reason != "" && !slices.Contains(judgedEffects, tried.Kind) {
				c.ownFailure(r.At, tried, f.Reason, f.Failed, recovery.Verdict{Why: "it is given up"})
			}
		case fsm.Moved:
			c.moved(r.At, f, moved)
		case fsm.VerdictMade:
			c.judged(r.At, f)
		case fsm.WorkDelivered:
			if t := c.state.Task(f.Task); t != nil {
				c.attempt(t, t.Attempt, func(m *audit.Meta) { m.Branch = f.Delivery.Branch })
			}
		case fsm.UsageCounted:
			if f.Ended || f.PaidCalls != nil {
				c.task(r.At, c.state.Task(f.Task))
			}
		case fsm.TallyReset:
			c.task(r.At, c.state.Task(f.Task))
		case fsm.TaskQueued:
			if len(f.Standing.After) > 0 { // reports show what it waits for
				c.task(r.At, c.state.Task(f.Task))
			}
		case fsm.StandingChanged:
			c.task(r.At, c.state.Task(f.Task))
		case fsm.SettingsChanged:
			c.follow(c.setup())
		}
	}
}

// reached records the current stage of a task's attempt, and the stages before it. Stages run in order.
func (c *recorder) reached(k fsm.IssueKey, stage string) {
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
	c.stats[k] = s // a stage of the director comes before or after all of them and changes nothing
}

// waitFor returns the tasks that wait for the given one.
func (c *recorder) waitFor(k fsm.IssueKey) (out []string) {
	for _, t := range c.state.Tasks() {
		if slices.Contains(t.Standing.After, k) {
			out = append(out, string(t.Key))
		}
	}
	slices.Sort(out)
	return out
}

func (c *recorder) began(at time.Time, f fsm.AttemptBegan) {
	t := c.state.Task(f.Task)
	if t == nil {
		return
	}
	c.forget(fsm.AttemptID(t.Nonce, f.N-1))
	if s := c.stats[f.Task]; !f.Next.Validate { // otherwise it continues the last attempt's work
		s.StagesCompleted = nil
		c.stats[f.Task] = s
	}
	why := ""
	if n := len(t.History); n > 0 && f.Next.Action != "" {
		why = string(t.History[n-1].Reason) + ": " + t.History[n-1].Cause
	}
	c.attempt(t, f.N, func(m *audit.Meta) {
		m.RunID, m.Action, m.Why, m.Image, m.Branch = c.runID, string(f.Next.Action), why, c.image,
			cmp.Or(t.Work.Branch, fsm.BranchName(f.Task, f.N))
		m.StartedAt = wire.At(at)
	})
}

// forget removes what is known of a finished attempt.
func (c *recorder) forget(attempt string) {
	c.ends.Delete(attempt)
	c.courses.Delete(attempt)
}

// starts records the agent and model of an attempt from its plan, and keeps the attempt's course. A later
// configuration does not affect an attempt that has begun.
func (c *recorder) starts(e fsm.Effect, p wire.Plan, in *inforce.Setup) {
	c.courses.Store(e.Worker, courseOf(in))
	who, model := workerOf(p)
	c.out.Attempt(e.Worker, func(m *audit.Meta) {
		m.Issue, m.Attempt, m.Agent, m.Model = string(e.Task), e.Attempt, who, model
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

func (c *recorder) moved(at time.Time, f fsm.Moved, t *fsm.Task) {
	if t == nil {
		return
	}
	if f.Attempt > 0 {
		c.out.Transition(audit.Transition{
			At: wire.At(at), AttemptID: fsm.AttemptID(t.Nonce, f.Attempt), Issue: string(f.Task), Attempt: f.Attempt,
			From: f.From.String(), To: f.To.String(), On: string(f.On), Means: f.On.Info().Means, Why: f.Why,
		})
	}
	if end := projection.AttemptEnd(f); end == projection.OK || end == projection.Withdrawn {
		c.attempt(t, f.Attempt, func(m *audit.Meta) { m.EndedAt, m.Outcome, m.Failure = wire.At(at), end, nil })
	} else if f.Attempt > 0 && (f.From == fsm.Stopping || f.From == fsm.Delivering || f.From == fsm.InReview) {
		// the summary shows what followed
		c.attempt(t, f.Attempt, func(*audit.Meta) {})
	}
	switch f.To {
	case fsm.Done:
		s := c.stats[f.Task]
		s.Signatures = nil
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
func (c *recorder) judged(at time.Time, f fsm.VerdictMade) {
	t := c.state.Task(f.Task)
	if t == nil {
		return
	}
	id := fsm.AttemptID(t.Nonce, f.Attempt)
	var end attemptEnd // stays zero if the failure did not end an attempt
	if known, ok := c.ends.Load(id); ok {
		end = known.(attemptEnd)
	}
	failure := audit.NewFailure(f.Finding, f.Verdict)
	failure.ErrorID, failure.Assertion, failure.DecidedAt = end.errorID, end.assertion, wire.At(at)
	c.out.Classified(at, c.runID, f.Stage, audit.Classified{
		Caller: fsm.Caller(f.Stage), Issue: string(f.Task), Attempt: f.Attempt, AttemptID: id, Failure: *failure,
	})
	// that work is good, only its merge is tested
	if f.Attempt > 0 && f.Verdict.Action != recovery.Revalidate {
		c.attempt(t, f.Attempt, func(m *audit.Meta) {
			m.Outcome, m.Stage, m.Failure = audit.OutcomeFailed, f.Stage, failure
			if m.EndedAt.IsZero() { // otherwise its delivery or its review failed
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
	s.Signatures = maps.Clone(s.Signatures) // the writer may be reading the previous map
	s.See(f.Finding.Signature, class, t.Tally.Seen(f.Finding.Signature), at)
	c.stats[t.Key] = s
	last := audit.NewLastFailure(s, failure, end.message, end.tail)
	last.AttemptID, last.ExitCode, last.Signal = id, end.exitCode, end.signal
	if !f.Verdict.Action.Again() {
		last.BlockedDependencies = c.waitFor(t.Key)
	}
	c.judgments = append(c.judgments, judgment{s, last})
}

// pronounce writes the verdicts of a record once the resulting state is known.
func (c *recorder) pronounce(at time.Time) {
	for _, j := range c.judgments {
		if t := c.state.Task(fsm.IssueKey(j.stats.Issue)); t != nil {
			j.stats = c.standing(at, t)
			j.last.Phase = j.stats.State
			c.stats[t.Key] = j.stats
		}
		c.out.Task(j.stats, j.last)
	}
	c.judgments = nil
}

// task writes the state of a task.
func (c *recorder) task(at time.Time, t *fsm.Task) {
	if t != nil {
		c.stats[t.Key] = c.standing(at, t)
		c.out.Task(c.stats[t.Key], nil)
	}
}

func (c *recorder) standing(at time.Time, t *fsm.Task) audit.Stats {
	s := c.stats[t.Key]
	s.Issue, s.Title, s.URL, s.RunID, s.UpdatedAt = string(t.Key), t.Title, t.URL, c.runID, wire.At(at)
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
	return s
}

// attempt changes the audit of a task's attempt.
func (c *recorder) attempt(t *fsm.Task, n int, change func(*audit.Meta)) {
	issue, title, url := string(t.Key), t.Title, t.URL
	c.out.Attempt(fsm.AttemptID(t.Nonce, n), func(m *audit.Meta) {
		m.Issue, m.Title, m.URL, m.Attempt = issue, title, url, n
		change(m)
	})
}
