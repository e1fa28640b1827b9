package fsm

import (
	"cmp"
	"fmt"
	"time"

	"retake/internal/recovery"
)

// begin starts the next attempt, or hands in what the last one has done.
func (m *attempts) begin(t *Task) {
	if t.Next.Deliver {
		m.deliver(t, OnDeliverAgain)
		return
	}
	on := OnWon
	if t.State == Backoff {
		on = OnStillOurs
	}
	next := t.Next
	next.Validate = next.Validate && m.cfg.CleanValidation
	leaves := m.cfg.CleanValidation && !next.Validate
	order := &StartOrder{
		Action: next.Action, Fresh: next.Fresh, Validate: next.Validate, LeavesValidation: leaves,
		Travels: m.cfg.CheckoutTravels, Alternative: t.Alternative, Failures: t.History, Hints: t.Hints,
		WatchdogAt: m.now.Add(m.cfg.Watchdog), PaidCallsLeft: m.cfg.Policy.Guards().PaidCallsLeft(t.Tally),
	}
	m.record(AttemptBegan{
		OfTask: OfTask{t.Key}, N: t.Attempt + 1, Next: next, Travels: order.Travels,
		LeavesValidation: leaves, WatchdogAt: order.WatchdogAt,
	})
	m.plan(t, Effect{Kind: DoStart, Start: order})
	m.move(t, on, string(order.Action), time.Time{})
}

// started takes the outcome of a start.
func (m *attempts) started(t *Task, f *EffectError) {
	switch {
	case f != nil:
		m.stop(t, OnStartFailed, EndingSet{
			Outcome: OutcomeFailed, Known: f.Reason, Cause: f.Text,
			Resource: f.Resource,
		}, 0)
	case m.cfg.PendingTimeout > 0 && t.State == Starting:
		m.placing(t)
	default:
		m.runs(t)
	}
}

// runs notes that the attempt's container runs: its worker has deadlines from here on.
func (m *attempts) runs(t *Task) {
	t.soft.upAt, t.soft.slack = m.now, 0
	life := m.cfg.Watchdog
	if t.State == Starting { // as it was when the attempt began: its worker has been told so
		life = t.WatchdogAt.Sub(t.Since)
	}
	m.record(ContainerStarted{
		OfTask: OfTask{t.Key}, HelloBy: m.now.Add(m.cfg.StartTimeout), WatchdogAt: m.now.Add(life),
	})
	m.noteHealthEvidence(t, recovery.Finding{}, "")
}

// stop decides that the attempt is over, for better or worse. Its container must be confirmed gone, or the
// attempt fenced, before anything else happens.
func (m *attempts) stop(t *Task, on Trigger, end EndingSet, grace time.Duration) {
	if _, ok := t.State.After(on); !ok {
		return
	}
	if end.Outcome != "" {
		end.Task = t.Key
		m.record(end)
	}
	m.overtake(t, on.Info().Means)
	m.plan(t, Effect{Kind: DoStop, Stop: m.stopOrder(t, grace, on.Info().Stop)})
	m.move(t, on, end.Cause, time.Time{})
}

// stopped joins the evidence of an attempt that can do nothing more, and decides once.
func (m *attempts) stopped(t *Task, result *StopResult) {
	if t.State != Stopping {
		return
	}
	g := *cmp.Or(result, &StopResult{}) // a copy: the event is journaled as it came
	if g.Fenced {
		m.record(AttemptFenced{OfTask: OfTask{t.Key}, Attempt: t.Attempt, Words: shortWords(g.Words)})
	}
	for _, r := range g.Reports {
		var known *recovery.Finding
		if r.Exit {
			// the director was killed after the container had been removed: the runtime no longer knows
			if g.ExitCode == nil {
				g.ExitCode, g.Signal, g.OOM = r.Evidence.ExitCode, r.Evidence.Signal, g.OOM || r.Evidence.OOM
			}
			known = m.exitFinding(t, g)
			r.Stage = cmp.Or(t.soft.Stage, r.Stage) // the director's own report cannot know it
		}
		m.accept(t, r, known)
	}
	if used := t.used(); used != (recovery.Usage{}) {
		m.record(UsageCounted{OfTask: OfTask{t.Key}, Usage: used, Ended: true, Spent: t.Spent.Plus(used)})
	}
	switch done := t.Ending.Outcome == OutcomeOK; {
	case done && (t.LeavesValidation || m.cfg.CleanValidation && !t.Validates):
		m.record(ValidationDue{OfTask: OfTask{t.Key}, Attempt: t.Attempt})
		m.move(t, OnValidate, "", m.now)
	case done && g.Fenced:
		m.validateFenced(t, *m.exitFinding(t, g))
	case done:
		m.deliver(t, OnGoneOK)
	case t.Ending.Outcome == OutcomeWithdrawn:
		m.release(t, OnGoneWithdrawn, ReleaseNote{Why: t.Ending.Withdrawn, Taken: t.Ending.Taken})
	default:
		f := t.Ending.Finding
		if f == nil || t.Ending.certain() || g.OOM && f.Reason != recovery.OOMKilled {
			f = m.exitFinding(t, g)
		}
		stage := t.Ending.Stage
		if t.Ending.Known == recovery.GitConflict { // the director's own merge, before the worker could begin
			stage = "SYNC_MAIN"
		}
		m.decide(t, *f, stage)
	}
}

// deliver hands in the work of the last attempt.
func (m *attempts) deliver(t *Task, on Trigger) {
	m.plan(t, Effect{Kind: DoDeliver, Failures: t.History, Deliver: &DeliverOrder{
		Validate: m.cfg.Policy.Forbids(t.Tally) == "", Validated: t.Validates, Hints: t.Hints, Spent: t.Spent,
	}})
	m.move(t, on, "", time.Time{})
}

// certain reports whether the director's own knowledge beats a report: it came first, and a report that follows
// describes our stop. Silence is not knowledge; a report that was already under way knows better.
func (e *Ending) certain() bool {
	return e.Known != "" && e.Known != recovery.WorkerLost && e.Known != recovery.BusDisconnect
}

// exitFinding classifies the end of a container when no report does: by what the runtime knows for certain,
// then by why the director stopped it, then by the bare exit.
func (m *attempts) exitFinding(t *Task, g StopResult) *recovery.Finding {
	e := recovery.Evidence{
		Known: cmp.Or(t.Ending.Known, recovery.WorkerLost), KnownCause: t.Ending.KnownCause, ExitCode: g.ExitCode,
		Signal: g.Signal,
	}
	switch {
	case g.OOM:
		e.Known, e.KnownCause = recovery.OOMKilled, "the container was killed at its memory limit"
		if g.Limit != "" {
			e.KnownCause += " (containers.memory = " + g.Limit + ")"
		}
	case t.Ending.certain():
	case g.Fenced, endCauses[g.Cause].reason != "":
		e.Known, e.KnownCause = g.ownCause()
	case t.Ending.Known != "":
	case g.ExitCode == nil:
		e.KnownCause = "the container was gone, and no report had arrived"
	case g.Signal == "SIGKILL":
		e.KnownCause = "the worker was killed (SIGKILL) from outside; it may have run out of memory, but there " +
			"is no evidence"
	case g.Signal != "":
		e.KnownCause = "the worker was ended by " + g.Signal + " without a report"
	default:
		e.KnownCause = fmt.Sprintf("the worker ended with exit code %d without a report", *g.ExitCode)
	}
	f := m.cfg.Classify(e)
	if g.Lost != "" { // it has a time in it, which must not make another failure of the same one
		f.Cause += ": " + g.Lost
	}
	return &f
}

// The director's own report of an exit waits for what the runtime knows, which comes with the container's
// confirmed end.
func (b ReportReceived) step(m *Machine) {
	t, current := m.Worker(b.Worker)
	switch {
	case !current:
		if t == nil || !t.remembers(b.Worker, b.Report.Ref.ID) {
			m.fence(b.Worker)
		}
	case !b.Report.Exit:
		m.accept(t, b.Report, nil)
		m.enforceBudget(t)
	}
}

// accept makes a report count, once. Its finding is what the evidence means, unless the caller knows better.
func (m *attempts) accept(t *Task, r Report, known *recovery.Finding) {
	t.soft.Usage = t.soft.Usage.Max(r.Usage) // also of one that is known: this process may not have heard it
	if t.remembers(t.AttemptID(), r.Ref.ID) || !t.hasRoomFor(r.Final) {
		return
	}
	f := ReportAccepted{
		OfTask: OfTask{t.Key}, Worker: t.AttemptID(), Ref: r.Ref, OK: r.OK, Final: r.Final, Exit: r.Exit,
		Stage: r.Stage, Provider: r.Evidence.Provider,
	}
	if !r.OK {
		f.Finding = known
		if known == nil {
			f.Finding, f.Assertion = new(m.finding(r)), &r.Evidence.Assertion
		}
	}
	m.record(f)
	m.index(t)
	if r.Final && t.State != Stopping {
		grace := m.cfg.StopGrace
		if r.Evidence.Known != "" { // the director ends it for what it does: it does no more of that
			grace = 0
		}
		m.stop(t, OnReport, EndingSet{}, grace)
	}
}

// finding is what a report's evidence means.
func (m *attempts) finding(r Report) recovery.Finding {
	if c := r.Classified; c != nil && c.By != nil && c.By == m.cfg.Classifier {
		return c.Finding
	}
	return m.cfg.Classify(r.Evidence)
}

// Why a delivery asks for another validation, by the row of its verdict.
const (
	rowBaseMoved   = "director.base_moved"
	rowWorkChanged = "director.work_changed"

	baseMoved   = "the base branch had moved on and was merged into the work, which is to be validated again"
	workChanged = "the work is not what was validated, and is to be validated again"
)

// validateAgain lets another attempt validate the work: on the base branch that was merged into it, or because
// it is not what was validated. The delivery asked for it only because there was budget for it; the operator
// may have used that up since.
func (m *attempts) validateAgain(t *Task, row, why string) {
	if m.blockUsedUp(t) {
		return
	}
	m.record(VerdictMade{
		OfTask: OfTask{t.Key}, Attempt: t.Attempt, Stage: "SYNC_MAIN", Validate: m.cfg.CleanValidation,
		Finding: recovery.Finding{Reason: recovery.Validation, Cause: why, Rule: row, Confidence: 1},
		Verdict: recovery.Verdict{
			Action: recovery.Revalidate, Charges: recovery.Infrastructure,
			Reason: recovery.Validation, Row: row, Why: why,
		},
	})
	m.move(t, OnRetry, why, m.now)
}

// delivered reports whether the outcome is that of a delivery that has delivered something.
func (e *EffectEnded) delivered() bool {
	return e.Failure == nil && e.Delivery != nil && !e.Delivery.Nothing && !e.Delivery.Merged && !e.Delivery.Changed
}

// deliveryEnded takes the outcome of a delivery.
func (m *attempts) deliveryEnded(t *Task, e EffectEnded) {
	switch {
	case e.Claim != nil && !e.Claim.Ours: // nothing was shown
		m.release(t, OnWithdrawn, ReleaseNote{Why: e.Claim.Why})
	case e.Failure != nil && e.Failure.Reason == recovery.GitConflict:
		m.decide(t, failureOf(e.Failure), "SYNC_MAIN")
	case e.Failure != nil && e.Failure.Reason == recovery.WorkLost: // there is nothing to deliver any more
		m.decide(t, failureOf(e.Failure), "COMMIT")
	case e.Failure != nil: // the work is done: another attempt would do it again, and not deliver it either
		m.giveUp(t, failureOf(e.Failure), "COMMIT", rowDeliver, "the work is done and kept, but it cannot be delivered")
	case e.Delivery != nil && e.Delivery.Merged:
		m.validateAgain(t, rowBaseMoved, baseMoved)
	case e.Delivery != nil && e.Delivery.Changed:
		m.validateAgain(t, rowWorkChanged, workChanged)
	case e.delivered() && e.Delivery.PullRequest > 0: // the checkout stays, for what the review asks for
		m.record(LabelsConfirmed{OfTask{t.Key}})
		m.move(t, OnInReview, e.Delivery.Branch, time.Time{})
	case e.delivered():
		m.emit(t, Effect{Kind: DoForget})
		m.move(t, OnDelivered, e.Delivery.Branch, time.Time{})
	default:
		m.decide(t, m.cfg.Classify(recovery.Evidence{
			Known: recovery.NoProgress, KnownCause: "the agent reported success, but the work tree is unchanged",
		}), "COMMIT")
	}
}
