package recovery

import (
	"strconv"
	"strings"
	"time"
)

// LongestWait is the longest wait that is believed, whoever states it.
const LongestWait = maxRetryAfter

const day = 24 * time.Hour

// Span is a duration for people: 31 days, 6h, 1h30m, 500ms. The longer it is, the less of its small parts matters.
func Span(d time.Duration) string {
	for _, r := range []struct{ from, to time.Duration }{
		{2 * day, time.Hour}, {time.Minute, time.Second}, {time.Second, 10 * time.Millisecond}, {time.Millisecond, time.Millisecond},
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

// say is the verdict's line for people: "network_transient: 1 of 3".
func (at rungPlace) say(r Reason, row *Row, g *Rung) string {
	var line [96]byte
	b := append(line[:0], r...)
	b = append(b, ": "...)
	if !g.Action.Again() {
		b = append(b, g.Action...)
		switch {
		case at.before == 1:
			b = append(b, ", for another attempt did not help"...)
		case at.before > 1:
			b = append(strconv.AppendInt(append(b, ", for "...), int64(at.before), 10), " more attempts did not help"...)
		case len(g.When) > 0:
			b = append(append(b, ", for "...), g.When[0].words()...)
		}
		return string(b)
	}
	if at.total < 0 {
		b = append(append(b, g.Action...), ", time "...)
		b = strconv.AppendInt(b, int64(at.n), 10)
		return string(append(b, "; only the guards bound it"...))
	}
	b = append(strconv.AppendInt(b, int64(at.n), 10), " of "...)
	b = strconv.AppendInt(b, int64(at.total), 10)
	if at.rungs > 1 || g.Action != Retry && g.Action != RestartWorker {
		b = append(append(append(b, " ("...), g.Action...), ')')
	}
	if row.Count == BySignature {
		b = append(b, " with this signature"...)
	}
	return string(b)
}

// words say that a condition holds.
func (c Condition) words() string {
	switch c {
	case HasAlternative:
		return "there is another model"
	case "!" + HasAlternative:
		return "there is no other model"
	case AlreadyCompacted:
		return "the context was shortened before"
	case "!" + AlreadyCompacted:
		return "the context was not shortened yet"
	case ResetStated:
		return "a reset is stated"
	case "!" + ResetStated:
		return "no reset is stated"
	}
	return string(c)
}

// exhausted says why there is no rung. That a retry cannot help is said only where it is so, whatever the policy.
func (r *Row) exhausted(reason Reason, at rungPlace, tooLong bool, f Finding) string {
	about, _ := Describe(reason)
	switch skipped := at.ends == at.total; {
	case tooLong:
		return string(reason) + ": the reset is " + Span(f.RetryAfter) + " away, longer than " + Span(r.Wait.Longest)
	case at.total == 0 && !about.Retryable:
		return string(reason) + ": " + about.Means + "; a retry cannot help"
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

// waits says how long a wait for a limit is, and whether anybody has said so.
func (r *Row) waits(v *Verdict, f Finding) string {
	line := string(f.Reason) + ": "
	switch {
	case f.RetryAfter <= 0:
		return line + "no reset is stated: wait " + Span(v.Delay)
	case r.Wait.Longest <= 0:
		return line + "wait " + Span(v.Delay) + ", whatever reset is stated"
	}
	return line + "wait " + Span(v.Delay) + " for the reset"
}
