package api

import (
	"fmt"
	"time"
)

// Limits for believing an answer. One wrong answer of a proxy or of a server that lags behind must not end a claim. A
// missing issue or a refused credential counts only after GitHub has repeated the answer doubtTimes, for doubtFor.
const (
	doubtFor   = time.Minute
	doubtTimes = 3
)

// Doubt records how often, and since when, GitHub has given the same answer.
type Doubt struct {
	since time.Time
	times int
}

// Again records one more answer, and reports whether it counts now.
func (d Doubt) Again(now time.Time) (_ Doubt, sure bool) {
	if d.times++; d.times == 1 {
		d.since = now
	}
	return d, d.times >= doubtTimes && now.Sub(d.since) >= doubtFor
}

// Doubted returns a transient copy of err, for an answer that does not count so far.
func Doubted(err *Error, d Doubt) *Error {
	e := *err
	e.Kind, e.Doubtful = KindTransient, true
	e.Message = fmt.Sprintf("%s (received %d times; Retake accepts it after %s without a different answer)", e.Message,
		d.times, doubtFor)
	return &e
}

// refusal records a failure. It returns the refusal of a credential that never worked at once, so that the director's
// start fails with it.
func (t *transport) refusal(e *Error) *Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Kind != KindUnauthorized {
		return e
	}
	var sure bool
	if t.refused, sure = t.refused.Again(time.Now()); sure || !t.works {
		return e
	}
	return Doubted(e, t.refused)
}

// accepted records a success.
func (t *transport) accepted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.works, t.refused = true, Doubt{}
}
