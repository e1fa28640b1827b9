package fsm

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// booted begins to count: workers get twice the TTL to be heard, and what was outstanding is emitted again.
func (m *Machine) booted(b Booted) {
	m.record(RunBegan(b))
	if m.phase == PhaseShutdown {
		m.setPhase(cmp.Or(m.intent, m.rest()), "a new run")
	}
	m.began, m.calm, m.holds = m.now, m.now, m.githubOpens().After(m.now)
	m.forgive(2 * m.cfg.HeartbeatTTL)
	m.touchAll()
}

// resumed forgives the silence of a time in which the director itself could not listen.
func (m *Machine) resumed(r Resumed) {
	for _, t := range m.order {
		if t.State.Info().Live {
			t.soft.slack += r.Gap
		}
	}
	m.forgive(2 * m.cfg.HeartbeatTTL)
}

func (m *Machine) forgive(d time.Duration) {
	m.grace = m.now.Add(d)
	m.reindex()
}

func (m *Machine) reindex() {
	for _, t := range m.order {
		m.index(t)
	}
}

// intake bounds how many tasks one event may begin, and with it the size of a journal record. The rest come with the
// next poll, which begins where this one did.
const intake = 500

// issuesSeen compares GitHub's view with ours. The cursor is taken only if every view was decided: what was not is then
// read again, by this process or the next.
func (m *Machine) issuesSeen(b IssuesSeen) {
	decided, queued := true, 0
	for _, v := range b.Issues {
		t := m.Task(v.Key)
		switch {
		case t != nil:
			decided = m.taskSeen(t, v, b.AskedAt) && decided
		case v.Key.valid() && v.Open && v.has(LabelClaimed):
			if !m.held(DoReclaim) {
				m.emit(nil, Effect{Kind: DoReclaim, Task: v.Key})
			}
		case !v.Key.valid() || !v.eligible():
		case v.Nonce == "" || m.nonces[v.Nonce] != nil || queued == intake:
			decided = false
		default:
			queued++
			m.record(TaskQueued{Task: v.Key, Nonce: v.Nonce, Title: v.Title, URL: v.URL})
		}
	}
	if decided && b.Cursor != "" && b.Cursor != m.Cursor(b.Repo) {
		m.record(CursorAdvanced{Repo: b.Repo, Cursor: b.Cursor})
	}
}

func (v IssueView) has(l Label) bool { return slices.Contains(v.Labels, l) }

// eligible: open, offered, and nobody's.
func (v IssueView) eligible() bool {
	return v.Open && v.has(LabelTask) && !v.has(LabelClaimed) && !v.has(LabelBlocked)
}

// taskSeen looks for a withdrawal or an answer; false: the view cannot be judged yet, and must be read again.
func (m *Machine) taskSeen(t *Task, v IssueView, asked time.Time) (decided bool) {
	if asked.Before(t.LabelsAt) {
		return m.oldView(t, v)
	}
	m.rename(t, v.Title, v.URL)
	switch t.State {
	case Queued:
		if !v.eligible() {
			m.move(t, OnWithdrawn, "no longer eligible", time.Time{})
		}
	case Starting, Running, Suspect, Stopping, Backoff:
		switch {
		case !v.Open:
			m.withdraw(t, "the issue was closed")
		case !v.has(LabelClaimed) && !t.Resumed:
			m.withdraw(t, "the claim's label was removed")
		}
	case Blocked:
		switch {
		case !v.Open:
			m.withdraw(t, "the issue was closed")
		case t.plans(DoEscalate): // an answer to what has landed, but is not confirmed yet, must be read later
			return false
		default:
			return m.readAnswers(t, v, asked)
		}
	case Delivering: // the delivery changes the issue, so that the next view comes by itself
	default: // an effect is at work on the issue; what its outcome does not say, the next view does
		return false
	}
	return true
}

// oldView: what was read before our own labels were confirmed decides nothing, unless it shows what we expect. The
// change that made it differ may be a human's, so the issue is read again, at once but once.
func (m *Machine) oldView(t *Task, v IssueView) (decided bool) {
	if v.Open && v.has(t.State.Info().Label) {
		return t.State != Blocked // there, what people have written counts, too
	}
	if t.soft.looked != t.LabelsAt && !m.held(DoLook) {
		t.soft.looked = t.LabelsAt
		m.emit(t, Effect{Kind: DoLook})
	}
	return false
}

// withdraw ends a claim that a human took back.
func (m *Machine) withdraw(t *Task, why string) {
	switch {
	case t.State == Backoff || t.State == Blocked:
		m.release(t, why)
	case t.State != Stopping:
		m.stop(t, OnWithdrawn, EndingSet{Outcome: OutcomeWithdrawn, Cause: why}, m.cfg.StopGrace)
	case t.Ending.Outcome != OutcomeWithdrawn:
		m.record(EndingSet{Task: t.Key, Outcome: OutcomeWithdrawn, Cause: why})
	}
}

// rename keeps what people read up to date.
func (m *Machine) rename(t *Task, title, url string) {
	title, url = cmp.Or(title, t.Title), cmp.Or(url, t.URL)
	if title != t.Title || url != t.URL {
		m.record(TaskRenamed{Task: t.Key, Title: title, URL: url})
	}
}

// release ends a claim without a container.
func (m *Machine) release(t *Task, why string) {
	m.overtake(t, why)
	m.plan(t, Effect{Kind: DoRelease, Release: &ReleaseNote{Why: why}})
	m.move(t, OnWithdrawn, why, time.Time{})
}

// claimEnded is the outcome of Claim or Recheck.
func (m *Machine) claimEnded(t *Task, end ClaimEnd) {
	if end.Ours {
		m.rename(t, end.Title, "")
		m.hear(t, end.Hints)
	}
	switch {
	case t.State == Claiming && end.Ours:
		m.record(LabelsConfirmed{Task: t.Key})
		m.begin(t, OnWon)
	case t.State == Claiming:
		m.move(t, OnLost, end.Why, time.Time{})
	case t.State == Backoff && end.Ours:
		m.record(LabelsConfirmed{Task: t.Key})
		m.begin(t, OnStillOurs)
	case t.State == Backoff:
		m.release(t, end.Why)
	}
}

// hear keeps what people said for the next attempts.
func (m *Machine) hear(t *Task, hints []Hint) {
	if len(hints) == 0 {
		return
	}
	all := slices.Clone(t.Hints)
	for _, h := range hints {
		h.Text = strings.ToValidUTF8(h.Text[:min(len(h.Text), maxHintBytes)], "")
		all = append(all, h)
	}
	m.record(HintsGiven{Task: t.Key, Hints: all[max(0, len(all)-maxHints):]})
}

// begin starts the next attempt.
func (m *Machine) begin(t *Task, on Trigger) {
	order := &StartOrder{Action: t.Next.Action, Alternative: t.Alternative, Failures: t.History, Hints: t.Hints, WatchdogAt: m.now.Add(m.cfg.Watchdog)}
	m.record(AttemptBegan{Task: t.Key, N: t.Attempt + 1, Next: t.Next, WatchdogAt: order.WatchdogAt})
	m.plan(t, Effect{Kind: DoStart, Start: order})
	m.move(t, on, string(order.Action), time.Time{})
}

// show hands out what the task's comment should say now. Before a claim is won there is no comment.
func (m *Machine) show(t *Task, why string) {
	switch t.State {
	case Running, Backoff, Blocked:
		m.emit(t, Effect{Kind: DoProgress, Progress: &ProgressView{
			State: t.State, Attempt: t.Attempt, At: t.Since, History: t.History, Why: why,
		}})
	default: // Done and Released say it with their own effect; the rest is too short to tell
	}
}

// failureOf turns an effect's failure into a finding.
func failureOf(f *Failed) recovery.Finding {
	return recovery.Finding{Reason: f.Reason, Cause: f.Text, Rule: "director.effect", Confidence: 1}
}
