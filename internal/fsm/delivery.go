package fsm

import (
	"time"

	"retake/internal/recovery"
)

// deliver starts to deliver the last attempt's work.
func (m *attempts) deliver(t *Task, on Trigger) {
	m.plan(t, Effect{Kind: DoDeliver, Failures: t.History, Deliver: &DeliverOrder{
		Validate: m.cfg.of(t).Policy.Forbids(t.Tally) == "", Validated: t.Validates, Hints: t.Hints, Spent: t.Spent,
	}})
	m.move(t, on, "", time.Time{})
}

// Rows and reasons of verdicts that require another validation before delivery.
const (
	rowBaseMoved   = "director.base_moved"
	rowWorkChanged = "director.work_changed"

	baseMoved   = "the base branch had advanced and was merged into the work, which needs another validation"
	workChanged = "the work differs from the validated work, and needs another validation"
)

// validateAgain schedules another validation, because the work now includes the base branch or differs from the
// validated work. The operator may have lowered the budget since the delivery began, so validateAgain checks it again.
func (m *attempts) validateAgain(t *Task, row, why string) {
	if m.blockUsedUp(t) {
		return
	}
	m.record(VerdictMade{
		OfTask: OfTask{t.Key}, Attempt: t.Attempt, Stage: "SYNC_MAIN", Validate: m.cfg.of(t).CleanValidation,
		Finding: recovery.Finding{Reason: recovery.Validation, Cause: why, Rule: row, Confidence: 1},
		Verdict: recovery.Verdict{
			Action: recovery.Revalidate, Charges: recovery.Infrastructure,
			Reason: recovery.Validation, Row: row, Why: why,
		},
	})
	m.move(t, OnRetry, why, m.now)
}

// delivered reports whether the effect was a delivery that published work.
func (e *EffectEnded) delivered() bool {
	return e.Failure == nil && e.Delivery != nil && !e.Delivery.Nothing && !e.Delivery.Merged && !e.Delivery.Changed
}

// deliveryEnded handles the outcome of a delivery.
func (m *attempts) deliveryEnded(t *Task, e EffectEnded) {
	switch {
	case e.Claim != nil && !e.Claim.Ours: // nothing was published
		m.release(t, OnWithdrawn, ReleaseNote{Why: e.Claim.Why})
	case e.Failure != nil && e.Failure.Reason == recovery.GitConflict:
		m.decide(t, failureOf(e.Failure), "SYNC_MAIN")
	case e.Failure != nil && e.Failure.Reason == recovery.WorkLost: // another attempt must redo the work
		m.decide(t, failureOf(e.Failure), "COMMIT")
	case e.Failure != nil: // another attempt would repeat finished work and fail in the same way
		m.giveUp(t, failureOf(e.Failure), "COMMIT", rowDeliver, "the work is done and kept, but it cannot be delivered")
	case e.Delivery != nil && e.Delivery.Merged:
		m.validateAgain(t, rowBaseMoved, baseMoved)
	case e.Delivery != nil && e.Delivery.Changed:
		m.validateAgain(t, rowWorkChanged, workChanged)
	case e.delivered() && e.Delivery.PullRequest > 0: // keep the checkout, because reviewers may request changes
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
