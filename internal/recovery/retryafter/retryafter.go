package retryafter

import (
	"maps"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Read returns the wait stated in the evidence: in the worker's field, or else in headers, or else in text. It returns
// 0 if the reason is not transient or no wait is stated. It ignores points in time if e.At is zero. The result is at
// most LongestWait. The texts of e must be clean.
func Read(e recovery.Evidence, r recovery.Reason) time.Duration {
	about, _ := recovery.Describe(r)
	if about.Class != recovery.Transient {
		return 0
	}
	if e.RetryAfter > 0 {
		return min(e.RetryAfter, recovery.LongestWait)
	}
	limits := about.Cause == recovery.RateLimit || r == recovery.Overloaded
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
		if d := st.ongoing.wait(e.At); d > 0 {
			return d
		}
	}
	return 0
}

// saysNow reports whether the headers contain Retry-After: 0.
func saysNow(headers map[string]string) bool {
	return slices.ContainsFunc(slices.Sorted(maps.Keys(headers)), func(name string) bool {
		return strings.EqualFold(name, "retry-after") && strings.TrimSpace(headers[name]) == "0"
	})
}

// fromHeaders returns the wait stated in the headers of a refused request. If the failure is a limit, and the number of
// remaining requests is unknown, the reset counts as a wait.
func fromHeaders(headers map[string]string, limits bool, at time.Time) time.Duration {
	l, _ := ReadLimit(headers, at)
	if l.RetryAfter == 0 && limits && l.Remaining == nil {
		l.RetryAfter = until(l.ResetAt, at)
	}
	if l.RetryAfter == 0 && saysNow(headers) {
		return recovery.Now
	}
	return l.RetryAfter
}
