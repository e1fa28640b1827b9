package projection

import (
	"slices"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// How attempts end.
const (
	OK        = "ok"
	Failed    = "failed"
	Withdrawn = "withdrawn"
)

// AttemptEnd returns how the attempt ended that a move ends, or "" for a move that ends none.
func AttemptEnd(m fsm.Moved) string {
	if m.From != fsm.Stopping {
		return ""
	}
	switch m.On {
	case fsm.OnGoneOK, fsm.OnValidate:
		return OK
	case fsm.OnGoneWithdrawn:
		return Withdrawn
	}
	return Failed
}

// What becomes of a retry. It paid off if its attempt passed its stages: a clean validation after that, a merge or a
// failing check is another decision.
const (
	PaidOff         = "paid_off"
	FailedAlike     = "failed_alike"     // with a verdict for the same reason
	FailedOtherwise = "failed_otherwise" // with a verdict for another reason
	RetryWithdrawn  = "withdrawn"        // the claim ended first
	Superseded      = "superseded"       // somebody else decided before the attempt began
)

// Why a question needed nobody.
const (
	IncidentOver = "incident_over" // the incident healed, and the task went on without an answer
	BareAnswer   = "bare_answer"   // the answer added nothing, and the next attempt passed its stages
)

// Answers are the triggers by which a person answers a question.
var Answers = []fsm.Trigger{fsm.OnUnblocked, fsm.OnSnoozed, fsm.OnWithdrawn, fsm.OnMerged, fsm.OnRejected}

// overtakers are the triggers by which somebody else decides about a retry that has not begun.
var overtakers = []fsm.Trigger{fsm.OnUnblocked, fsm.OnEscalate, fsm.OnDeliverAgain}

// deciding are the commands by which a person decides more than that there is another attempt.
var deciding = []fsm.Command{fsm.CommandFresh, fsm.CommandFix, fsm.CommandBudget}

// Retry is an attempt that a verdict granted.
type Retry struct {
	Reason recovery.Reason // of the verdict, by its name of today
	Action recovery.Action
	Begun  bool
}

// Course follows one claim: what becomes of its retries, and whether its questions needed anybody. The zero Course is
// that of a claim that begins.
type Course struct {
	Retry *Retry // granted last; nil: it is known what became of it, or there was none

	worded bool // a person has said something since the question, or decided more than that there is another attempt
	bare   bool // the attempt that follows a bare answer has not ended yet
}

// Outcome is what a fact settles.
type Outcome struct {
	Retry  *Retry // nil: no retry
	Became string // of Retry: PaidOff, FailedAlike, …

	NeededNobody string // IncidentOver or BareAnswer; empty: no question is settled so
}

// CourseOf returns the course of a task as far as the machine's state tells it.
func CourseOf(t *fsm.Task) (c Course) {
	n := len(t.History)
	if n == 0 {
		return c
	}
	last := t.History[n-1]
	waits := (t.State == fsm.Backoff || t.State == fsm.Parked) && t.Next.Action == last.Action
	runs := t.State.Info().Live && last.Attempt == t.Attempt-1
	if last.Action.Again() && (waits || runs) {
		c.Retry = &Retry{Reason: reasonName(last.Reason), Action: last.Action, Begun: runs}
	}
	return c
}

// reasonName returns today's name of a reason.
func reasonName(r recovery.Reason) recovery.Reason {
	if about, ok := recovery.Describe(r); ok {
		return about.Reason
	}
	return r
}

// Apply folds a fact about the claim in, and returns what that settles.
func (c *Course) Apply(f fsm.Fact) (out Outcome) {
	switch f := f.(type) {
	case fsm.AttemptBegan:
		if c.Retry != nil {
			c.Retry.Begun = true
		}
	case fsm.VerdictMade:
		c.judged(f, &out)
	case fsm.HintsGiven:
		c.worded = true
	case fsm.CommandTaken:
		if f.Refused == "" && slices.Contains(deciding, f.Command) {
			c.worded = true
		}
	case fsm.Moved:
		c.moved(f, &out)
	}
	return out
}

func (c *Course) judged(f fsm.VerdictMade, out *Outcome) {
	reason := reasonName(f.Finding.Reason)
	if r := c.Retry; r != nil {
		switch {
		case !r.Begun:
			c.settle(Superseded, out)
		case r.Reason == reason:
			c.settle(FailedAlike, out)
		default:
			c.settle(FailedOtherwise, out)
		}
	}
	c.bare = false
	if f.Verdict.Action.Again() {
		c.Retry = &Retry{Reason: reason, Action: f.Verdict.Action}
	}
}

func (c *Course) moved(f fsm.Moved, out *Outcome) {
	if end := AttemptEnd(f); end != "" {
		switch end {
		case OK:
			c.settle(PaidOff, out)
			if c.bare {
				out.NeededNobody = BareAnswer
			}
		case Withdrawn:
			c.settle(RetryWithdrawn, out)
		}
		c.bare = false
	}
	if f.From == fsm.Blocked {
		if f.On == fsm.OnIncidentOver {
			out.NeededNobody = IncidentOver
		}
		if slices.Contains(Answers, f.On) {
			c.bare = f.On == fsm.OnUnblocked && !c.worded
		}
	}
	if c.Retry != nil && !c.Retry.Begun && slices.Contains(overtakers, f.On) {
		c.settle(Superseded, out)
	}
	if f.To == fsm.Blocked {
		c.worded = false
	}
	if Over(f.To) {
		c.settle(RetryWithdrawn, out)
	}
}

// Over reports whether a claim is over in a state.
func Over(s fsm.State) bool { return s.Info().Final || s == fsm.Forgotten }

// settle ends the open retry, if there is one.
func (c *Course) settle(became string, out *Outcome) {
	if c.Retry != nil {
		out.Retry, out.Became, c.Retry = c.Retry, became, nil
	}
}
