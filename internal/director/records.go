package director

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// recorder writes what people read afterwards (audits, telemetry, the state of tasks), from what has become durable. It
// belongs to the owner's goroutine; the writer behind it never blocks.
type recorder struct {
	out    *audit.Writer
	runID  string
	image  string
	guards recovery.Guards
	preset string
	known  map[fsm.IssueKey]known

	mu   sync.Mutex
	left map[string]leavings // by attempt: what it left, until the next one begins or the task is over
}

// leavings are what an attempt left.
type leavings struct {
	audit.Bundle
	errorID, claim, message, tail string // of the report that ended it, if that was an error
}

// known is a task as it was last written: one that is over is not in the machine any more.
type known struct {
	standing audit.Task
	nonce    string
}

// newRecorder begins with what the machine knows: an earlier process may have ended before it could write that down.
func newRecorder(m *fsm.Machine, out *audit.Writer, runID, image, preset string, guards recovery.Guards) *recorder {
	c := &recorder{out: out, runID: runID, image: image, preset: preset, guards: guards, known: map[fsm.IssueKey]known{}, left: map[string]leavings{}}
	for _, t := range m.Tasks() {
		c.out.Task(c.standing(fsm.Record{At: m.Now()}, t.Key, t))
		for _, f := range t.History {
			if id := fsm.AttemptID(t.Nonce, f.Attempt); f.Attempt > 0 && (f.Attempt < t.Attempt || !t.State.Info().Live) {
				c.finish(id, func(b *audit.Meta) {
					b.Issue, b.Attempt, b.EndedAt, b.Outcome, b.Stage = string(t.Key), f.Attempt, wire.At(f.At), audit.OutcomeFailed, f.Stage
				})
				c.forget(id)
			}
		}
	}
	return c
}

// record writes one record's facts. The machine may be ahead of it, by what is on its way to the journal.
func (c *recorder) record(r fsm.Record, m *fsm.Machine) {
	for _, f := range r.Facts {
		switch f := f.(type) {
		case fsm.AttemptBegan:
			c.began(r, f, m.Task(f.Task))
		case fsm.Moved:
			c.moved(r, f, m.Task(f.Task))
		case fsm.VerdictMade:
			c.judged(r, f, m.Task(f.Task))
		case fsm.WorkDelivered:
			c.delivered(f)
		case fsm.AttemptUsed:
			c.counted(r, m.Task(f.Task))
		case fsm.PaidCallsSet:
			c.counted(r, m.Task(f.Task))
		case fsm.TallyReset:
			c.counted(r, m.Task(f.Task))
		}
	}
}

// counted is a change of a task's meters.
func (c *recorder) counted(r fsm.Record, t *fsm.Task) {
	if t != nil {
		c.out.Task(c.standing(r, t.Key, t))
	}
}

func (c *recorder) began(r fsm.Record, f fsm.AttemptBegan, t *fsm.Task) {
	if t == nil {
		return
	}
	c.forget(fsm.AttemptID(t.Nonce, f.N-1))
	why := ""
	if n := len(t.History); n > 0 && f.Next.Action != "" {
		why = string(t.History[n-1].Reason) + ": " + t.History[n-1].Cause
	}
	c.out.Begin(audit.Meta{
		AttemptID: fsm.AttemptID(t.Nonce, f.N), Issue: string(f.Task), Title: t.Title, URL: t.URL, Attempt: f.N, RunID: c.runID,
		Action: string(f.Next.Action), Why: why, Image: c.image, Branch: branchName(f.Task, f.N), StartedAt: wire.At(r.At),
		Outcome: audit.OutcomeRunning,
	})
}

// endings say what a move means for the attempt that it ends.
var endings = map[fsm.Trigger]string{fsm.OnGoneOK: audit.OutcomeOK, fsm.OnGoneWithdrawn: audit.OutcomeWithdrawn}

func (c *recorder) moved(r fsm.Record, f fsm.Moved, t *fsm.Task) {
	standing := c.standing(r, f.Task, t)
	standing.State, standing.Attempt = f.To.String(), f.Attempt
	if nonce := c.known[f.Task].nonce; f.Attempt > 0 && nonce != "" {
		id := fsm.AttemptID(nonce, f.Attempt)
		c.out.Transition(audit.Transition{
			At: wire.At(r.At), AttemptID: id, Issue: string(f.Task), Attempt: f.Attempt, From: f.From.String(), To: f.To.String(),
			On: string(f.On), Why: f.Why,
		})
		if outcome := endings[f.On]; outcome != "" {
			c.finish(id, func(m *audit.Meta) { m.EndedAt, m.Outcome = wire.At(r.At), outcome })
		} else if f.From == fsm.Stopping || f.From == fsm.Delivering { // the summary tells how it went on
			c.finish(id, func(*audit.Meta) {})
		}
	}
	switch f.To {
	case fsm.Delivering, fsm.Done, fsm.Released, fsm.Blocked, fsm.Backoff, fsm.Running:
		standing.Succeeded = f.To == fsm.Done
		c.out.Task(standing)
	}
	if f.To.Info().Final || f.To == fsm.Forgotten {
		c.forget(fsm.AttemptID(c.known[f.Task].nonce, f.Attempt))
		delete(c.known, f.Task)
	}
}

// delivered names what became of a success.
func (c *recorder) delivered(f fsm.WorkDelivered) {
	k := c.known[f.Task]
	c.finish(fsm.AttemptID(k.nonce, k.standing.Attempt), func(m *audit.Meta) { m.Branch = f.Pushed.Branch })
}

// judged is the verdict on an attempt: telemetry, the bundle, the task's state.
func (c *recorder) judged(r fsm.Record, f fsm.VerdictMade, t *fsm.Task) {
	if t == nil {
		return
	}
	failure := audit.NewFailure(f.Finding, f.Verdict)
	id := fsm.AttemptID(t.Nonce, f.Attempt)
	c.mu.Lock()
	l := c.left[id]
	c.mu.Unlock()
	failure.ErrorID, failure.Claim = l.errorID, l.claim
	c.out.Classified(audit.Classified{
		At: r.At, RunID: c.runID, Stage: f.Stage, AttemptID: id, Issue: string(f.Task), Attempt: f.Attempt, Caller: "director", Failure: failure,
	})
	if f.Attempt > 0 {
		c.finish(id, func(m *audit.Meta) {
			m.Issue, m.Attempt, m.EndedAt, m.Outcome, m.Stage, m.Failure = string(f.Task), f.Attempt, wire.At(r.At), audit.OutcomeFailed, f.Stage, failure
		})
	}
	standing := c.standing(r, f.Task, t)
	class, ok := recovery.As(c.preset, f.Finding)
	if !ok {
		class = string(f.Finding.Reason)
	}
	standing.Stage = f.Stage
	standing.Seen = &audit.Sighting{Signature: f.Finding.Signature, Class: class, Count: t.Tally.Seen(f.Finding.Signature)}
	standing.LastFailure = audit.NewLastFailure(failure, l.message, l.tail)
	standing.LastFailure.AttemptID, standing.LastFailure.ExitCode, standing.LastFailure.Signal = id, l.ExitCode, l.Signal
	c.out.Task(standing)
}

// standing is where a task stands; of one that is over, where it last stood.
func (c *recorder) standing(r fsm.Record, k fsm.IssueKey, t *fsm.Task) audit.Task {
	s := c.known[k].standing
	if t != nil {
		a, _ := t.Activity()
		s = audit.Task{
			Issue: string(k), Title: t.Title, URL: t.URL, State: t.State.String(), Stage: a.Stage, Attempt: t.Attempt,
			PaidCallsUsed: int(t.Tally.PaidCalls), PaidCallBudget: c.guards.PaidCallBudget,
			Iterations: audit.Iterations{Used: t.Tally.Iterations, Refunded: t.Tally.Refunded, Budget: c.guards.IterationBudget},
			Tokens:     t.Tally.Tokens, CostUSD: t.Tally.CostUSD, CostBudgetUSD: c.guards.CostBudgetUSD,
		}
		c.known[k] = known{s, t.Nonce}
	}
	s.Issue, s.RunID, s.At = string(k), c.runID, r.At
	return s
}

// finish writes what an attempt left, with what is known of its end by now.
func (c *recorder) finish(id string, end func(*audit.Meta)) {
	c.mu.Lock()
	l := c.left[id]
	l.AttemptID = id
	end(&l.Meta)
	c.put(id, l)
	c.mu.Unlock()
	c.out.Finish(l.Bundle)
}

// maxLeft bounds the attempts whose leavings are kept for their summaries; beyond it the newest have only their files.
const maxLeft = 32

// put keeps what an attempt left; mu is held.
func (c *recorder) put(id string, l leavings) {
	if _, known := c.left[id]; known || len(c.left) < maxLeft {
		c.left[id] = l
	}
}

func (c *recorder) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.left, id)
}

// keep keeps what an attempt left, on disk already in case that the process ends before the verdict.
func (c *recorder) keep(l leavings) {
	c.mu.Lock()
	c.put(l.AttemptID, l)
	c.mu.Unlock()
	c.out.Finish(l.Bundle)
}

// patchTime bounds how long a verdict waits for a patch that is only there to be read.
const patchTime = 20 * time.Second

// keepBundle puts down what an ended attempt left: what its container printed, what its stages said, what it changed.
func (s *session) keepBundle(ctx context.Context, e fsm.Effect, x container.Exit, stored []bus.Report) {
	b := leavings{Bundle: audit.Bundle{
		Meta: audit.Meta{
			AttemptID: e.Worker, Issue: string(e.Task), Attempt: e.Attempt, Signal: x.Signal, OOM: x.OOM,
			Outcome: audit.OutcomeRunning,
		},
		// Masked one by one: half a secret at the edge of a ring is only known as such at the edge of a text.
		WorkerLog: s.github.Redact(string(x.Stdout)) + "\n" + s.github.Redact(string(x.Stderr)),
	}}
	if x.Known {
		b.ExitCode = &x.ExitCode
	}
	for _, r := range stored {
		switch body := r.Body.(type) {
		case *wire.WorkerError:
			b.Stage, b.Usage, b.Tried, b.Notes = body.Stage, body.Usage, rounds(body), facts(body)
			b.errorID, b.claim, b.message, b.tail = body.ErrorID, body.ErrorType, body.Message, tail(body)
			if body.ExitCode != nil {
				b.ExitCode = body.ExitCode // the stage's says more than the container's
			}
			if body.Stage == wire.StageValidate {
				b.TestLog = tail(body)
			} else {
				b.BuildLog = tail(body)
			}
		case *wire.WorkerResult:
			b.Usage, b.Stage = body.Usage, wire.StageDone
			if text := strings.TrimSpace(body.Summary); text != "" {
				b.Notes = []string{text}
			}
		}
	}
	limited, cancel := context.WithTimeout(ctx, patchTime)
	defer cancel()
	patch, err := s.workspace.Patch(limited, e.Nonce)
	if err != nil {
		s.log.Info("no patch in the audit bundle", zap.String("issue", string(e.Task)), zap.String("worker", e.Worker), zap.Error(err))
	}
	b.Patch = patch
	s.recorder.keep(b)
}

// report leaves ERROR_REPORT.md behind, if the run has anything to report, and says whether a task failed.
func (d *daemon) report() (failed bool) {
	dir := d.config.Director.DataDir
	store, err := audit.Load(dir)
	if err == nil {
		data := store.Report(audit.ReportOptions{RunID: d.runID, ContinueOnError: d.config.Recovery.ContinueOnError, Aborted: d.aborted})
		failed = audit.ExitCode(data) != 0
		if audit.ReportWanted(data) {
			err = audit.WriteReport(dir, data, d.github.Redact)
		}
	}
	if err != nil {
		d.log.Warn("no error report", zap.Error(err))
	}
	return failed
}
