package fsm

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// begunBefore reports whether an earlier try or process may have carried out the effect, at least in part. If GitHub
// then refuses the claim permanently, the claim must be released, because its labels would otherwise keep everybody
// else from claiming the issue.
func (m *attempts) begunBefore(p Planned) bool {
	return !p.NotBefore.IsZero() || !p.Effect.At.After(m.began) // the times are equal if the earlier clock was ahead
}

// claimChecked handles the outcome of Claim or Recheck: the task wins, keeps or loses its claim. A failed Claim loses
// it.
func (m *attempts) claimChecked(t *Task, p Planned, e EffectEnded) {
	end := cmp.Or(e.Claim, &ClaimResult{Why: "the claim had no result"})
	if e.Failure != nil {
		end = &ClaimResult{Why: e.Failure.Text}
	}
	switch {
	case t.State != Claiming && t.State != Backoff && t.State != Parked:
	case end.Ours:
		m.rename(t, end.Title, "")
		m.record(LabelsConfirmed{OfTask{t.Key}})
		if t.State != Parked && (t.State != Claiming || !m.blockUsedUp(t)) && !m.blockOverspent(t) {
			m.begin(t)
		}
	case t.State == Claiming:
		if e.Failure != nil && m.begunBefore(p) {
			m.plan(t, Effect{Kind: DoRelease, Release: &ReleaseNote{Why: end.Why}})
		}
		m.move(t, OnLost, end.Why, time.Time{})
	case e.Failure != nil:
		m.giveUp(t, failureOf(e.Failure), "RETRY_WAIT", rowRecheck,
			"the issue could not be reread before the next attempt")
	default:
		m.release(t, OnWithdrawn, ReleaseNote{Why: end.Why})
	}
}

// begin starts the next attempt, or delivers the work if no attempt is necessary.
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
	next.Validate = next.Validate && m.cfg.of(t).CleanValidation
	leaves := m.cfg.of(t).CleanValidation && !next.Validate
	order := &StartOrder{
		Action: next.Action, Fresh: next.Fresh, Validate: next.Validate, LeavesValidation: leaves,
		Travels: m.cfg.CheckoutTravels, Alternative: t.Alternative, Failures: t.History, Hints: t.Hints,
		WatchdogAt: m.now.Add(m.cfg.Watchdog), PaidCallsLeft: m.cfg.of(t).Policy.Guards().PaidCallsLeft(t.Tally),
	}
	m.record(AttemptBegan{
		OfTask: OfTask{t.Key}, N: t.Attempt + 1, Next: next, Travels: order.Travels,
		LeavesValidation: leaves, WatchdogAt: order.WatchdogAt,
	})
	m.plan(t, Effect{Kind: DoStart, Start: order})
	m.move(t, on, string(order.Action), time.Time{})
}

// withdraw ends a claim because a human took the issue back. taken is the person who took it over, or "".
func (m *attempts) withdraw(t *Task, why, taken string) {
	end := EndingSet{OfTask: OfTask{t.Key}, Outcome: OutcomeWithdrawn, Cause: why, Taken: taken}
	switch {
	case slices.Contains(idle, t.State):
		m.release(t, OnWithdrawn, ReleaseNote{Why: why, Taken: taken})
	case t.State != Stopping:
		m.stop(t, OnWithdrawn, end, m.cfg.StopGrace)
	case t.Ending.Outcome != OutcomeWithdrawn:
		m.record(end)
	}
}

// release ends the claim of a task that has no container.
func (m *attempts) release(t *Task, on Trigger, note ReleaseNote) {
	m.overtake(t, note.Why)
	m.plan(t, Effect{Kind: DoRelease, Release: &note})
	m.move(t, on, note.Why, time.Time{})
}

// rowStale names the verdict on a claim that went stale a second time.
const rowStale = "director.claim_stale"

// rowRecheck names the verdict on a task whose issue can no longer be read.
const rowRecheck = "director.recheck"

// maxStale limits how many stale claims are remembered. Once an issue's first stale claim is forgotten, its next
// one counts as the first.
const maxStale = 500

// claimCanGoStale reports whether a lack of progress counts against a claim. It does not count while a phase, an
// incident or a search for programs prevents attempts. An incident in another repository does not.
func (m *agenda) claimCanGoStale(t *Task) bool {
	return m.cfg.ClaimStale > 0 && m.hard.Phase == PhaseMonitor && !m.mustSearch() &&
		!slices.ContainsFunc(m.hard.Incidents, func(i Incident) bool {
			return i.Breaker.KeepsBack(m.now) && (i.Repo == "" || strings.EqualFold(i.Repo, t.Key.Repo()))
		})
}

// staleAt returns the time at which a claim has waited too long for its next attempt. The wait begins when that attempt
// could first begin. It excludes limits, pauses and times when no director ran.
func (m *agenda) staleAt(t *Task) time.Time {
	return later(later(later(later(t.Since, t.Until), m.dispatchableSince), m.modelOpensAt()), m.hostOpensAt()).
		Add(m.cfg.ClaimStale)
}

// claimStale releases a claim without progress, so that another director can claim the issue. The second time, the
// director asks a human instead.
func (m *attempts) claimStale(t *Task) {
	why := "no progress on this claim for " + policy.Span(m.cfg.ClaimStale)
	if slices.Contains(m.hard.StaleClaims, t.Key) {
		m.overtake(t, why)
		m.giveUp(t, t.lastFinding(why), "RETRY_WAIT", rowStale, "this claim went stale a second time")
		return
	}
	m.record(ClaimWentStale{Task: t.Key})
	m.release(t, OnStale, ReleaseNote{Why: why, Restore: true, Reclaim: true})
}

// lastFinding returns the failure that made the task wait for another attempt.
func (t *Task) lastFinding(why string) recovery.Finding {
	f := recovery.Finding{Reason: recovery.Unknown, Cause: why, Rule: "director.claim_stale", Confidence: 1}
	if n := len(t.History); n > 0 {
		f.Reason = t.History[n-1].Reason
		f.Cause += ", after: " + t.History[n-1].Cause
	}
	return f
}
