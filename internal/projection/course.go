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

// AttemptEnd returns how the attempt ended, or "" if the move does not end an attempt.
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

// The results of a retry. A retry paid off if its attempt passed its stages. A later clean validation, merge or
// failing check is another decision.
const (
	PaidOff         = "paid_off"
	FailedAlike     = "failed_alike"     // its verdict had the same reason
	FailedOtherwise = "failed_otherwise" // its verdict had another reason
	RetryWithdrawn  = "withdrawn"        // the claim ended before the retry did
	Superseded      = "superseded"       // another decision was made before the attempt began
)

// Why a question did not need a person.
const (
	IncidentOver = "incident_over" // the incident ended, and the task continued without an answer
	BareAnswer   = "bare_answer"   // the answer added nothing, and the next attempt passed its stages
)

// Answers are the triggers with which a person answers a question.
var Answers = []fsm.Trigger{fsm.OnUnblocked, fsm.OnSnoozed, fsm.OnWithdrawn, fsm.OnMerged, fsm.OnRejected}

// overtakers are the triggers that replace a retry before its start.
var overtakers = []fsm.Trigger{fsm.OnUnblocked, fsm.OnEscalate, fsm.OnDeliverAgain}

// deciding lists the commands with which a person decides more than to try again.
var deciding = []fsm.Command{fsm.CommandFresh, fsm.CommandFix, fsm.CommandBudget}

// Retry is an attempt that a verdict granted.
type Retry struct {
	Reason recovery.Reason // of the verdict, by its current name
	Action recovery.Action
	Begun  bool
}

// Course follows one claim. It finds the results of retries, and the questions that did not need a person. The zero
// Course is the beginning of a claim.
type Course struct {
	Retry *Retry // the retry granted last, or nil once it is settled

	worded bool // since the question, a person has commented or decided more than to try again
	bare   bool // the attempt after a bare answer has not ended yet
}

// Outcome contains the decisions that a fact settles.
type Outcome struct {
	Retry  *Retry // the settled retry, or nil
	Became string // its result: PaidOff, FailedAlike, …

	NeededNobody string // IncidentOver or BareAnswer if the fact shows that a question did not need a person, or empty
}

// CourseOf reconstructs the course of a task, as far as the machine's state allows.
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

// Apply applies a fact about the claim and returns the settled decisions.
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

// settle ends the open retry, if any.
func (c *Course) settle(became string, out *Outcome) {
	if c.Retry != nil {
		out.Retry, out.Became, c.Retry = c.Retry, became, nil
	}
}
