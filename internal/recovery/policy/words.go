package policy

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
)

const day = 24 * time.Hour

// Span formats a duration for people: 31 days, 6h, 1h30m, 500ms. The longer the duration, the coarser the rounding.
func Span(d time.Duration) string {
	for _, r := range []struct{ from, to time.Duration }{
		{2 * day, time.Hour},
		{time.Minute, time.Second},
		{time.Second, 10 * time.Millisecond},
		{time.Millisecond, time.Millisecond},
	} {
		if d >= r.from {
			d = d.Round(r.to)
			break
		}
	}
	days := ""
	if d >= 2*day {
		days = strconv.Itoa(int(d/day)) + " days"
		if d %= day; d == 0 {
			return days
		}
		days += " "
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return days + s
}

// describe returns the verdict's line for people, such as "network_transient: 1 of 3".
func (at ladderPosition) describe(r recovery.Reason, row *Row, g *Rung) string {
	switch {
	case !g.Action.Again() && at.before == 1:
		return fmt.Sprintf("%s: %s, because another attempt did not help", r, g.Action)
	case !g.Action.Again() && at.before > 1:
		return fmt.Sprintf("%s: %s, because %d more attempts did not help", r, g.Action, at.before)
	case !g.Action.Again() && len(g.When) > 0:
		return fmt.Sprintf("%s: %s, because %s", r, g.Action, cmp.Or(conditionWords[g.When[0]], string(g.When[0])))
	case !g.Action.Again():
		return fmt.Sprintf("%s: %s", r, g.Action)
	case at.total < 0:
		return fmt.Sprintf("%s: %s number %d, limited only by the guards", r, g.Action, at.n)
	}
	line := fmt.Sprintf("%s: %d of %d", r, at.n, at.total)
	if at.rungs > 1 || g.Action != recovery.Retry && g.Action != recovery.RestartWorker {
		line += " (" + string(g.Action) + ")"
	}
	if row.Count == BySignature {
		line += " with this signature"
	}
	return line
}

// conditionWords describes each condition for people.
var conditionWords = map[Condition]string{
	HasAlternative:         "there is another model",
	"!" + HasAlternative:   "there is no other model",
	AlreadyCompacted:       "the context has been shortened before",
	"!" + AlreadyCompacted: "the context has not been shortened yet",
	ResetStated:            "a reset time is available",
	"!" + ResetStated:      "no reset time is available",
}

// NotRepeated is the end of a verdict's explanation if another unchanged attempt would fail in the same way.
const NotRepeated = "; an unchanged attempt would fail the same way"

// describeExhausted explains why the ladder does not have a step for the failure. It adds NotRepeated only if its
// statement holds under any policy.
func (r *Row) describeExhausted(reason recovery.Reason, at ladderPosition, tooLong bool, f recovery.Finding) string {
	about, _ := recovery.Describe(reason)
	switch skipped := at.ends == at.total; {
	case tooLong:
		return string(reason) + ": the reset is " + Span(f.RetryAfter) + " away, longer than " + Span(r.Wait.Longest)
	case at.total == 0 && !about.Retryable:
		return string(reason) + ": " + about.Means + NotRepeated
	case at.total == 0:
		return string(reason) + ": " + about.Means + "; the policy allows no retry"
	case skipped && at.total == 1:
		return string(reason) + ": skipped once already"
	case skipped:
		return string(reason) + ": skipped " + strconv.Itoa(at.total) + " times already"
	case at.ends > 0:
		return string(reason) + ": all " + strconv.Itoa(at.total) + " steps of its ladder are used up"
	case at.total == 1:
		return string(reason) + ": the one retry is used up"
	}
	return string(reason) + ": all " + strconv.Itoa(at.total) + " retries are used up"
}

// describeWait describes the length of a wait for a limit, and whether it was stated or assumed.
func (r *Row) describeWait(v *recovery.Verdict, f recovery.Finding) string {
	line := string(f.Reason) + ": "
	switch {
	case f.RetryAfter <= 0:
		return line + "the reset time is unknown: wait " + Span(v.Delay)
	case r.Wait.Longest <= 0:
		return line + "wait " + Span(v.Delay) + ", regardless of the reset time"
	}
	return line + "wait " + Span(v.Delay) + " for the reset"
}
