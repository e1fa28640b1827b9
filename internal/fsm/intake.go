package fsm

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// maxQueuedPerEvent bounds how many tasks one event may begin, and with it the size of a journal record. The
// rest come with the next poll, which begins where this one did.
const maxQueuedPerEvent = 500

// GitHub's view is compared with ours. The cursor is taken only if every view was decided: what was not is then
// read again, by this process or the next.
func (b IssuesSeen) step(m *Machine) {
	decided, queued := true, 0
	for _, v := range b.Issues {
		t := m.Task(v.Key)
		if !v.Open {
			m.dependencyClosed(v.Key)
		}
		switch {
		case t != nil:
			decided = m.viewSeen(t, v, b.AskedAt) && decided
		case !m.Covers(v.Key.Repo()):
		case v.Key.valid() && v.Open && v.has(LabelClaimed):
			if !m.githubBlocked(DoReclaim) {
				m.emit(nil, Effect{Kind: DoReclaim, Task: v.Key})
			}
		case !v.Key.valid() || !v.eligible():
		case v.Nonce == "" || m.nonces[v.Nonce] != nil || queued == maxQueuedPerEvent:
			decided = false
		default:
			queued++
			m.record(TaskQueued{
				Task: v.Key, Nonce: v.Nonce, Title: v.Title, URL: v.URL,
				Standing: v.Standing.bounded(),
			})
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

// viewSeen looks for a withdrawal or an answer. If it returns false the view cannot be judged yet, and must be
// read again.
func (m *Machine) viewSeen(t *Task, v IssueView, asked time.Time) (decided bool) {
	if asked.Before(t.LabelsAt) {
		return m.oldView(t, v)
	}
	m.rename(t, v.Title, v.URL)
	if v.Open && t.State != Queued {
		now := t.Standing
		now.Capped = v.Standing.Capped // caps count what has a worker
		m.stand(t, now)
	}
	switch {
	case t.State == Queued:
		if !v.eligible() {
			m.move(t, OnWithdrawn, "no longer eligible", time.Time{})
		} else {
			m.stand(t, v.Standing)
		}
	case t.State == Delivering: // the delivery changes the issue, so that the next view comes by itself
	case t.State == Claiming, t.State == Parked && len(t.Outbox) > 0, t.State == Forgotten, t.State.Info().Final:
		return false // an effect is at work on the issue; what its outcome does not say, the next view does
	case t.State == InReview:
		if !m.reviewedIssueSeen(t, v) {
			return false
		}
	case !v.Open:
		m.withdraw(t, "the issue was closed", "")
	case t.State == Blocked:
		m.tidy(t, v)
		// An answer to a question that has landed, but is not confirmed yet, must be read later.
		return !t.plans(DoEscalate) && m.readAnswers(t, v, asked)
	case !v.has(LabelClaimed) && !t.Resumed:
		m.withdraw(t, "the claim's label was removed", "")
	}
	m.tidy(t, v)
	return true
}

// tidy makes the labels agree with the task, if people have put others of ours beside its own: what they mean
// is not known, and an issue must say one thing.
func (m *Machine) tidy(t *Task, v IssueView) {
	own := t.State.Info().Label
	if len(v.Labels) > 1 && v.has(own) && len(t.Outbox) == 0 && !m.githubBlocked(DoTidy) {
		m.emit(t, Effect{Kind: DoTidy, Why: string(own)})
	}
}

// oldView: what was read before our own labels were confirmed decides nothing, unless it shows what we expect. The
// change that made it differ may be a human's, so the issue is read again at once, but only once.
func (m *Machine) oldView(t *Task, v IssueView) (decided bool) {
	if v.Open && v.has(t.State.Info().Label) {
		return t.State != Blocked // there, what people have written counts, too
	}
	if t.soft.askedForView != t.LabelsAt && !m.githubBlocked(DoReadIssue) {
		t.soft.askedForView = t.LabelsAt
		m.emit(t, Effect{Kind: DoReadIssue})
	}
	return false
}

// rename keeps what people read up to date.
func (m *recorder) rename(t *Task, title, url string) {
	title, url = cmp.Or(title, t.Title), cmp.Or(url, t.URL)
	if title != t.Title || url != t.URL {
		m.record(TaskRenamed{OfTask: OfTask{t.Key}, Title: title, URL: url})
	}
}

// readAnswers asks what people did to a blocked issue that has changed, and whether they were allowed to. GitHub tells
// the time of the last change in seconds, so what was read within a few seconds of it is read once more. As long as the
// blocked label is off, somebody seems to have answered.
func (m *Machine) readAnswers(t *Task, v IssueView, asked time.Time) (judged bool) {
	const settle = 5 * time.Second
	switch {
	case m.githubBlocked(DoReadAnswers):
		return false
	case v.has(LabelBlocked) && t.soft.answersRead.Equal(v.UpdatedAt):
		return true
	}
	if asked.Sub(v.UpdatedAt) > settle {
		t.soft.answersRead = v.UpdatedAt
	}
	m.emit(t, Effect{Kind: DoReadAnswers})
	return v.has(LabelBlocked)
}

// What people said about a blocked task is kept. If one of them answered, the task goes on and gets its chances back;
// nothing else does that.
func (a QuestionAnswered) step(m *Machine) {
	t := m.Task(a.Task)
	if t == nil || t.State != Blocked || t.plans(DoEscalate) {
		return
	}
	m.recordHints(t, a.Hints)
	if a.By == "" {
		return
	}
	m.goOn(t, a.By+": "+a.Command, 0, t.retry(len(a.Hints) > 0))
}

// recordHints keeps what people said for the next attempts. The same comments are read more than once.
func (m *recorder) recordHints(t *Task, hints []Hint) {
	all := slices.Clone(t.Hints)
	for _, h := range hints[max(0, len(hints)-maxHints):] {
		h.At, h.Text = h.At.Round(0).UTC(), strings.ToValidUTF8(h.Text[:min(len(h.Text), maxHintBytes)], "")
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	if len(all) > len(t.Hints) {
		m.record(HintsGiven{OfTask: OfTask{t.Key}, Hints: all[max(0, len(all)-maxHints):]})
	}
}
