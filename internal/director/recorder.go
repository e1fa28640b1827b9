package director

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/leak"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
	"retake/internal/scope"
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
	log    *zap.Logger
	stats  map[fsm.IssueKey]audit.Stats // as last written

	ends sync.Map // attempt → attemptEnd, until the next one begins or the task is over
}

// attemptEnd is what a failed attempt's last report and its container said.
type attemptEnd struct {
	errorID, assertion, message, tail string
	exitCode                          *int
	signal                            string
}

// newRecorder begins with what the machine knows: an earlier process may have ended before it could write that down. It
// returns the numbers of paid calls that people wrote into stats.json files while no director ran.
func (d *daemon) newRecorder(m *fsm.Machine) (c *recorder, edits []fsm.BudgetEdited, err error) {
	c = &recorder{
		state: fsm.New(fsm.Config{}), out: d.audit, dir: d.config.Director.DataDir, runID: d.runID, image: d.image(),
		preset: d.config.Recovery.Preset, guards: d.machineConfig().Policy.Guards(), log: d.log,
		stats: map[fsm.IssueKey]audit.Stats{},
	}
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

// readStats takes from a task's stats.json what only people and earlier processes know.
func (c *recorder) readStats(k fsm.IssueKey) (paidCalls int64, edited bool) {
	path, err := audit.StatsPath(c.dir, string(k))
	if err != nil {
		return 0, false
	}
	s, err := audit.ReadStats(path)
	if errors.Is(err, audit.ErrCorrupt) {
		aside, renamed := audit.SetAside(path)
		c.log.Error("stats.json cannot be read; the director's own count goes on", zap.String("issue", string(k)), zap.String("kept_as", aside),
			zap.Error(errors.Join(err, renamed)))
	}
	c.stats[k] = audit.Stats{Stage: s.Stage, Signatures: s.Signatures, StagesCompleted: s.StagesCompleted}
	return int64(s.PaidCallsUsed), err == nil && s.Edited()
}

// record follows one record's facts and writes down what they changed.
func (c *recorder) record(r fsm.Record) {
	for _, f := range r.Facts {
		var moved *fsm.Task // a task that is over leaves the machine with this fact
		if f, ok := f.(fsm.Moved); ok {
			moved = c.state.Task(f.Task)
		}
		c.state.Replay([]fsm.Record{{At: r.At, Facts: fsm.FactList{f}}})
		switch f := f.(type) {
		case fsm.AttemptBegan:
			c.began(r.At, f)
		case fsm.ReportAccepted:
			s := c.stats[f.Task]
			s.Stage = f.Stage
			c.stats[f.Task] = s
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
		}
	}
}

func (c *recorder) began(at time.Time, f fsm.AttemptBegan) {
	t := c.state.Task(f.Task)
	if t == nil {
		return
	}
	c.ends.Delete(fsm.AttemptID(t.Nonce, f.N-1))
	why := ""
	if n := len(t.History); n > 0 && f.Next.Action != "" {
		why = string(t.History[n-1].Reason) + ": " + t.History[n-1].Cause
	}
	c.attempt(t, f.N, func(m *audit.Meta) {
		m.RunID, m.Action, m.Why, m.Image, m.Branch = c.runID, string(f.Next.Action), why, c.image, cmp.Or(t.Work.Branch, branchName(f.Task, f.N))
		m.StartedAt = wire.At(at)
	})
}

// outcomes say what a move means for the attempt that it ends.
var outcomes = map[fsm.Trigger]string{fsm.OnGoneOK: audit.OutcomeOK, fsm.OnValidate: audit.OutcomeOK, fsm.OnGoneWithdrawn: audit.OutcomeWithdrawn}

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
	if outcome := outcomes[f.On]; outcome != "" {
		c.attempt(t, f.Attempt, func(m *audit.Meta) { m.EndedAt, m.Outcome, m.Failure = wire.At(at), outcome, nil })
	} else if f.Attempt > 0 && (f.From == fsm.Stopping || f.From == fsm.Delivering || f.From == fsm.InReview) { // the summary shows how it went on
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
	if f.To.Info().Final || f.To == fsm.Forgotten {
		c.ends.Delete(fsm.AttemptID(t.Nonce, f.Attempt))
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
	failure.ErrorID, failure.Assertion = end.errorID, end.assertion
	c.out.Classified(at, c.runID, f.Stage, audit.Classified{
		Caller: "director", Issue: string(f.Task), Attempt: f.Attempt, AttemptID: id, Failure: *failure,
	})
	if f.Attempt > 0 && f.Verdict.Action != recovery.Revalidate { // that work is good, and what is merged with it is tried
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
	s := c.standing(at, t)
	s.Stage, s.Signatures = f.Stage, maps.Clone(s.Signatures) // the writer may be reading the last one
	s.See(f.Finding.Signature, class, t.Tally.Seen(f.Finding.Signature), at)
	c.stats[t.Key] = s
	last := audit.NewLastFailure(s, failure, end.message, end.tail)
	last.AttemptID, last.ExitCode, last.Signal = id, end.exitCode, end.signal
	c.out.Task(s, last)
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
	s.Iterations = audit.Iterations{Used: t.Tally.Iterations, Refunded: t.Tally.Refunded, Budget: c.guards.IterationBudget}
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

// patchTime bounds how long a verdict waits for a patch that is only there to be read.
const patchTime = 20 * time.Second

// recordEnd puts down what an ended attempt left: what its container printed, what its stages said, what it changed. It is
// on disk before the verdict, in case that the process ends in between.
func (s *session) recordEnd(ctx context.Context, e fsm.Effect, x container.Exit, reports []bus.Report) {
	end := attemptEnd{signal: x.Signal}
	if x.Known {
		end.exitCode = &x.ExitCode
	}
	// Masked one by one: half a secret at the edge of a ring is only known as such at the edge of a text.
	out := audit.Output{WorkerLog: s.github.Redact(string(x.Stdout)) + "\n" + s.github.Redact(string(x.Stderr))}
	meta := audit.Meta{}
	for _, r := range reports {
		switch body := r.Body.(type) {
		case *wire.WorkerError:
			meta.Stage, meta.Usage, meta.Tried, meta.Notes = body.Stage, body.Usage, fixRounds(body), observations(body)
			if !r.Signed {
				meta.Notes = append(meta.Notes, personsWord)
			}
			end.errorID, end.assertion, end.message, end.tail = body.ErrorID, body.ErrorType, body.Message, outputTail(body)
			if body.ExitCode != nil {
				end.exitCode = body.ExitCode // the stage's says more than the container's
			}
			if body.Stage == wire.StageValidate {
				out.TestLog = end.tail
			} else {
				out.BuildLog = end.tail
			}
		case *wire.WorkerResult:
			meta.Stage, meta.Usage = wire.StageDone, body.Usage
			if text := strings.TrimSpace(body.Summary); text != "" {
				meta.Notes = []string{text}
			}
		}
	}
	git, done := s.withdrawals.during(ctx, e.Task)
	defer done()
	limited, cancel := context.WithTimeout(git, patchTime)
	defer cancel()
	var err error
	if out.Patch, err = s.workspace.Patch(limited, e.Nonce); err == nil {
		var known *leak.Finder
		if known, err = s.knownSecrets(limited, e.Worker); err != nil {
			out.Patch = ""
		} else {
			out.Patch, err = scope.Mask(limited, out.Patch, known)
		}
	}
	if err != nil {
		s.log.Info("no patch in the audit", zap.String("issue", string(e.Task)), zap.String("worker", e.Worker), zap.Error(err))
	}
	c := s.recorder
	c.ends.Store(e.Worker, end)
	c.out.Output(e.Worker, out)
	c.out.Attempt(e.Worker, func(m *audit.Meta) {
		m.Issue, m.Attempt = string(e.Task), e.Attempt
		m.Stage, m.Usage, m.Tried, m.Notes, m.ExitCode, m.Signal, m.OOM = meta.Stage, meta.Usage, meta.Tried, meta.Notes, end.exitCode, x.Signal, x.OOM
	})
}
