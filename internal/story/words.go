package story

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// clock is a time of day, in UTC as all times in logs and files are.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func cooldownText(f fsm.CooldownSet) string {
	c := fsm.Cooldown(f)
	text := fmt.Sprintf("%s is closed until %s: %s", c.Resource, clock(c.Until), c.Why)
	if origin := c.Origin(); origin != "" {
		text += " (on the word of " + origin + ")"
	}
	return text
}

func incidentText(f fsm.IncidentChanged) string {
	i := f.Incident
	switch {
	case f.Over:
		return "The incident is over: " + i.Key
	case i.Breaker.Opened == 0:
		return "" // not yet one
	}
	return fmt.Sprintf("Incident %s (%s): %s, seen in %s", i.Key, i.Reason, i.Cause, plural(len(i.Breaker.Strikes), "failure"))
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

func movedText(at time.Time, f fsm.Moved) string {
	text := f.On.Info().Means
	switch {
	case f.Why == "" || f.On == fsm.OnDispatch || f.On == fsm.OnStillOurs:
	case f.On == fsm.OnWithdrawn:
		return "The claim ends: " + f.Why
	case f.On == fsm.OnRetry || f.On == fsm.OnEscalate || f.On == fsm.OnReclaim: // the verdict has said it
	default:
		text += ": " + f.Why
	}
	if (f.To == fsm.Backoff || f.To == fsm.Parked) && f.Until.After(at) {
		text += ", not before " + clock(f.Until)
	}
	return text
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
		how = append(how, "charged to "+string(n.Charges))
	}
	if how == nil {
		return ""
	}
	return ": " + strings.Join(how, ", ")
}

func reportText(f fsm.ReportAccepted) string {
	switch {
	case f.OK && f.Final:
		return "The worker reports success"
	case f.OK:
		return "The worker reports that stage " + f.Stage + " has passed"
	case f.Finding == nil:
		return "The worker reports a failure in stage " + cmp.Or(f.Stage, "?")
	}
	if f.Exit {
		return "The worker has ended without a report: " + f.Finding.Cause
	}
	text := fmt.Sprintf("The worker reports a failure in stage %s: %s", cmp.Or(f.Stage, "?"), f.Finding.Cause)
	if !f.Final {
		text += " (it goes on)"
	}
	return text
}

func endingText(f fsm.EndingSet) string {
	if f.Cause == "" {
		return ""
	}
	return "Retake itself saw: " + f.Cause
}

func usageText(f fsm.UsageCounted) string {
	switch {
	case f.PaidCalls != nil:
		return fmt.Sprintf("An operator sets the paid calls to %d", *f.PaidCalls)
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
		return "nothing that is counted"
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
	text := fmt.Sprintf("%s commands: %s", f.By, f.Command)
	if f.Refused != "" {
		text += ", which is refused: " + f.Refused
	}
	return text
}

func workText(w fsm.DeliverResult) string {
	text := "branch " + w.Branch
	if w.PullRequest > 0 {
		text += fmt.Sprintf(", pull request #%d", w.PullRequest)
	}
	return text
}

func plannedText(e fsm.Effect) string {
	switch {
	case e.Escalation != nil:
		return "A person is asked: " + e.Escalation.Ask
	case e.Release != nil:
		return "The claim is given up: " + e.Release.Why
	}
	return ""
}

// effects name durable effects for people.
var effects = map[string]string{
	string(fsm.DoClaim): "The claim", string(fsm.DoRecheck): "Reading the issue again", string(fsm.DoStart): "The start",
	string(fsm.DoStop): "Ending the container", string(fsm.DoDeliver): "The delivery", string(fsm.DoEscalate): "Asking a person",
	string(fsm.DoRelease): "Giving the claim up", string(fsm.DoRemind): "The reminder",
}

// effectName says what an effect with this id does.
func effectName(id string) string {
	kind := id[strings.LastIndexByte(id, '/')+1:]
	kind, _, _ = strings.Cut(kind, ".")
	return cmp.Or(effects[kind], "Something")
}

func decidedText(v recovery.Verdict) string {
	text := cmp.Or(v.Action.About().Means, string(v.Action))
	if v.Delay > 0 {
		text += ", after " + v.Delay.Round(time.Second).String()
	}
	return text
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
