package record

import (
	"errors"
	"slices"
	"sync"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// Recorder writes records of a run from the journal. Apply runs on the owner's goroutine and must not block, so a
// separate goroutine writes. Executors call the other methods. Create it with New.
type Recorder struct {
	Options
	state  *fsm.Machine // the state after the last durable record; the owner's machine may be ahead of the journal
	guards policy.Guards
	preset string
	course course                       // the stages of attempts that begin with the current setup
	stats  map[fsm.IssueKey]audit.Stats // the values last written

	judgments []judgment // verdicts in the current record

	ends    sync.Map // by attempt: its attemptEnd, until the next attempt begins or the task is over
	courses sync.Map // by attempt: its course, kept as long as its attemptEnd; missing if an earlier process began it
	unread  sync.Map // by name of an unreadable repository or issue: the reasons recorded so far
}

// course is the sequence of an attempt's stages.
type course struct {
	stages []string // in order
	judges int      // number of stages from VALIDATE on
}

func courseOf(in *inforce.Setup) (all course) {
	for _, g := range in.StagePlans {
		all.stages = append(all.stages, g.Name)
	}
	all.judges = len(in.ValidateStages())
	return all
}

// judgment is a verdict that pronounce writes once the record is applied and the statistics are up to date.
type judgment struct {
	stats audit.Stats
	last  *audit.LastFailure
}

// Options configure a Recorder.
type Options struct {
	Out    *audit.Writer
	Dir    string // the data directory
	RunID  string
	Image  string                // the workers' image; "" for plain processes
	Setup  func() *inforce.Setup // returns the setup in force
	Redact func(string) string
	Log    *zap.Logger
}

// New returns a Recorder, and writes the state of m, because an earlier process may have ended before it wrote that
// state. It also returns the numbers of paid calls that people edited in stats.json files while no director ran.
func New(m *fsm.Machine, o Options) (c *Recorder, edits []fsm.BudgetEdited, err error) {
	c = &Recorder{Options: o, state: fsm.New(fsm.Config{}), stats: map[fsm.IssueKey]audit.Stats{}}
	c.follow(c.Setup())
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

// follow takes the stages of future attempts, the preset and the guards from a setup.
func (c *Recorder) follow(now *inforce.Setup) {
	c.course = courseOf(now)
	c.preset, c.guards = now.Recovery.Preset, now.Policy.With(now.Limits()).Guards()
}

// readStats reads the values in a task's stats.json that are not in the journal. edited reports whether a person
// changed paidCalls.
func (c *Recorder) readStats(k fsm.IssueKey) (paidCalls int64, edited bool) {
	path, err := audit.StatsPath(c.Dir, string(k))
	if err != nil {
		return 0, false
	}
	s, err := audit.ReadStats(path)
	if errors.Is(err, audit.ErrCorrupt) {
		aside, renamed := audit.SetAside(path)
		c.Log.Error("could not read stats.json; using the director's count", zap.String("issue", string(k)),
			zap.String("kept_as", aside),
			zap.Error(errors.Join(err, renamed)))
	}
	c.stats[k] = audit.Stats{Stage: s.Stage, Signatures: s.Signatures, StagesCompleted: s.StagesCompleted}
	return int64(s.PaidCallsUsed), err == nil && s.Edited()
}

// Apply implements projection.Projection.
func (c *Recorder) Apply(_ uint64, records []fsm.Record) {
	for _, r := range records {
		c.record(r)
	}
}

// record writes the changes made by a record's facts.
func (c *Recorder) record(r fsm.Record) {
	defer c.pronounce(r.At)
	for _, f := range r.Facts {
		var moved *fsm.Task // the fact removes the finished task from the machine
		var tried fsm.Effect
		switch f := f.(type) {
		case fsm.Moved:
			moved = c.state.Task(f.Task)
		case fsm.EffectDone: // the fact removes the effect from the outbox
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
				c.ownFailure(r.At, tried, f.Reason, f.Failed, recovery.Verdict{Why: "the director gives up on the " +
					"effect"})
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
			c.spent(f)
		case fsm.TallyReset:
			c.task(r.At, c.state.Task(f.Task))
		case fsm.TaskQueued:
			if len(f.Standing.After) > 0 { // reports name the tasks that block this one
				c.task(r.At, c.state.Task(f.Task))
			}
		case fsm.StandingChanged:
			c.task(r.At, c.state.Task(f.Task))
		case fsm.SettingsChanged:
			c.follow(c.Setup())
		}
	}
}
