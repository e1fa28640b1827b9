package fsm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Reviewed records which problems of a pull request have already led to an attempt, so that each leads to only one.
type Reviewed struct {
	Checks   string `json:"checks,omitempty"`   // the commit with failing checks that led to an attempt
	Conflict string `json:"conflict,omitempty"` // the commit with a conflict that led to an attempt
	Change   int64  `json:"change,omitempty"`   // the last review that led to an attempt
}

// In any idle state, a merged or closed pull request ends the claim. A problem starts an attempt only in review. During
// an attempt, the problem can wait, because a later poll will show it again.
func (b ReviewSeen) step(m *Machine) {
	t := m.Task(b.Task)
	if t == nil || b.Number == 0 || t.Work.PullRequest != b.Number || !slices.Contains(idle, t.State) ||
		b.AskedAt.Before(t.LabelsAt) {
		return
	}
	by := ""
	if b.By != "" {
		by = " by " + b.By
	}
	switch {
	case b.State == "merged":
		m.release(t, OnMerged, ReleaseNote{
			Why:    fmt.Sprintf("pull request #%d was merged%s", b.Number, by),
			Merged: true, By: b.By,
		})
	case b.State == "closed":
		m.release(t, OnRejected, ReleaseNote{Why: fmt.Sprintf("pull request #%d was closed%s without being merged",
			b.Number, by)})
	case t.State != InReview:
	case b.IssueClosed:
		m.withdraw(t, "the issue was closed", "")
	default:
		m.reviewed(t, b)
	}
}

// reviewed begins an attempt if an open pull request needs a fix. If a reviewer requested changes and checks fail, the
// attempt gets both in one prompt.
func (m *Machine) reviewed(t *Task, b ReviewSeen) {
	r, conflict := t.Reviewed, b.Conflict && t.Reviewed.Conflict != b.Head
	failing := b.Settled && len(b.Failing) > 0 && t.Reviewed.Checks != b.Head
	var hints []Hint
	by := ""
	for _, c := range b.Changes {
		if c.ID > t.Reviewed.Change {
			r.Change, by, hints = max(r.Change, c.ID), c.From+" requested changes", append(hints, c.Hint)
		}
	}
	if by == "" && !conflict && !failing {
		return
	}
	if conflict {
		r.Conflict = b.Head
	}
	if failing {
		r.Checks = b.Head
		for _, f := range b.Failing {
			hints = append(hints, Hint{
				From: "check " + f.Name, At: b.AskedAt,
				Text: strings.TrimSpace(f.Text + "\n" + f.URL),
			})
		}
	}
	m.record(ReviewNoted{OfTask: OfTask{t.Key}, Reviewed: r})
	m.recordHints(t, hints)
	switch {
	case by != "":
		m.goOn(t, by, 0, Next{Action: recovery.FixAttempt})
	case conflict:
		m.decide(t, reviewFinding(recovery.GitConflict, fmt.Sprintf("pull request #%d conflicts with the base branch",
			b.Number)), "SYNC_MAIN")
	default:
		m.decide(t, reviewFinding(recovery.Validation, failingLine(b)), "REVIEW")
	}
}

func reviewFinding(r recovery.Reason, cause string) recovery.Finding {
	return recovery.Finding{Reason: r, Cause: cause, Rule: "director.review", Confidence: 1}
}

// failingLine names the failing checks and quotes the first line of the first one's output.
func failingLine(b ReviewSeen) string {
	names := make([]string, len(b.Failing))
	for i, f := range b.Failing {
		names[i] = f.Name
	}
	said, _, _ := strings.Cut(strings.TrimSpace(b.Failing[0].Text), "\n")
	line := fmt.Sprintf("checks on pull request #%d fail: %s", b.Number, strings.Join(names, ", "))
	if said != "" {
		line += ": " + said
	}
	const most = 500
	return strings.ToValidUTF8(line[:min(len(line), most)], "")
}

// reviewedIssueSeen handles the view of an issue in review. A merge often closes the issue, so the director reads the
// pull request before it treats a closed issue as withdrawn.
func (m *Machine) reviewedIssueSeen(t *Task, v IssueView) (decided bool) {
	switch {
	case v.has(LabelTask):
		m.release(t, OnWithdrawn, ReleaseNote{Why: "the issue was offered again as a new task", Restore: true})
		return false // the next view begins the new task
	case v.Open && v.has(LabelReview):
		return true
	case v.Open:
		m.withdraw(t, "the review label was removed", "")
		return true
	case !m.githubBlocked(DoReadReview):
		m.emit(t, Effect{Kind: DoReadReview})
	}
	return false
}

// goOn begins another attempt at a person's request, and resets all meters. redispatches is the number of redispatches
// that count as used.
func (m *Machine) goOn(t *Task, by string, redispatches int, next Next) {
	m.record(TallyReset{OfTask: OfTask{t.Key}, By: by, Redispatches: redispatches, Next: next})
	m.overtake(t, by)
	m.move(t, OnUnblocked, by, m.now)
}

// snooze postpones a task. It also answers an open question, so the meters are reset, and the labels show a claim
// instead of a question.
func (m *Machine) snooze(t *Task, by string, until time.Time) {
	if t.State == Blocked {
		m.record(TallyReset{OfTask: OfTask{t.Key}, By: by, Next: t.retry(false)})
	}
	m.overtake(t, by)
	m.move(t, OnSnoozed, by, until)
	if t.Resumed {
		m.plan(t, Effect{Kind: DoClaim})
	}
}
