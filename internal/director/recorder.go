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
	"retake/internal/director/effects"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/projection"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// recorder writes what people read afterwards (audits, telemetry, the state of tasks), from what has become durable. It
// belongs to the owner's goroutine; the writer behind it never blocks.
type recorder struct {
	state  *fsm.Machine // as of the last durable record: the owner's own is ahead of the journal
	out    *audit.Writer
	dir    string
	runID  string
	image  string
	guards policy.Guards
	preset string
	course course                // of the attempts to come
	setup  func() *inforce.Setup // in force
	log    *zap.Logger
	stats  map[fsm.IssueKey]audit.Stats // as last written

	judgments []judgment // of the record that is followed

	ends    sync.Map // attempt → attemptEnd, until the next one begins or the task is over
	courses sync.Map // attempt → its course, for as long; of one that an earlier process has begun there is none
	unread  sync.Map // what cannot be read at GitHub → for which reasons, as written; each is one caller's
}

// course is what a whole attempt runs.
type course struct {
	stages []string // in their order
	judges int      // so many of them, the last, are VALIDATE and what follows
}

func courseOf(in *inforce.Setup) (all course) {
	for _, g := range in.StagePlans {
		all.stages = append(all.stages, g.Name)
	}
	all.judges = len(in.ValidateStages())
	return all
}

// judgment is a verdict that is written down with the state that it leads to.
type judgment struct {
	stats audit.Stats
	last  *audit.LastFailure
}

// newRecorder begins with what the machine knows: an earlier process may have ended before it could write that down. It
// returns the numbers of paid calls that people wrote into stats.json files while no director ran.
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

// follow takes another configuration for what is written from now on.
func (c *recorder) follow(now *inforce.Setup) {
	c.course = courseOf(now)
	c.preset, c.guards = now.Recovery.Preset, now.Policy.With(now.Limits()).Guards()
}

// readStats takes from a task's stats.json what only people and earlier processes know.
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

// record writes down what the facts of a record changed.
func (c *recorder) record(r fsm.Record) {
	defer c.pronounce(r.At)
	for _, f := range r.Facts {
		var moved *fsm.Task // a task that is over leaves the machine with this fact
		var tried fsm.Effect
		switch f := f.(type) {
		case fsm.Moved:
			moved = c.state.Task(f.Task)
		case fsm.EffectDone: // which leaves the outbox with it
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
			if len(f.Standing.After) > 0 { // reports say what it waits for
				c.task(r.At, c.state.Task(f.Task))
			}
		case fsm.StandingChanged:
			c.task(r.At, c.state.Task(f.Task))
		case fsm.SettingsChanged:
			c.follow(c.setup())
		}
	}
}

// reached notes at which stage a task's attempt is, and which stages are behind it. They run in their order.
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
	c.stats[k] = s // a stage of the director's own changes nothing: it is before all of them, or behind
}

// waitFor are the tasks that are not begun before one is over.
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
	if s := c.stats[f.Task]; !f.Next.Validate { // else it goes on with what the last attempt has done
		s.StagesCompleted = nil
		c.stats[f.Task] = s
	}
	why := ""
	if n := len(t.History); n > 0 && f.Next.Action != "" {
		why = string(t.History[n-1].Reason) + ": " + t.History[n-1].Cause
	}
	c.attempt(t, f.N, func(m *audit.Meta) {
		m.RunID, m.Action, m.Why, m.Image, m.Branch = c.runID, string(f.Next.Action), why, c.image,
			cmp.Or(t.Work.Branch, effects.BranchName(f.Task, f.N))
		m.StartedAt = wire.At(at)
	})
}

// forget leaves out what is known of an attempt that is over.
func (c *recorder) forget(attempt string) {
	c.ends.Delete(attempt)
	c.courses.Delete(attempt)
}

// starts says who works in an attempt, as its plan has it, and keeps the course of it: another configuration
// changes nothing of an attempt that has begun.
func (c *recorder) starts(e fsm.Effect, p wire.Plan, in *inforce.Setup) {
	c.courses.Store(e.Worker, courseOf(in))
	who, model := workerOf(p)
	c.out.Attempt(e.Worker, func(m *audit.Meta) {
		m.Issue, m.Attempt, m.Agent, m.Model = string(e.Task), e.Attempt, who, model
	})
}

// workerOf names the agent that does a plan's work, or the program that does, and its model. Both are empty for
// an attempt that only validates; the model is, too, if the agent chooses it.
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
		// the summary shows how it went on
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

// judged is the verdict on an attempt: telemetry, the attempt's audit, the task's state.
func (c *recorder) judged(at time.Time, f fsm.VerdictMade) {
	t := c.state.Task(f.Task)
	if t == nil {
		return
	}
	id := fsm.AttemptID(t.Nonce, f.Attempt)
	var end attemptEnd // zero: it was not an attempt's end that failed
	if known, ok := c.ends.Load(id); ok {
		end = known.(attemptEnd)
	}
	failure := audit.NewFailure(f.Finding, f.Verdict)
	failure.ErrorID, failure.Assertion, failure.DecidedAt = end.errorID, end.assertion, wire.At(at)
	c.out.Classified(at, c.runID, f.Stage, audit.Classified{
		Caller: fsm.Caller(f.Stage), Issue: string(f.Task), Attempt: f.Attempt, AttemptID: id, Failure: *failure,
	})
	// that work is good, and what is merged with it is tried
	if f.Attempt > 0 && f.Verdict.Action != recovery.Revalidate {
		c.attempt(t, f.Attempt, func(m *audit.Meta) {
			m.Outcome, m.Stage, m.Failure = audit.OutcomeFailed, f.Stage, failure
			if m.EndedAt.IsZero() { // otherwise its delivery failed, or what people see of it
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
	s.Signatures = maps.Clone(s.Signatures) // the writer may be reading the last one
	s.See(f.Finding.Signature, class, t.Tally.Seen(f.Finding.Signature), at)
	c.stats[t.Key] = s
	last := audit.NewLastFailure(s, failure, end.message, end.tail)
	last.AttemptID, last.ExitCode, last.Signal = id, end.exitCode, end.signal
	if !f.Verdict.Action.Again() {
		last.BlockedDependencies = c.waitFor(t.Key)
	}
	c.judgments = append(c.judgments, judgment{s, last})
}

// pronounce writes the record's verdicts down, now that it is known what state they have led to.
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

// task writes where a task stands.
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

// attempt changes what is written of a task's attempt.
func (c *recorder) attempt(t *fsm.Task, n int, change func(*audit.Meta)) {
	issue, title, url := string(t.Key), t.Title, t.URL
	c.out.Attempt(fsm.AttemptID(t.Nonce, n), func(m *audit.Meta) {
		m.Issue, m.Title, m.URL, m.Attempt = issue, title, url, n
		change(m)
	})
}
