package fsm

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// maxQueuedPerEvent bounds how many tasks one event may begin, and with it the size of a journal record. The next poll
// starts at the same position and brings the rest.
const maxQueuedPerEvent = 500

// Compare GitHub's views with our tasks. The cursor advances only if every view was decided. Otherwise this
// process or the next one reads the undecided views again.
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

// eligible reports whether the issue is open, offered and unclaimed.
func (v IssueView) eligible() bool {
	return v.Open && v.has(LabelTask) && !v.has(LabelClaimed) && !v.has(LabelBlocked)
}

// viewSeen checks for a withdrawal or an answer. It returns false if the view cannot be judged yet and must be read
// again.
func (m *Machine) viewSeen(t *Task, v IssueView, asked time.Time) (decided bool) {
	if asked.Before(t.LabelsAt) {
		return m.oldView(t, v)
	}
	m.rename(t, v.Title, v.URL)
	if v.Open && t.State != Queued {
		now := t.Standing
		now.Capped = v.Standing.Capped // caps count tasks with a worker
		m.stand(t, now)
	}
	switch {
	case t.State == Queued:
		if !v.eligible() {
			m.move(t, OnWithdrawn, "no longer eligible", time.Time{})
		} else {
			m.stand(t, v.Standing)
		}
	case t.State == Delivering: // the delivery changes the issue, so another view follows
	case t.State == Claiming, t.State == Parked && len(t.Outbox) > 0, t.State == Forgotten, t.State.Info().Final:
		return false // an effect is changing the issue; the next view shows any other changes
	case t.State == InReview:
		if !m.reviewedIssueSeen(t, v) {
			return false
		}
	case !v.Open:
		m.withdraw(t, "the issue was closed", "")
	case t.State == Blocked:
		m.tidy(t, v)
		// While the question is posted but not confirmed, read its answers later.
		return !t.plans(DoEscalate) && m.readAnswers(t, v, asked)
	case !v.has(LabelClaimed) && !t.Resumed:
		m.withdraw(t, "the claim's label was removed", "")
	}
	m.tidy(t, v)
	return true
}

// tidy removes Retake labels that people have added to the task's label. Their intent is unknown, and an issue must
// show a single state.
func (m *Machine) tidy(t *Task, v IssueView) {
	own := t.State.Info().Label
	if len(v.Labels) > 1 && v.has(own) && len(t.Outbox) == 0 && !m.githubBlocked(DoTidy) {
		m.emit(t, Effect{Kind: DoTidy, Why: string(own)})
	}
}

// oldView handles a view that was read before our own labels were confirmed. Such a view is ignored unless it
// shows the labels we expect. A human may have caused the difference, so the issue is read again at once, but
// only once.
func (m *Machine) oldView(t *Task, v IssueView) (decided bool) {
	if v.Open && v.has(t.State.Info().Label) {
		return t.State != Blocked // in Blocked, comments by people count as well
	}
	if t.soft.askedForView != t.LabelsAt && !m.githubBlocked(DoReadIssue) {
		t.soft.askedForView = t.LabelsAt
		m.emit(t, Effect{Kind: DoReadIssue})
	}
	return false
}

// rename updates the title and the URL that people see.
func (m *recorder) rename(t *Task, title, url string) {
	title, url = cmp.Or(title, t.Title), cmp.Or(url, t.URL)
	if title != t.Title || url != t.URL {
		m.record(TaskRenamed{OfTask: OfTask{t.Key}, Title: title, URL: url})
	}
}

// readAnswers reads what people with write access did to a blocked issue that has changed. GitHub reports the time of
// the last change in seconds, so a view taken within a few seconds of it is read once more. While the blocked label is
// off, a person has probably answered, so the view stays undecided.
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

// Comments on a blocked task are kept as hints. If one of them is an answer, the task continues with its meters
// reset.
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

// recordHints keeps people's comments for the next attempts. It skips hints it already has, because comments
// are read more than once.
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

// plainReply names an answer without a command in the history.
const plainReply = "a reply without a command"

// plainSeen keeps a comment without a command as a hint, and acknowledges it once. If the agent asked the question, the
// comment is the answer, unless the configuration forbids it. While the question is still being posted, it is unclear
// which question the comment is about, so the comment is read again later.
func (m *Machine) plainSeen(t *Task, s CommentView) (decided bool) {
	before := m.hard.heard(s.Comment)
	switch {
	case t == nil, t.State != Blocked && before == nil:
		return true
	case t.State == Blocked && t.busy():
		return false
	}
	if t.State == Blocked {
		m.recordHints(t, s.hints(m.now))
	}
	switch {
	case s.Comment == 0:
		return true
	case m.githubBlocked(DoReply):
		return false
	case before == nil:
		h := CommentHeard{
			OfTask: OfTask{t.Key}, CommandRef: s.CommandRef, By: s.By,
			Answers: m.TakesReply(t) && t.Open.answeredBy(s),
		}
		m.record(h)
		if h.Answers {
			m.goOn(t, s.By+": "+plainReply, 0, t.retry(true))
		}
		before = m.hard.heard(s.Comment)
	}
	s.CommandRef = before.CommandRef // of the first version: an edit is not acknowledged again
	return m.answered(t, s, "")
}

// answeredBy reports whether a comment has text and is newer than the question. GitHub numbers comments in order, so
// a clock is not necessary.
func (q *OpenQuestion) answeredBy(s CommentView) bool {
	return s.Comment > q.Comment && strings.TrimSpace(s.Text) != ""
}

// heard returns the acknowledgement of a comment without a command, or nil.
func (s *hardState) heard(comment int64) *heardComment {
	i := slices.IndexFunc(s.Heard, func(h heardComment) bool { return h.Comment == comment })
	if comment == 0 || i < 0 {
		return nil
	}
	return &s.Heard[i]
}

// Heard returns the ids of the recorded comments without a command. The last ones may not be acknowledged yet.
func (m *recorder) Heard() map[int64]bool {
	ids := map[int64]bool{}
	for _, h := range m.hard.Heard {
		ids[h.Comment] = true
	}
	return ids
}
