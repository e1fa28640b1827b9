package fsmtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// reviewed is what the twin knows of a claim's work and of what people said about it.
type reviewed struct {
	work        fsm.DeliverResult // that was shown last
	unvalidated int               // the last attempt of which only a merge came that nobody has validated
	noted       fsm.Reviewed      // of the pull request
	heads       []string          // commits whose checks, and whose conflict, were acted upon
	reminded    string            // the question that was raised once more
	granted     bool              // the pending attempt was granted before a person set the meters
}

func (h *history) takeReview(c *claim, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.VerdictMade:
		c.granted = false
		if again(f.Verdict.Row) {
			c.unvalidated = c.attempt
		}
	case fsm.ReviewNoted:
		c.heads = append(c.heads, headsOf(c.noted, f.Reviewed)...)
		c.noted = f.Reviewed
	case fsm.WorkPushed:
		pull := c.work.PullRequest
		c.work = f.Work
		c.work.PullRequest = max(pull, f.Work.PullRequest)
	case fsm.EffectPlanned:
		if f.Effect.Kind == fsm.DoRemind {
			c.reminded = c.asked
		}
	}
}

// headsOf names what a note about a review acts upon.
func headsOf(was, is fsm.Reviewed) (heads []string) {
	if is.Checks != was.Checks {
		heads = append(heads, "checks of "+is.Checks)
	}
	if is.Conflict != was.Conflict {
		heads = append(heads, "conflict of "+is.Conflict)
	}
	return heads
}

const (
	rowBaseMoved   = "director.base_moved"
	rowWorkChanged = "director.work_changed"
	rowFixRound    = "director.validate_fresh"
)

// again reports whether a verdict is a delivery's, which wants the work validated once more.
func again(row string) bool { return row == rowBaseMoved || row == rowWorkChanged }

// rowFenced is that of a success of an attempt that had to be fenced.
const rowFenced = "director.fenced"

// noPolicys reports whether no row of a policy has made a verdict, whose bounds are others then.
func noPolicys(row string) bool {
	return row == rowIncident || row == rowFixRound || row == rowFenced || again(row)
}

// commandOnce: a command is taken once for each of its edits, and answered before the cursor passes it.
func commandOnce(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	if c, ok := f.(fsm.CursorAdvanced); ok {
		upTo, _ := strconv.ParseInt(c.Cursor, 10, 64)
		for _, said := range h.w.comments {
			ref := said.said.CommandRef
			if _, taken := h.taken[ref]; taken && !h.answered[ref] && said.at < upTo &&
				c.Repo == fsm.CommentsOf(said.said.Task.Repo()) {
				return fmt.Sprintf("the cursor of %s passes comment %d, which nobody has answered", c.Repo, ref.Comment)
			}
		}
	}
	c, ok := f.(fsm.CommandTaken)
	if !ok {
		return ""
	}
	if _, again := h.taken[c.CommandRef]; again {
		return fmt.Sprintf("comment %d, or request %q, on %s is taken a second time", c.Comment, c.Request, c.Task)
	}
	return ""
}

// answeredAsDecided: the answer to a command says what was decided about it, also if it is given again.
func answeredAsDecided(h *history, p *process, e fsm.Effect) string {
	if e.Reply == nil || p != h.w.lead {
		return ""
	}
	refused, taken := h.taken[e.Reply.CommandRef]
	switch {
	case !taken:
		return fmt.Sprintf("comment %d on %s is answered, and not taken", e.Reply.Comment, e.Task)
	case refused != e.Reply.Refused:
		return fmt.Sprintf("comment %d on %s was decided with %q, the answer says %q", e.Reply.Comment, e.Task, refused,
			e.Reply.Refused)
	}
	return ""
}

func everyoneHeard(h *history, _ *process) string { return h.w.unheard() }

// reviewedOnce: what was acted upon once does not count again.
func reviewedOnce(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	n, ok := f.(fsm.ReviewNoted)
	if !ok {
		return ""
	}
	c := h.claim(n.Task)
	if c == nil || c.state != fsm.InReview || n.Reviewed == c.noted || n.Reviewed.Change < c.noted.Change {
		return fmt.Sprintf("%s: a review is acted upon that says nothing new: %+v", n.Task, n.Reviewed)
	}
	for _, head := range headsOf(c.noted, n.Reviewed) {
		if slices.Contains(c.heads, head) {
			return fmt.Sprintf("%s: the %s begin an attempt again", n.Task, head)
		}
	}
	return ""
}

// notedBefore: a review leads to nothing that is not noted with it.
func notedBefore(_ *history, _ *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	if _, review := body.(fsm.ReviewSeen); !review {
		return ""
	}
	noted := fsm.IssueKey("")
	for _, f := range facts {
		switch f := f.(type) {
		case fsm.ReviewNoted:
			noted = f.Task
		case fsm.Moved:
			if f.From == fsm.InReview && (f.To == fsm.Backoff || f.To == fsm.Blocked) && noted != f.Task {
				return fmt.Sprintf("%s goes on, and the review is not noted", f.Task)
			}
		}
	}
	return ""
}

// endsWithPull: a pull request that is seen merged or closed ends its claim.
func endsWithPull(_ *history, p *process, _ time.Time, body fsm.EventBody, _ []fsm.Fact, _ []fsm.Effect) string {
	b, ok := body.(fsm.ReviewSeen)
	if !ok || b.State == "open" {
		return ""
	}
	t := p.m.Task(b.Task)
	if t == nil || t.Work.PullRequest != b.Number || b.AskedAt.Before(t.LabelsAt) {
		return ""
	}
	switch t.State {
	case fsm.InReview, fsm.Backoff, fsm.Parked, fsm.Blocked:
		return fmt.Sprintf("#%d is %s, and %s is still %s", b.Number, b.State, b.Task, t.State)
	}
	return ""
}

// remindedOnce: a question is raised once more, after its time, and not when it was answered.
func remindedOnce(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	if d, deferred := f.(fsm.EffectDeferred); deferred {
		return remindedInTime(h, d)
	}
	e, ok := f.(fsm.EffectPlanned)
	if !ok || e.Effect.Kind != fsm.DoRemind {
		return ""
	}
	c := h.claim(e.Effect.Task)
	switch {
	case c == nil || c.state != fsm.Blocked:
		return string(e.Effect.Task) + " is not blocked, and somebody is reminded"
	case c.reminded == c.asked:
		return fmt.Sprintf("%s is raised a third time", c.asked)
	case r.At.Before(c.since.Add(c.remindAfter)):
		return fmt.Sprintf("%s is raised once more after %s", c.asked, r.At.Sub(c.since))
	}
	return ""
}

// remindedInTime: nobody is reminded later of a question that is known to be answered.
func remindedInTime(h *history, f fsm.EffectDeferred) string {
	if c := h.claim(f.Task); strings.Contains(f.Effect, "/remind") && (c == nil || c.state != fsm.Blocked) {
		return fmt.Sprintf("%s was answered, and %s is tried again", f.Task, f.Effect)
	}
	return ""
}

// putOff: a snoozed task goes on when its time has come.
func putOff(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	m, ok := f.(fsm.Moved)
	if !ok || m.From != fsm.Parked || m.To != fsm.Backoff || m.On == fsm.OnUnblocked {
		return ""
	}
	if c := h.claim(m.Task); c != nil && r.At.Before(c.until) {
		return fmt.Sprintf("%s goes on %s before its time", m.Task, c.until.Sub(r.At))
	}
	return ""
}

// wokenByPeople: a person says until when, and before that only a person wakes the task.
func wokenByPeople(_ *history, p *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	said, _ := body.(fsm.CommentsSeen)
	for _, f := range facts {
		m, ok := f.(fsm.Moved)
		switch {
		case !ok:
		case m.From == fsm.Parked && m.On == fsm.OnUnblocked &&
			!slices.ContainsFunc(said.Comments, func(s fsm.CommentView) bool { return s.Task == m.Task }):
			return fmt.Sprintf("%s is woken by %T", m.Task, body)
		case m.To == fsm.Parked && !slices.ContainsFunc(said.Comments,
			func(s fsm.CommentView) bool { return s.Task == m.Task && p.m.Now().Add(s.For).Equal(m.Until) }):
			return fmt.Sprintf("%s is put off until %s, which nobody said", m.Task, m.Until)
		}
	}
	return ""
}

// ontoTheLast: who hands in, or shows, more of a claim's work is told what was shown before.
func ontoTheLast(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	e, ok := f.(fsm.EffectPlanned)
	if !ok || e.Effect.Kind != fsm.DoDeliver && e.Effect.Kind != fsm.DoEscalate {
		return ""
	}
	c, work := h.claim(e.Effect.Task), fsm.DeliverResult{}
	if e.Effect.Work != nil {
		work = *e.Effect.Work
	}
	if c != nil && (work.Branch != c.work.Branch || work.PullRequest != c.work.PullRequest) {
		return fmt.Sprintf("%s is told of %q and #%d, shown were %q and #%d", e.Effect.ID, work.Branch,
			work.PullRequest, c.work.Branch, c.work.PullRequest)
	}
	return ""
}

// validatedFirst: what came of a merge is handed in by another attempt, which validates it.
func validatedFirst(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.WorkDelivered:
		if c := h.claim(f.Task); c != nil && (f.Delivery.Merged || c.unvalidated == c.attempt && c.attempt > 0) {
			return fmt.Sprintf("attempt %d of %s is delivered, and nobody has validated the merge", c.attempt, c.key)
		}
	case fsm.Moved:
		if c := h.claim(f.Task); c != nil && f.From == fsm.Delivering && (f.To == fsm.InReview || f.To == fsm.Done) &&
			c.unvalidated == c.attempt {
			return fmt.Sprintf("attempt %d of %s is shown, and nobody has validated the merge", c.attempt, c.key)
		}
	case fsm.AttemptBegan:
		if c := h.claim(f.Task); c != nil && c.unvalidated == c.attempt && c.attempt > 0 && c.last != nil &&
			f.Next.Action != recovery.Revalidate {
			return fmt.Sprintf("attempt %d of %s begins with %q, the merge is to be validated", f.N, f.Task,
				f.Next.Action)
		}
	}
	return ""
}
