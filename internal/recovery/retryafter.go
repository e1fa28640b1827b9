package recovery

import "time"

// retryAfter returns how long to wait before another try, when anything states it: the worker, headers, then text.
// Only reasons that time heals have one. Moments are read only against e.At. The result is 0 … maxRetryAfter. The
// texts of e are clean.
func retryAfter(e Evidence, r Reason) time.Duration {
	about, _ := Describe(r)
	if about.Class != Transient {
		return 0
	}
	if e.RetryAfter > 0 {
		return min(e.RetryAfter, maxRetryAfter)
	}
	limits := about.Cause == RateLimit || r == Overloaded
	if d := fromHeaders(e.Headers, limits, e.At); d > 0 {
		return d
	}
	texts := [...]string{e.Stderr, e.Stdout, e.Message}
	var read [len(texts)]stated
	for i, s := range texts {
		read[i] = readStated(s, limits)
		if d := read[i].final.wait(e.At); d > 0 {
			return d
		}
	}
	for _, st := range read {
		if d := fromHeaders(st.headers, limits, e.At); d > 0 {
			return d
		}
	}
	for _, st := range read {
		if d := st.announced.wait(e.At); d > 0 {
			return d
		}
	}
	return 0
}

// fromHeaders reads what headers say of a refused request. Where a limit is the matter and nothing says how much of
// it remains, a reset counts.
func fromHeaders(headers map[string]string, limits bool, at time.Time) time.Duration {
	l, _ := ReadLimit(headers, at)
	if l.RetryAfter == 0 && limits && l.Remaining == nil {
		return until(l.ResetAt, at)
	}
	return l.RetryAfter
}
