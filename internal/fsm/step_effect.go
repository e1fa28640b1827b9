package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"retake/internal/recovery"
)

// githubDown is how many failures in a row of one effect make an outage of GitHub, and how long it is then left alone.
const (
	githubDownAfter = 3
	githubDownFor   = time.Minute
)

// releaseTries is how often a release is tried that GitHub refuses for good; then the claim's labels stay as they are.
const releaseTries = 10

// effectEnded is the outcome of a durable effect. Outcomes of anything but the effect that is under way are old.
func (m *Machine) effectEnded(e EffectEnded) {
	t := m.Task(e.Task)
	if t == nil || len(t.Outbox) == 0 || t.Outbox[0].Effect.ID != e.Effect || t.soft.inFlight != e.Effect {
		return
	}
	p := t.Outbox[0]
	m.touch(t)
	if e.Failure != nil && t.tryAgain(p, e.Failure) {
		m.deferEffect(t, p, e.Failure)
		return
	}
	done := EffectDone{Task: t.Key, Effect: e.Effect}
	if e.Failure != nil {
		done.Failed = e.Failure.Text
	}
	switch p.Effect.Kind {
	case DoClaim, DoRecheck:
		m.record(done)
		switch {
		case e.Failure != nil && t.State == Backoff:
			m.giveUp(t, failureOf(e.Failure), "RETRY_WAIT", "recheck", "the issue could not be read again before the next attempt")
		case e.Failure != nil && t.State == Claiming && m.begunBefore(p):
			m.plan(t, Effect{Kind: DoRelease, Release: &ReleaseNote{Why: e.Failure.Text}})
			m.move(t, OnLost, e.Failure.Text, time.Time{})
		default:
			m.claimEnded(t, e.claimEnd())
		}
	case DoStart:
		m.record(done)
		m.started(t, e.Failure)
	case DoStop:
		m.record(done)
		m.gone(t, e.Gone)
	case DoDeliver:
		m.delivered(t, done, e)
	case DoEscalate:
		m.record(done)
		if e.Failure == nil {
			m.record(LabelsConfirmed{Task: t.Key})
		}
	case DoRelease:
		m.emit(t, Effect{Kind: DoForget})
		m.record(done)
	}
}

// tryAgain says whether a failed effect stays in the outbox. What something else waits behind is given up if that makes
// it pointless. A failed start becomes a failed attempt, so that it is bounded; a container must be confirmed gone, and
// a human must be asked, however long that takes.
func (t *Task) tryAgain(p Planned, f *Failed) bool {
	switch k := p.Effect.Kind; {
	case len(t.Outbox) > 1 && effects[k].overtaken:
		return false
	case !f.Until.IsZero():
		return true
	case k == DoStart:
		return false
	case k == DoStop, k == DoEscalate && t.State == Blocked, k == DoRelease && p.Tries < releaseTries:
		return true
	}
	return f.Transient
}

// begunBefore says whether an earlier try, or an earlier process, may have carried the effect out, or half of it. A claim
// that is refused for good after that is given back: nobody could claim the issue beside it.
func (m *Machine) begunBefore(p Planned) bool {
	return !p.NotBefore.IsZero() || !p.Effect.At.After(m.began) // clocks differ between processes
}

// claimEnd reads the outcome of Claim and Recheck; what cannot be claimed is not ours.
func (e EffectEnded) claimEnd() ClaimEnd {
	switch {
	case e.Failure != nil:
		return ClaimEnd{Why: e.Failure.Text}
	case e.Claim == nil:
		return ClaimEnd{Why: "the claim had no result"}
	}
	return *e.Claim
}

// soonest is the least wait before a failed effect is tried again: jitter may draw 0, and a stated reset may be past.
const soonest = 100 * time.Millisecond

// deferEffect keeps a failed effect for later. A wait for a stated reset is not counted as a failure.
func (m *Machine) deferEffect(t *Task, p Planned, f *Failed) {
	d := EffectDeferred{Task: t.Key, Effect: p.Effect.ID, Tries: p.Tries, Until: f.Until.Round(0).UTC(), Why: f.Text}
	if !f.Until.After(m.now) { // none, or one that is past: our clock and theirs differ, and asking at once would not help
		d.Tries++
		d.Until = m.now.Add(m.cfg.Retry.Delay(d.Tries, p.Effect.ID))
		if f.GitHub && f.Transient && d.Tries%githubDownAfter == 0 {
			m.coolDown(GitHubRead, m.now.Add(githubDownFor), "GitHub fails repeatedly: "+f.Text)
		}
	} else if f.GitHub {
		m.coolDown(GitHubWrite, f.Until, f.Text)
	}
	d.Until = later(d.Until, m.now.Add(soonest))
	m.record(d)
}

// overtake takes out of the outbox what is pointless now and was not emitted by this process. What an earlier process
// may have done of it is undone by the effect that is planned next: a stop, or a release.
func (m *Machine) overtake(t *Task, why string) {
	for _, p := range slices.Clone(t.Outbox) {
		if p.Effect.ID != t.soft.inFlight && effects[p.Effect.Kind].overtaken {
			m.record(EffectDone{Task: t.Key, Effect: p.Effect.ID, Failed: "overtaken: " + why})
		}
	}
}

// started is the outcome of a start.
func (m *Machine) started(t *Task, f *Failed) {
	if f == nil {
		t.soft.up, t.soft.slack = m.now, 0
		m.record(ContainerStarted{
			Task: t.Key, HelloBy: m.now.Add(m.cfg.StartTimeout), WatchdogAt: m.now.Add(m.cfg.Watchdog),
		})
		return
	}
	m.stop(t, OnStartFailed, EndingSet{Outcome: OutcomeFailed, Known: f.Reason, Cause: f.Text}, 0)
}

// gone joins the evidence of an attempt whose container is confirmed gone, and decides once.
func (m *Machine) gone(t *Task, g *Gone) {
	if t.State != Stopping {
		return
	}
	if g == nil {
		g = &Gone{}
	}
	for _, r := range g.Reports {
		if r.Exit {
			f := m.exitFinding(t, g)
			if heard := t.soft.Stage; heard != "" {
				r.Stage = heard // the director's report cannot know it
			}
			m.accept(t, r, &f)
			continue
		}
		m.accept(t, r, nil)
	}
	if used := t.used(); used != (recovery.Usage{}) {
		m.record(AttemptUsed{Task: t.Key, Usage: used})
	}
	switch t.Ending.Outcome {
	case OutcomeOK:
		m.plan(t, Effect{Kind: DoDeliver, Failures: t.History})
		m.move(t, OnGoneOK, "", time.Time{})
	case OutcomeWithdrawn:
		m.plan(t, Effect{Kind: DoRelease, Release: &ReleaseNote{Why: t.Ending.Withdrawn}})
		m.move(t, OnGoneWithdrawn, t.Ending.Withdrawn, time.Time{})
	default:
		f := t.Ending.Finding
		g = g.withStored()
		if f == nil || t.Ending.certain() || g.OOM && f.Reason != recovery.OOMKilled {
			known := m.exitFinding(t, g)
			f = &known
		}
		m.decide(t, *f, t.Ending.Stage)
	}
}

// withStored fills in what only the stored report of the exit still knows: a director that was killed after the container
// was removed asks a runtime that knows nothing any more.
func (g *Gone) withStored() *Gone {
	full := *g
	for _, r := range g.Reports {
		if !r.Exit || g.ExitCode != nil {
			continue
		}
		full.ExitCode, full.Signal = r.Evidence.ExitCode, r.Evidence.Signal
		full.OOM = full.OOM || r.Evidence.OOM
	}
	return &full
}

// certain says whether the director's own knowledge beats a report: it came first, and a report that follows tells of
// our stop. Silence is not knowledge; a report that was under way meanwhile knows better.
func (e *Ending) certain() bool {
	return e.Known != "" && e.Known != recovery.WorkerLost && e.Known != recovery.BusDisconnect
}

// exitFinding says what the end of a container means when no report does: what the runtime knows for certain first,
// then why the director stopped it, then the bare exit.
func (m *Machine) exitFinding(t *Task, g *Gone) recovery.Finding {
	g = g.withStored()
	e := recovery.Evidence{Known: t.Ending.Known, KnownCause: t.Ending.KnownCause, ExitCode: g.ExitCode, Signal: g.Signal}
	switch {
	case g.OOM:
		e.Known, e.KnownCause = recovery.OOMKilled, "the container was killed at its memory limit"
		if g.Limit != "" {
			e.KnownCause += " (containers.memory = " + g.Limit + ")"
		}
	case e.Known != "":
	case g.ExitCode == nil:
		e.Known, e.KnownCause = recovery.WorkerLost, "the container was gone, and no report had come"
	case g.Signal == "SIGKILL":
		e.Known, e.KnownCause = recovery.WorkerLost, "the worker was killed (SIGKILL) from outside; possibly out of memory, but nothing says so"
	case g.Signal != "":
		e.Known, e.KnownCause = recovery.WorkerLost, "the worker was ended by "+g.Signal+" without a report"
	default:
		e.Known, e.KnownCause = recovery.WorkerLost, fmt.Sprintf("the worker ended with exit code %d without a report", *g.ExitCode)
	}
	return m.cfg.Classify(e)
}

// delivered is the outcome of a delivery.
func (m *Machine) delivered(t *Task, done EffectDone, e EffectEnded) {
	switch {
	case e.Failure != nil: // the work is done: another attempt would do it again, and not deliver it either
		m.record(done)
		m.giveUp(t, failureOf(e.Failure), "COMMIT", "deliver", "the work is done and kept, but it cannot be delivered")
	case e.Pushed == nil || e.Pushed.Nothing:
		m.record(done)
		m.decide(t, m.cfg.Classify(recovery.Evidence{
			Known: recovery.NoProgress, KnownCause: "the agent reported success, but the work tree is as it was",
		}), "COMMIT")
	default:
		m.record(WorkDelivered{Task: t.Key, Pushed: *e.Pushed})
		m.record(done)
		m.emit(t, Effect{Kind: DoForget})
		m.move(t, OnDelivered, e.Pushed.Branch, time.Time{})
	}
}

// decide makes the one verdict about a failed attempt.
func (m *Machine) decide(t *Task, f recovery.Finding, stage string) {
	facts := recovery.Facts{HasAlternative: m.cfg.HasAlternative}
	v := m.cfg.Policy.Decide(f, t.Tally, facts, t.AttemptID())
	if t.Ending.Known == recovery.QuotaExhausted && f.Reason == recovery.QuotaExhausted { // the task's own: no reset comes
		v = recovery.Refuse(f.Reason, recovery.GuardBudget, v.Row, f.Cause)
	}
	m.spoken(t, f, stage)
	v, incident := m.weigh(t, f, v)
	m.record(VerdictMade{Task: t.Key, Attempt: t.Attempt, Stage: stage, Finding: f, Verdict: v, Incident: incident})
	if r := t.cooled(f, v); r != "" { // nobody else is to run into the same limit
		m.coolDown(r, m.now.Add(v.Delay), f.Cause)
	}
	switch {
	case v.Action.Again():
		m.move(t, OnRetry, v.Why, m.now.Add(v.Delay))
		return
	case v.Action == recovery.Reclaim:
		m.plan(t, Effect{Kind: DoRelease, Release: &ReleaseNote{Why: v.Why, Restore: true}})
		m.move(t, OnReclaim, v.Why, time.Time{})
		return
	case v.Action == recovery.Abort && m.phase != PhaseShutdown:
		m.unpause(PhaseDraining, fmt.Sprintf("the policy aborts the run: %s: %s", t.Key, v.Why)) // until the operator resumes
	}
	// Escalate, and what a policy calls skip, stop or abort: to this issue it is the same, a human has to look.
	m.ask(t, f, stage, v, false)
}

// cooled names the resource that a verdict closes: the failing model, where the policy says "model", or nothing and the
// failure is a limit. Empty: none.
func (t *Task) cooled(f recovery.Finding, v recovery.Verdict) string {
	about, _ := recovery.Describe(f.Reason)
	limit := v.Action.About().Free && v.Row != rowIncident && about.Cause == recovery.RateLimit
	switch {
	case v.Cools == "model", v.Cools == "" && limit:
		return t.model()
	case v.Cools == "github":
		return GitHubWrite
	}
	return v.Cools
}

// model names the resource that the attempt's model is.
func (t *Task) model() string { return modelPrefix + cmp.Or(t.Ending.Provider, "default") }

// giveUp blocks a task that cannot go on although no attempt failed: its work cannot be delivered, GitHub refuses for
// good to say whether the issue is still ours (giving the claim back would be refused as well, and the issue be forgotten
// with our labels on it), or the claim went stale again.
func (m *Machine) giveUp(t *Task, f recovery.Finding, stage, row, why string) {
	m.block(t, f, stage, recovery.Verdict{Action: recovery.Escalate, Reason: f.Reason, Row: "director." + row, Why: why}, row == rowStale)
}

func (m *Machine) block(t *Task, f recovery.Finding, stage string, v recovery.Verdict, stale bool) {
	m.record(VerdictMade{Task: t.Key, Attempt: t.Attempt, Stage: stage, Finding: f, Verdict: v})
	m.ask(t, f, stage, v, stale)
}

// ask blocks the task and asks a human.
func (m *Machine) ask(t *Task, f recovery.Finding, stage string, v recovery.Verdict, stale bool) {
	about, _ := recovery.Describe(f.Reason)
	m.plan(t, Effect{Kind: DoEscalate, Escalation: &Escalation{
		Stage: stage, Reason: f.Reason, Cause: f.Cause, Why: v.Why, Ask: cmp.Or(v.Ask, about.Ask),
		Tried: t.History, Stale: stale, Report: t.Ending.Report,
	}})
	m.move(t, OnEscalate, v.Why, time.Time{})
}
