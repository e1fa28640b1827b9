package api

import (
	"fmt"
	"time"
)

// One wrong answer from a proxy, or from a GitHub server with stale data, must not end a claim. Retake therefore
// accepts that an issue is missing, or a credential is refused, only after doubtTimes such answers over at least
// doubtFor.
const (
	doubtFor   = time.Minute
	doubtTimes = 3
)

// Doubt records how often, and since when, GitHub has given the same answer.
type Doubt struct {
	since time.Time
	times int
}

// Again records that GitHub gave the answer once more, and reports whether Retake accepts the answer now.
func (d Doubt) Again(now time.Time) (_ Doubt, sure bool) {
	if d.times++; d.times == 1 {
		d.since = now
	}
	return d, d.times >= doubtTimes && now.Sub(d.since) >= doubtFor
}

// Doubted returns a transient copy of err, for an answer that Retake does not accept yet.
func Doubted(err *Error, d Doubt) *Error {
	e := *err
	e.Kind, e.Doubtful = KindTransient, true
	e.Message = fmt.Sprintf("%s (received %d times; Retake accepts it only after GitHub has repeated it for %s)",
		e.Message,
		d.times, doubtFor)
	return &e
}

// refusal returns the error for a failed request. If GitHub refused the credential, the error is transient until GitHub
// has repeated the refusal often enough. If the credential never worked, refusal returns e at once, so that the
// director fails to start and shows it.
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

// accepted records that GitHub accepted the credential.
func (t *transport) accepted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.works, t.refused = true, Doubt{}
}
