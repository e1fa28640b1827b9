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

// headsOf lists the failing checks and conflicts of a review that lead to an attempt.
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
	rowFenced      = "director.fenced" // the verdict on the success of a fenced attempt
)

// again reports whether a verdict orders another validation of work that was being delivered.
func again(row string) bool { return row == rowBaseMoved || row == rowWorkChanged }

// noPolicys reports whether a verdict is exempt from the policy's limits, because it did not come from the policy.
func noPolicys(row string) bool {
	return row == rowIncident || row == rowContract || row == rowFixRound || row == rowFenced || again(row)
}

func asksOnce(r record, f fsm.EffectPlanned) string {
	if f.Effect.Kind == fsm.DoEscalate && r.c.asked != "" {
		return fmt.Sprintf("%s is planned, although %s is open", f.Effect.ID, r.c.asked)
	}
	return ""
}

func asksBeforeBlocking(r record, f fsm.Moved) string {
	if f.To == fsm.Blocked && r.c.asked == "" {
		return fmt.Sprintf("%s is blocked without a question", f.Task)
	}
	return ""
}

func humanUnblocks(d decision) string {
	healed := false
	for _, f := range d.facts {
		switch f := f.(type) {
		case fsm.IncidentChanged:
			healed = true
		case fsm.Moved:
			_, answered := d.body.(fsm.QuestionAnswered)
			_, said := d.body.(fsm.CommentsSeen)
			if f.From == fsm.Blocked && f.To == fsm.Backoff && !answered && !said &&
				(f.On != fsm.OnIncidentOver || !healed) {
				return fmt.Sprintf("%s continues after %T", f.Task, d.body)
			}
		}
	}
	return ""
}

func answersBeforeCursor(r record, c fsm.CursorAdvanced) string {
	upTo, _ := strconv.ParseInt(c.Cursor, 10, 64)
	for _, said := range r.w.hub.comments {
		ref := said.said.CommandRef
		if _, taken := r.taken[ref]; taken && !r.answered[ref] && said.at < upTo &&
			c.Repo == fsm.CommentsOf(said.said.Task.Repo()) {
			return fmt.Sprintf("the cursor of %s passes comment %d, which is not answered", c.Repo, ref.Comment)
		}
	}
	return ""
}

func takenOnce(r record, c fsm.CommandTaken) string {
	if _, again := r.taken[c.CommandRef]; again {
		return fmt.Sprintf("comment %d, or request %q, on %s is taken a second time", c.Comment, c.Request, c.Task)
	}
	return ""
}

// answeredAsDecided checks that an answer agrees with the decision, even if it is repeated.
func answeredAsDecided(h *history, p *process, e fsm.Effect) string {
	if e.Reply == nil || e.Reply.Command == "" || p != h.w.directors.lead {
		return ""
	}
	refused, taken := h.taken[e.Reply.CommandRef]
	switch {
	case !taken:
		return fmt.Sprintf("comment %d on %s is answered before it is recorded", e.Reply.Comment, e.Task)
	case refused != e.Reply.Refused:
		return fmt.Sprintf("comment %d on %s was decided with %q, but the answer has %q",
			e.Reply.Comment, e.Task, refused,
			e.Reply.Refused)
	}
	return ""
}

func heardOnce(r record, f fsm.CommentHeard) string {
	_, again := r.heard[f.Comment]
	due := r.set.cfg.PlainAnswers && r.c.question.AgentAsked && f.Comment > r.c.question.Comment
	switch {
	case again:
		return fmt.Sprintf("comment %d on %s is acknowledged a second time", f.Comment, f.Task)
	case r.c.state != fsm.Blocked:
		return fmt.Sprintf("comment %d is acknowledged, but %s is %s", f.Comment, f.Task, r.c.state)
	case f.Answers != due:
		return fmt.Sprintf("comment %d on %s answers the question: %t, want %t", f.Comment, f.Task, f.Answers, due)
	}
	return ""
}

func acknowledgedAsDecided(h *history, p *process, e fsm.Effect) string {
	if e.Reply == nil || e.Reply.Command != "" || p != h.w.directors.lead {
		return ""
	}
	if answers, heard := h.heard[e.Reply.Comment]; !heard || answers != e.Reply.Answers {
		return fmt.Sprintf("comment %d on %s gets a different reaction from the one in the journal",
			e.Reply.Comment, e.Task)
	}
	return ""
}

func plainAnswerUnblocks(d decision) string {
	for i, f := range d.facts {
		h, ok := f.(fsm.CommentHeard)
		if ok && h.Answers && !slices.ContainsFunc(d.facts[i:], func(f fsm.Fact) bool {
			m, ok := f.(fsm.Moved)
			return ok && m.Task == h.Task && m.From == fsm.Blocked
		}) {
			return fmt.Sprintf("comment %d answers the question, but %s stays blocked", h.Comment, h.Task)
		}
	}
	return ""
}

func everyoneHeard(h *history, _ *process) string { return h.w.operator.unheard() }

func reviewedOnce(r record, n fsm.ReviewNoted) string {
	c := r.c
	if c == nil || c.state != fsm.InReview || n.Reviewed == c.noted || n.Reviewed.Change < c.noted.Change {
		return fmt.Sprintf("%s: a review without new findings leads to an attempt: %+v", n.Task, n.Reviewed)
	}
	for _, head := range headsOf(c.noted, n.Reviewed) {
		if slices.Contains(c.heads, head) {
			return fmt.Sprintf("%s: the %s led to a second attempt", n.Task, head)
		}
	}
	return ""
}

func notedBefore(d decision, _ fsm.ReviewSeen) string {
	noted := fsm.IssueKey("")
	for _, f := range d.facts {
		switch f := f.(type) {
		case fsm.ReviewNoted:
			noted = f.Task
		case fsm.Moved:
			if f.From == fsm.InReview && (f.To == fsm.Backoff || f.To == fsm.Blocked) && noted != f.Task {
				return fmt.Sprintf("%s continues before the review is noted", f.Task)
			}
		}
	}
	return ""
}

func endsWithPull(d decision, b fsm.ReviewSeen) string {
	t := d.p.m.Task(b.Task)
	if b.State == "open" || t == nil || t.Work.PullRequest != b.Number || b.AskedAt.Before(t.LabelsAt) {
		return ""
	}
	switch t.State {
	case fsm.InReview, fsm.Backoff, fsm.Parked, fsm.Blocked:
		return fmt.Sprintf("#%d is %s, but %s is still %s", b.Number, b.State, b.Task, t.State)
	}
	return ""
}

func remindedOnce(r record, e fsm.EffectPlanned) string {
	c := r.c
	switch {
	case e.Effect.Kind != fsm.DoRemind:
	case c == nil || c.state != fsm.Blocked:
		return string(e.Effect.Task) + " is not blocked, but gets a reminder"
	case c.reminded == c.asked:
		return fmt.Sprintf("%s was asked three times", c.asked)
	case r.at.Before(c.since.Add(c.remindAfter)):
		return fmt.Sprintf("%s was repeated after only %s", c.asked, r.at.Sub(c.since))
	}
	return ""
}

func remindedInTime(r record, f fsm.EffectDeferred) string {
	if strings.Contains(f.Effect, "/remind") && (r.c == nil || r.c.state != fsm.Blocked) {
		return fmt.Sprintf("%s was answered, but %s is tried again", f.Task, f.Effect)
	}
	return ""
}

func putOff(r record, m fsm.Moved) string {
	if m.From == fsm.Parked && m.To == fsm.Backoff && m.On != fsm.OnUnblocked && r.at.Before(r.c.until) {
		return fmt.Sprintf("%s resumes %s too early", m.Task, r.c.until.Sub(r.at))
	}
	return ""
}

// wokenByPeople checks that only a person ends a snooze early or sets its deadline.
func wokenByPeople(d decision) string {
	said, _ := d.body.(fsm.CommentsSeen)
	return each(d, func(m fsm.Moved) string {
		commented := func(ok func(fsm.CommentView) bool) bool {
			return slices.ContainsFunc(said.Comments, func(s fsm.CommentView) bool { return s.Task == m.Task && ok(s) })
		}
		switch {
		case m.From == fsm.Parked && m.On == fsm.OnUnblocked &&
			!commented(func(fsm.CommentView) bool { return true }):
			return fmt.Sprintf("%s is woken by %T instead of a person", m.Task, d.body)
		case m.To == fsm.Parked &&
			!commented(func(s fsm.CommentView) bool { return d.p.m.Now().Add(s.For).Equal(m.Until) }):
			return fmt.Sprintf("%s is snoozed until %s without a command", m.Task, m.Until)
		}
		return ""
	})
}

func ontoTheLast(r record, e fsm.EffectPlanned) string {
	if e.Effect.Kind != fsm.DoDeliver && e.Effect.Kind != fsm.DoEscalate {
		return ""
	}
	c, work := r.c, fsm.DeliverResult{}
	if e.Effect.Work != nil {
		work = *e.Effect.Work
	}
	if work.Branch != c.work.Branch || work.PullRequest != c.work.PullRequest {
		return fmt.Sprintf("%s gets %q and #%d, but %q and #%d were published", e.Effect.ID, work.Branch,
			work.PullRequest, c.work.Branch, c.work.PullRequest)
	}
	return ""
}

// mergeOpen reports whether the current attempt merged the base branch and another attempt has yet to validate the
// result.
func (c *claim) mergeOpen() bool { return c.unvalidated == c.attempt && c.attempt > 0 }

func deliversNoMerge(r record, f fsm.WorkDelivered) string {
	if f.Delivery.Merged || r.c.mergeOpen() {
		return fmt.Sprintf("attempt %d of %s is delivered without validating the merge", r.c.attempt, r.c.key)
	}
	return ""
}

func showsNoMerge(r record, f fsm.Moved) string {
	if f.From == fsm.Delivering && (f.To == fsm.InReview || f.To == fsm.Done) && r.c.unvalidated == r.c.attempt {
		return fmt.Sprintf("attempt %d of %s is published without validating the merge", r.c.attempt, r.c.key)
	}
	return ""
}

func validatesMerge(r record, f fsm.AttemptBegan) string {
	if r.c.mergeOpen() && r.c.last != nil && f.Next.Action != recovery.Revalidate {
		return fmt.Sprintf("attempt %d of %s begins with %q, but the merge needs validation",
			f.N, f.Task, f.Next.Action)
	}
	return ""
}

// Limits on delivery retries, in addition to the configured time.
const (
	deliveryDoubt = 2 * time.Minute
	deliveryOften = 3
)

func failsForGood(r record, d fsm.EffectDeferred) string {
	c, patience := r.c, r.set.cfg.DeliverFor
	if !delivers(d.Effect) || patience == 0 || d.Tries == c.tries || c.failing.IsZero() {
		return ""
	}
	if c.failed >= deliveryOften && r.at.Sub(c.failing) >= 4*patience+deliveryDoubt {
		return fmt.Sprintf("%s has failed %d times since %s without asking a question", d.Effect, c.failed+1, c.failing)
	}
	return ""
}

// keptIsSaid checks that people learn that the finished work is safe. From the third failed delivery on, each failure
// plans an edit of the comment, until the process has made it.
func keptIsSaid(d decision, _ fsm.EffectEnded) string {
	return each(d, func(f fsm.EffectDeferred) string {
		if !delivers(f.Effect) || f.Tries < deliveryOften || d.p.m.Phase() == fsm.PhaseShutdown {
			return ""
		}
		made := slices.ContainsFunc(d.p.soft.edited, func(edit string) bool {
			return strings.HasSuffix(edit, "/"+f.Effect)
		})
		planned := slices.ContainsFunc(d.effects, func(e fsm.Effect) bool {
			return e.Kind == fsm.DoProgress && e.Task == f.Task
		})
		switch {
		case made && planned:
			return fmt.Sprintf("the comment about %s is edited again", f.Effect)
		case !made && !planned && !d.p.closed():
			return fmt.Sprintf("%s failed %d times without an edit about the kept work", f.Effect, f.Tries)
		}
		return ""
	})
}

// pushRefused is git's error for a refused push.
const pushRefused = "push: error: 403"

// refusedForLong checks that a refused push ends a delivery only if the refusal persists, or the delivery is given up
// anyway.
func refusedForLong(r record, d fsm.EffectDone) string {
	if d.Failed != pushRefused {
		return ""
	}
	c, patience := r.c, r.set.cfg.DeliverFor
	over := patience > 0 && c.tries >= deliveryOften && !c.failing.IsZero() &&
		r.at.Sub(c.failing) >= 4*patience+deliveryDoubt
	if !over && (c.doubts < deliveryOften || c.doubted.IsZero() || r.at.Sub(c.doubted) < deliveryDoubt) {
		return fmt.Sprintf("gave up on %s after %d refusals since %s", d.Effect, c.doubts+1, c.doubted)
	}
	return ""
}

func handedInAgain(r record, f fsm.AttemptBegan) string {
	if r.c.resumed {
		return fmt.Sprintf("attempt %d of %s begins, although the work is done and must be delivered", f.N, f.Task)
	}
	return ""
}
