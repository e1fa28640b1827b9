package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// clock formats a time in UTC, as in all logs and files.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func cooldownText(f fsm.CooldownSet) string {
	c := fsm.Cooldown(f)
	text := fmt.Sprintf("%s is closed until %s: %s", c.Resource, clock(c.Until), c.Why)
	if origin := c.Origin(); origin != "" {
		text += " (reported by " + origin + ")"
	}
	return text
}

func incidentText(f fsm.IncidentChanged) string {
	i := f.Incident
	switch {
	case f.Over:
		return "The incident is over: " + i.Key
	case i.OfContract() && i.Breaker.Held:
		return fmt.Sprintf("Incident %s: %s. No attempt starts in %s until the contract is corrected", i.Key, i.Cause,
			i.Repo)
	case i.OfContract():
		return fmt.Sprintf("The contract of %s is valid again", i.Repo)
	case i.Breaker.Held:
		return fmt.Sprintf("Incident %s: %s. No attempt starts until the program is installed", i.Key, i.Cause)
	case i.Breaker.Opened == 0:
		return "" // not an incident yet
	}
	return fmt.Sprintf("Incident %s (%s): %s, seen in %s", i.Key, i.Reason, i.Cause,
		plural(len(i.Breaker.Strikes), "failure"))
}

func standingText(s fsm.Standing) string {
	if len(s.After) == 0 {
		return ""
	}
	names := make([]string, len(s.After))
	for i, k := range s.After {
		names[i] = string(k)
	}
	return ", behind " + strings.Join(names, ", ")
}

// saidBefore lists the moves already described by another fact in the same batch, such as the start, the report or the
// delivery.
var saidBefore = []fsm.Trigger{fsm.OnWon, fsm.OnStillOurs, fsm.OnReport, fsm.OnDelivered, fsm.OnInReview}

// toldAlone returns the text for a move that is fully described by its reason, or "" for any other move.
func toldAlone(f fsm.Moved) string {
	switch f.On {
	case fsm.OnMerged, fsm.OnRejected:
		return capital(f.Why)
	case fsm.OnWithdrawn:
		if f.Why != "" {
			return "The claim ends: " + f.Why
		}
	}
	return ""
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func movedText(at time.Time, f fsm.Moved) string {
	text := f.On.Info().Means
	switch {
	case slices.Contains(saidBefore, f.On):
		return ""
	case toldAlone(f) != "":
		return toldAlone(f)
	case f.Why == "" || f.On == fsm.OnDispatch:
	case f.On == fsm.OnRetry || f.On == fsm.OnEscalate || f.On == fsm.OnReclaim: // the verdict already gave the reason
	default:
		text += ": " + typedBy(f.Why)
	}
	if (f.To == fsm.Backoff || f.To == fsm.Parked) && f.Until.Sub(at) >= time.Second {
		text += ", not before " + clock(f.Until)
	}
	return text
}

// typedBy replaces the budget command's name in a journaled text with "grant", its name on the command line.
func typedBy(words string) string {
	if by, operators := strings.CutSuffix(words, ": "+string(fsm.CommandBudget)); operators {
		return by + ": grant"
	}
	return words
}

func nextText(n fsm.Next) string {
	var how []string
	if n.Validate {
		how = append(how, "it only validates the work, in a clean container")
	} else if n.Action != "" {
		how = append(how, n.Action.About().Means)
	}
	if n.Fresh {
		how = append(how, "on a fresh checkout")
	}
	if n.Charges != "" {
		how = append(how, "counted against "+string(n.Charges))
	}
	if how == nil {
		return ""
	}
	return ": " + strings.Join(how, ", ")
}

func reportText(f fsm.ReportAccepted, t *fsm.Task) string {
	switch {
	case f.OK && f.Final:
		return "The worker reports success"
	case f.OK:
		return "The worker reports that stage " + f.Stage + " has passed"
	case f.Finding == nil:
		return "The worker reports a failure in stage " + cmp.Or(f.Stage, "?")
	}
	switch {
	case f.Exit && t != nil && t.Ending.Fenced != "":
		return "The worker ended without a report"
	case f.Exit && t != nil && t.Ending.KnownCause != "": // Retake ended the attempt
		return "The container stopped, and the worker left no report: " + f.Finding.Cause
	case f.Exit:
		return "The worker ended without a report: " + f.Finding.Cause
	}
	text := fmt.Sprintf("The worker reports a failure in stage %s: %s", cmp.Or(f.Stage, "?"),
		strings.TrimPrefix(f.Finding.Cause, f.Stage+": ")) // some causes begin with their stage
	if !f.Final {
		text += " (it continues)"
	}
	if f.Note != "" {
		text += "; " + f.Note
	}
	return text
}

func waitsText(f fsm.ContainerWaits) string {
	if f.For == "" {
		return "The cluster accepted the worker, and is scheduling it"
	}
	return "The cluster cannot start the worker yet: " + f.For
}

func endingText(f fsm.EndingSet) string {
	if f.Cause == "" {
		return ""
	}
	return "Retake observed: " + f.Cause
}

func usageText(f fsm.UsageCounted) string {
	switch {
	case f.PaidCalls != nil:
		return fmt.Sprintf("An operator sets the number of paid calls to %d", *f.PaidCalls)
	case !f.Ended || f.Usage == recovery.Usage{}:
		return ""
	}
	return "The attempt has used " + usage(f.Usage)
}

func usage(u recovery.Usage) string {
	var parts []string
	if u.PaidCalls > 0 {
		parts = append(parts, plural(int(u.PaidCalls), "paid call"))
	}
	if u.CacheHits > 0 {
		parts = append(parts, plural(int(u.CacheHits), "cache hit"))
	}
	if u.Tokens > 0 {
		parts = append(parts, plural(int(u.Tokens), "token"))
	}
	if u.CostUSD > 0 {
		parts = append(parts, fmt.Sprintf("%.2f USD", u.CostUSD))
	}
	if parts == nil {
		return "no usage reported"
	}
	return strings.Join(parts, ", ")
}

func hintsText(hints []fsm.Hint) string {
	if len(hints) == 0 {
		return ""
	}
	last := hints[len(hints)-1]
	return fmt.Sprintf("%s says: %s", last.From, shortened(last.Text))
}

func commandText(f fsm.CommandTaken) string {
	text := fmt.Sprintf("%s commands: %s", f.By, f.Typed())
	if f.Refused != "" {
		text += ", but it was refused: " + f.Refused
	}
	return text
}

func heardText(f fsm.CommentHeard) string {
	if f.Answers {
		return f.By + " answers the agent's question with a comment"
	}
	return f.By + " posts a comment without a command"
}

func workText(w fsm.DeliverResult) string {
	text := "branch " + w.Branch
	if w.PullRequest > 0 {
		text += fmt.Sprintf(", pull request #%d", w.PullRequest)
	}
	return text
}

// beganText describes the start of an attempt. For the first attempt, it adds that the claim was won.
func beganText(f fsm.AttemptBegan, t *fsm.Task) string {
	text := fmt.Sprintf("Attempt %d begins%s", f.N, nextText(f.Next))
	if t != nil && t.State == fsm.Claiming { // the move to Starting comes later
		return "The claim was won. " + text
	}
	return text
}

func plannedText(e fsm.Effect) string {
	if e.Escalation != nil {
		return "Retake asked a person" // the question has the details
	}
	return "" // the move gives the reason for a release
}

// effects maps durable effects to readable names.
var effects = map[string]string{
	string(fsm.DoClaim): "The claim", string(fsm.DoRecheck): "Reading the issue again",
	string(fsm.DoStart): "Starting the worker",
	string(fsm.DoStop):  "Stopping the container", string(fsm.DoDeliver): "The delivery",
	string(fsm.DoEscalate): "Asking a person",
	string(fsm.DoRelease):  "Releasing the claim", string(fsm.DoRemind): "The reminder",
}

// effectName names the effect with the given id.
func effectName(id string) string {
	kind := id[strings.LastIndexByte(id, '/')+1:]
	kind, _, _ = strings.Cut(kind, ".")
	return cmp.Or(effects[kind], "Something")
}

func decidedText(v recovery.Verdict) string {
	return cmp.Or(v.Action.About().Means, string(v.Action)) + pauseText(v.Delay)
}

// pauseText describes the pause before an action. It returns "" if there is no pause.
func pauseText(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d.Round(time.Second) == 0:
		return ", at once"
	}
	return ", after a pause of " + d.Round(time.Second).String()
}

func shortened(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	const most = 200
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
