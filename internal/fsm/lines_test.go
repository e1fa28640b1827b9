package fsm

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
)

// clock formats a time relative to the epoch, as in the transcripts.
func clock(t time.Time) string { return t.Sub(epoch).Round(time.Millisecond).String() }

// factLine formats a fact as one line for people.
func factLine(f Fact) string {
	switch f := f.(type) {
	case RunBegan:
		return "run " + f.RunID + " began"
	case SettingsChanged:
		return fmt.Sprintf("decided by %s from now on (%s): %s", f.Digest, f.By, strings.Join(f.Keys, ", "))
	case PhaseChanged:
		return fmt.Sprintf("phase %s -> %s: %s", f.From, f.To, f.Why)
	case CursorAdvanced:
		return fmt.Sprintf("%s read up to %s", f.Repo, f.Cursor)
	case CooldownSet:
		line := fmt.Sprintf("%s closed until %s: %s", f.Resource, clock(f.Until), f.Why)
		if origin := Cooldown(f).Origin(); origin != "" {
			line += " (reported by " + origin + ")"
		}
		return line
	case CooldownLifted:
		return fmt.Sprintf("%s lifted, for %v", f.Resource, f.Tasks)
	case LimitStated:
		return fmt.Sprintf("#%d says that %s is limited until %s, and has closed it alone for %s", f.Task.Number(),
			f.Resource, clock(f.Until), f.Alone)
	case IncidentChanged:
		if f.Over {
			return fmt.Sprintf("incident %s: forgotten", f.Incident.Key)
		}
		return fmt.Sprintf("incident %s: %s%s", f.Incident.Key,
			f.Incident.Breaker.State(f.Incident.Breaker.Until.Add(-1)), breakerLine(f.Incident.Breaker))
	case WorkerAnswered:
		if f.Welcome {
			return "hello of " + f.Worker + " again"
		}
		return "unknown worker " + f.Worker
	case UsageCounted:
		switch {
		case f.PaidCalls != nil:
			return fmt.Sprintf("#%d paid calls set to %d by the operator", f.Task.Number(), *f.PaidCalls)
		case f.Ended:
			return fmt.Sprintf("#%d used %d paid calls, %.2f USD", f.Task.Number(), f.Usage.PaidCalls, f.Usage.CostUSD)
		}
		return fmt.Sprintf("#%d has made %d paid calls in this attempt", f.Task.Number(), f.Usage.PaidCalls)
	}
	return attemptLine(f)
}

// attemptLine formats a fact about a task and its attempts.
func attemptLine(f Fact) string {
	switch f := f.(type) {
	case TaskQueued:
		return fmt.Sprintf("#%d queued as %s", f.Task.Number(), f.Nonce)
	case TaskRenamed:
		return fmt.Sprintf("#%d is called %q now", f.Task.Number(), f.Title)
	case Moved:
		return movedLine(f)
	case AttemptBegan:
		leaves := ""
		if f.LeavesValidation {
			leaves = ", leaves its validation to another"
		}
		if f.Travels {
			leaves += ", on a copy of the checkout"
		}
		return fmt.Sprintf("#%d attempt %d begins%s%s", f.Task.Number(), f.N, nextLine(f.Next), leaves)
	case ContainerWaits:
		return fmt.Sprintf("#%d container waits until %s%s", f.Task.Number(), clock(f.Until), lacksLine(f))
	case AttemptFenced:
		return fmt.Sprintf("#%d attempt %d is fenced: %s", f.Task.Number(), f.Attempt, f.Words)
	case ContainerStarted:
		return fmt.Sprintf("#%d container started, hello by %s, watchdog at %s", f.Task.Number(), clock(f.HelloBy),
			clock(f.WatchdogAt))
	case LabelsConfirmed:
		return fmt.Sprintf("#%d labels confirmed", f.Task.Number())
	case ReportAccepted:
		return reportLine(f)
	case WatchdogMoved:
		return fmt.Sprintf("#%d watchdog moved to %s", f.Task.Number(), clock(f.At))
	case HintsGiven:
		return fmt.Sprintf("#%d hints: %d, the last from %s: %q", f.Task.Number(), len(f.Hints),
			f.Hints[len(f.Hints)-1].From, f.Hints[len(f.Hints)-1].Text)
	case ClaimWentStale:
		return fmt.Sprintf("#%d claim went stale", f.Task.Number())
	}
	return endLine(f)
}

// endLine formats a fact about ends, people and effects.
func endLine(f Fact) string {
	switch f := f.(type) {
	case EndingSet:
		return fmt.Sprintf("#%d ending: %s", f.Task.Number(), joined(string(f.Outcome), string(f.Known), f.Cause))
	case ValidationDue:
		return fmt.Sprintf("#%d attempt %d is to be validated", f.Task.Number(), f.Attempt)
	case VerdictMade:
		return fmt.Sprintf("#%d verdict on attempt %d: %s -> %s after %s [%s] %q", f.Task.Number(), f.Attempt,
			f.Finding.Reason, f.Verdict.Action, f.Verdict.Delay, f.Verdict.Row, f.Finding.Cause)
	case TallyReset:
		return fmt.Sprintf("#%d meters reset: %s", f.Task.Number(), f.By)
	case CommandTaken:
		return fmt.Sprintf("#%d command of %s: %s", f.Task.Number(), f.By, joined(string(f.Command), f.Refused))
	case CommentHeard:
		return fmt.Sprintf("#%d comment %d of %s, answers: %t", f.Task.Number(), f.Comment, f.By, f.Answers)
	case ReviewNoted:
		return fmt.Sprintf("#%d review noted: checks of %q, conflict of %q, change %d", f.Task.Number(),
			f.Reviewed.Checks, f.Reviewed.Conflict, f.Reviewed.Change)
	case WorkPushed:
		return fmt.Sprintf("#%d pushed to %s", f.Task.Number(), f.Work.Branch)
	case WorkDelivered:
		return fmt.Sprintf("#%d delivered on %s", f.Task.Number(), f.Delivery.Branch)
	case EffectPlanned:
		return "planned " + f.Effect.ID
	case EffectDone:
		return "done " + joined(f.Effect, f.Failed)
	case EffectDeferred:
		return fmt.Sprintf("deferred %s until %s, failed %d times: %s", f.Effect, clock(f.Until), f.Tries, f.Why)
	}
	return fmt.Sprintf("%T?", f)
}

func lacksLine(f ContainerWaits) string {
	if f.For == "" {
		return ""
	}
	return fmt.Sprintf(", else %s: %s", f.Lacks, f.For)
}

func breakerLine(b recovery.Breaker) string {
	line := fmt.Sprintf(", failed in %d", len(b.Strikes))
	if !b.Until.IsZero() {
		line += ", until " + clock(b.Until)
	}
	if b.Canary != "" {
		line += ", the canary is #" + strconv.Itoa(IssueKey(b.Canary).Number())
	}
	return line
}

func movedLine(f Moved) string {
	line := fmt.Sprintf("#%d %s -> %s (%s)", f.Task.Number(), f.From, f.To, f.On)
	if f.Why != "" && f.Why != string(f.On) {
		line += ": " + f.Why
	}
	if !f.Until.IsZero() {
		line += ", until " + clock(f.Until)
	}
	return line
}

func nextLine(n Next) string {
	if n.Action == "" {
		return ""
	}
	if n.Reason == "" && n.Validate {
		return " (validates)"
	}
	if n.Reason == "" {
		return fmt.Sprintf(" (%s, as a person wants it)", n.Action)
	}
	meter := "free of charge"
	if n.Charges != "" {
		meter = "charged to " + string(n.Charges)
	}
	line := fmt.Sprintf(" (%s because of %s, %s", n.Action, n.Reason, meter)
	if n.Validate {
		line += ", validates"
	}
	return line + ")"
}

func reportLine(f ReportAccepted) string {
	kind := "result"
	if !f.OK {
		kind = "error " + string(f.Finding.Reason)
	}
	if !f.Final {
		kind += ", a notice"
	}
	return fmt.Sprintf("#%d report %s of %s accepted: %s", f.Task.Number(), f.Ref.ID, f.Worker, kind)
}

// effectLine formats an effect as one line for people.
func effectLine(e Effect) string {
	switch {
	case e.Reply != nil:
		return fmt.Sprintf("reply to comment %d on #%d: %s", e.Reply.Comment, e.Task.Number(), replyLine(e.Reply))
	case e.Deliver != nil && e.Work != nil:
		return fmt.Sprintf("%s (onto %s)", e.ID, e.Work.Branch)
	case e.Start != nil && e.Start.Fresh:
		return fmt.Sprintf("%s (fresh, told of failures: %d%s)", e.ID, len(e.Start.Failures), hintsLine(e.Start.Hints))
	case e.Start != nil && e.Start.Action != "":
		return fmt.Sprintf("%s (%s, told of failures: %d%s)", e.ID, e.Start.Action, len(e.Start.Failures),
			hintsLine(e.Start.Hints))
	case e.Start != nil && len(e.Start.Hints) > 0:
		return fmt.Sprintf("%s (told of failures: %d%s)", e.ID, len(e.Start.Failures), hintsLine(e.Start.Hints))
	case e.Stop != nil:
		fenced := ""
		if !e.Stop.FenceAt.IsZero() {
			fenced = ", fenced from " + clock(e.Stop.FenceAt) + " on"
		}
		return fmt.Sprintf("%s (grace %s%s)", e.ID, e.Stop.Grace, fenced)
	case e.Escalation != nil:
		return fmt.Sprintf("%s (%s: %q; %s%s)", e.ID, e.Escalation.Reason, e.Escalation.Cause, e.Escalation.Why,
			alikeLine(e.Escalation.Alike))
	case e.Release != nil:
		return fmt.Sprintf("%s (%s%s)", e.ID, e.Release.Why, releaseLine(e.Release))
	case e.Progress != nil:
		return fmt.Sprintf("comment on #%d: %s", e.Task.Number(), joined(e.Progress.State.String(), e.Progress.Why,
			string(e.Progress.Incident), commandedLine(e.Progress.Commanded)))
	case e.Kind == DoReadAnswers:
		return fmt.Sprintf("read answers on #%d", e.Task.Number())
	case e.Kind == DoReadReview:
		return fmt.Sprintf("look at the pull request of #%d", e.Task.Number())
	case e.Kind == DoReclaim:
		return fmt.Sprintf("look at the claim of #%d", e.Task.Number())
	case e.Kind == DoReadIssue:
		return fmt.Sprintf("look at #%d", e.Task.Number())
	case e.Kind == DoForget:
		return "forget " + e.Nonce
	case !e.Kind.Durable():
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Kind, e.Worker, e.Why))
	}
	return e.ID
}

func replyLine(r *Reply) string {
	switch {
	case r.Refused != "":
		return string(r.Command) + " refused: " + r.Refused
	case r.Command != CommandWhy:
		return string(r.Command) + " done"
	}
	line := fmt.Sprintf("%s, waits for %s", r.View.State, r.Waits.For)
	if !r.Waits.Until.IsZero() {
		line += " until " + clock(r.Waits.Until)
	}
	return line
}

func releaseLine(n *ReleaseNote) string {
	switch {
	case n.Merged:
		return "; merged"
	case n.Taken != "":
		return "; taken by " + n.Taken
	}
	return ""
}

func hintsLine(hints []Hint) string {
	if len(hints) == 0 {
		return ""
	}
	return fmt.Sprintf(", hints: %d", len(hints))
}

// joined joins the non-empty texts by ": ".
func joined(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, ": ")
}

func alikeLine(tasks []string) string {
	if len(tasks) == 0 {
		return ""
	}
	return "; alike in " + strings.Join(tasks, ", ")
}

func commandedLine(by string) string {
	if by == "" {
		return ""
	}
	return "(commanded by " + by + ")"
}
