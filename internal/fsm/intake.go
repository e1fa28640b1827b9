package fsm

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// maxQueuedPerEvent limits how many tasks one event may queue, and thus the size of a journal record. The next poll
// starts at the same cursor and returns the rest.
const maxQueuedPerEvent = 500

// The recorded cursor advances only after the machine has decided on every view, so after a restart the next process
// reads the undecided views again. This process polls from the new cursor at once, and rereads the undecided issues one
// at a time.
func (b IssuesSeen) step(m *Machine) {
	listed, queued := true, 0
	for _, v := range b.Issues {
		t := m.Task(v.Key)
		m.undecided = slices.DeleteFunc(m.undecided, v.Key.same)
		if !v.Open {
			m.dependencyClosed(v.Key)
		}
		switch {
		case t != nil:
			if !m.viewSeen(t, v, b.AskedAt) {
				m.undecided = append(m.undecided, v.Key)
			}
		case !m.Covers(v.Key.Repo()):
		case v.Key.valid() && v.Open && v.has(LabelClaimed):
			if !m.githubBlocked(DoReclaim) {
				m.emit(nil, Effect{Kind: DoReclaim, Task: v.Key})
			}
		case !v.Key.valid() || !v.eligible():
		case v.Nonce == "" || m.nonces[v.Nonce] != nil || queued == maxQueuedPerEvent:
			listed = false
		default:
			queued++
			m.record(TaskQueued{
				Task: v.Key, Nonce: v.Nonce, Title: v.Title, URL: v.URL,
				Standing: v.Standing.bounded(),
			})
		}
	}
	if b.Cursor == "" || !listed {
		return
	}
	m.readTo[b.Repo] = b.Cursor
	if !m.readUndecided(b) && b.Cursor != m.Cursor(b.Repo) {
		m.record(CursorAdvanced{Repo: b.Repo, Cursor: b.Cursor})
	}
}

// ReadTo returns the cursor for the next poll. It may be ahead of Cursor while this process remembers undecided views.
func (m *Machine) ReadTo(repo string) string { return cmp.Or(m.readTo[repo], m.Cursor(repo)) }

// readUndecided reports whether any of the repository's issues still await a decision. It rereads issues that the
// machine can now decide on and that the poll did not return.
func (m *Machine) readUndecided(b IssuesSeen) (some bool) {
	for _, k := range m.undecided {
		if !strings.EqualFold(k.Repo(), b.Repo) {
			continue
		}
		some = true
		listed := slices.ContainsFunc(b.Issues, func(v IssueView) bool { return v.Key.same(k) })
		if t := m.Task(k); !listed && (t == nil || !t.changesIssue()) && !m.githubBlocked(DoReadIssue) {
			m.emit(nil, Effect{Kind: DoReadIssue, Task: k})
		}
	}
	return some
}

// changesIssue reports whether an effect is changing the issue, in which case the machine cannot decide on its views
// yet.
func (t *Task) changesIssue() bool {
	return t.State == Claiming || t.State == Parked && len(t.Outbox) > 0 || t.State == Forgotten || t.State.Info().Final
}

func (v IssueView) has(l Label) bool { return slices.Contains(v.Labels, l) }

// eligible reports whether the issue is open and offered, but not claimed or blocked.
func (v IssueView) eligible() bool {
	return v.Open && v.has(LabelTask) && !v.has(LabelClaimed) && !v.has(LabelBlocked)
}

// viewSeen checks a view of a known task's issue for a withdrawal or an answer. It returns false if it cannot decide
// yet, in which case the issue must be read again.
func (m *Machine) viewSeen(t *Task, v IssueView, asked time.Time) (decided bool) {
	if asked.Before(t.LabelsAt) {
		return m.oldView(t, v)
	}
	m.rename(t, v.Title, v.URL)
	if v.Open && t.State != Queued {
		now := t.Standing
		now.Capped = v.Standing.Capped // once the task has left the queue, only its caps still matter
		m.stand(t, now)
	}
	switch {
	case t.State == Queued:
		if !v.eligible() {
			m.move(t, OnWithdrawn, "no longer eligible", time.Time{})
		} else {
			m.stand(t, v.Standing)
		}
	case t.State == Delivering: // the delivery is changing the issue, so wait for a later view
	case t.changesIssue():
		return false // the next view shows changes by people
	case t.State == InReview:
		if !m.reviewedIssueSeen(t, v) {
			return false
		}
	case !v.Open:
		m.withdraw(t, "the issue was closed", "")
	case t.State == Blocked:
		m.tidy(t, v)
		// Answers can be read only once the question is confirmed as posted.
		return !t.plans(DoEscalate) && m.readAnswers(t, v, asked)
	case !v.has(LabelClaimed) && !t.Resumed:
		m.withdraw(t, "the claim's label was removed", "")
	}
	m.tidy(t, v)
	return true
}

// tidy removes Retake labels that people have added alongside the label of the task's state. An issue must show a
// single state, and the machine cannot guess the meaning of the added labels.
func (m *Machine) tidy(t *Task, v IssueView) {
	own := t.State.Info().Label
	if len(v.Labels) > 1 && v.has(own) && len(t.Outbox) == 0 && !m.githubBlocked(DoTidy) {
		m.emit(t, Effect{Kind: DoTidy, Why: string(own)})
	}
}

// oldView handles a view requested before our own labels were confirmed. It ignores the view if the labels are as
// expected. If they differ, a human may have changed them, so oldView requests the issue again, but only once.
func (m *Machine) oldView(t *Task, v IssueView) (decided bool) {
	if v.Open && v.has(t.State.Info().Label) {
		return t.State != Blocked // in Blocked, the view may have new comments as well
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

// readAnswers requests the answers to a blocked task's question after its issue changed. GitHub reports change times in
// whole seconds. If the view was taken within a few seconds of the change, the answers are therefore read once more. If
// the blocked label is missing, a person has probably answered, so the view stays undecided.
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

// Comments on a blocked task become hints. If one of them is an answer, the task continues with its meters reset.
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

// recordHints stores people's comments for the next attempts. It skips known hints, because comments are read more than
// once.
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

// plainReply is the text that a task's history shows for an answer without a command.
const plainReply = "a reply without a command"

// plainSeen stores a comment without a command as a hint, and acknowledges it once. The comment answers the agent's
// question unless the configuration forbids that. While a question is being posted, the comment might refer to an
// earlier one, so plainSeen returns false and the comment is read again later.
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
	s.CommandRef = before.CommandRef // refer to the first version, because edits are not acknowledged
	return m.answered(t, s, "")
}

// answeredBy reports whether a comment has text and is newer than the question. It compares ids, because GitHub numbers
// comments in order and clocks may differ.
func (q *OpenQuestion) answeredBy(s CommentView) bool {
	return s.Comment > q.Comment && strings.TrimSpace(s.Text) != ""
}

// heard returns the recorded plain comment with this id, or nil.
func (s *hardState) heard(comment int64) *heardComment {
	i := slices.IndexFunc(s.Heard, func(h heardComment) bool { return h.Comment == comment })
	if comment == 0 || i < 0 {
		return nil
	}
	return &s.Heard[i]
}

// Heard returns the ids of the recorded comments without a command. The latest ones may not be acknowledged yet.
func (m *recorder) Heard() map[int64]bool {
	ids := map[int64]bool{}
	for _, h := range m.hard.Heard {
		ids[h.Comment] = true
	}
	return ids
}
