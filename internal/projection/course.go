package projection

import (
	"slices"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// The outcomes of attempts.
const (
	OK        = "ok"
	Failed    = "failed"
	Withdrawn = "withdrawn"
)

// AttemptEnd returns the outcome of the attempt that a move ended, or "" if the move did not end an attempt.
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

// The results of a retry. A retry paid off if its attempt passed its stages. Later events, such as a merge or a failing
// check, do not change this result.
const (
	PaidOff         = "paid_off"
	FailedAlike     = "failed_alike"     // the attempt failed again, for the same reason
	FailedOtherwise = "failed_otherwise" // the attempt failed again, for another reason
	RetryWithdrawn  = "withdrawn"        // the claim ended before the retry
	Superseded      = "superseded"       // another decision replaced the retry before it began
)

// Cases in which a question did not need a person.
const (
	IncidentOver = "incident_over" // the incident ended, and the task continued without an answer
	BareAnswer   = "bare_answer"   // the answer added nothing, and the next attempt passed its stages
)

// Answers are the triggers that result from a person's answer to a question.
var Answers = []fsm.Trigger{fsm.OnUnblocked, fsm.OnSnoozed, fsm.OnWithdrawn, fsm.OnMerged, fsm.OnRejected}

// overtakers are the triggers that replace a retry before it starts.
var overtakers = []fsm.Trigger{fsm.OnUnblocked, fsm.OnEscalate, fsm.OnDeliverAgain}

// deciding lists the commands that do more than repeat the attempt.
var deciding = []fsm.Command{fsm.CommandFresh, fsm.CommandFix, fsm.CommandBudget}

// Retry is an attempt granted by a verdict.
type Retry struct {
	Reason recovery.Reason // the verdict's reason, under its current name
	Action recovery.Action
	Begun  bool
}

// Course follows one claim. It determines the results of retries, and finds questions that did not need a person. The
// zero Course is ready for a new claim.
type Course struct {
	Retry *Retry // the last granted retry, until its result is known

	worded bool // since the question, a person has left a hint or used one of the deciding commands
	bare   bool // the task continues after an answer that added nothing (see BareAnswer)
}

// Outcome contains the results that follow from one fact.
type Outcome struct {
	Retry  *Retry // the retry with a known result, or nil
	Became string // its result: PaidOff, FailedAlike, …

	NeededNobody string // IncidentOver or BareAnswer, if the fact shows that a question did not need a person
}

// CourseOf reconstructs a task's course from the machine's state. The state shows only the last retry, so the fields
// about answers keep their zero values.
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

// reasonName returns the current name of a reason.
func reasonName(r recovery.Reason) recovery.Reason {
	if about, ok := recovery.Describe(r); ok {
		return about.Reason
	}
	return r
}

// Apply applies a fact about the claim and returns the results that follow from it.
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

// Over reports whether a claim in this state has ended.
func Over(s fsm.State) bool { return s.Info().Final || s == fsm.Forgotten }

// settle sets the result of the open retry, if any.
func (c *Course) settle(became string, out *Outcome) {
	if c.Retry != nil {
		out.Retry, out.Became, c.Retry = c.Retry, became, nil
	}
}
