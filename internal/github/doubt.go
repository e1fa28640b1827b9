package github

import (
	"fmt"
	"net/http"
	"time"
)

// One wrong answer of a proxy, or of a server that lags behind, must not end a claim: that an issue is not
// there, or that the credential is refused, counts only after GitHub has said nothing else for so long, and so
// many times.
const (
	doubtFor   = time.Minute
	doubtTimes = 3
)

// doubt is how long, and how often, the same has been said.
type doubt struct {
	since time.Time
	times int
}

// again takes one more time; sure reports whether it counts now.
func (d doubt) again(now time.Time) (_ doubt, sure bool) {
	if d.times++; d.times == 1 {
		d.since = now
	}
	return d, d.times >= doubtTimes && now.Sub(d.since) >= doubtFor
}

// doubted is the error of an answer that does not count yet.
func doubted(err *Error, d doubt) *Error {
	e := *err
	e.Kind, e.Doubtful = KindTransient, true
	e.Message = fmt.Sprintf("%s (said %d times; it counts when GitHub says nothing else for %s)", e.Message, d.times,
		doubtFor)
	return &e
}

// missing takes what a request about an issue has led to. "Not found" is also what GitHub answers for what we
// may not see, and for an issue whose server is behind; deleted (410) and transferred issues are told apart
// from that.
func (c *Client) missing(p place, err error) error {
	e := detail(err)
	if e.Kind != KindNotFound || e.Status != http.StatusNotFound {
		if err == nil {
			c.lost.drop(p.key())
		}
		return err
	}
	d, _ := c.lost.get(p.key())
	d, sure := d.again(time.Now())
	c.lost.put(p.key(), d)
	if sure {
		return err
	}
	return doubted(e, d)
}

// refusal takes an answer that is no success. A credential that has never worked is refused at once, so that a
// start says so.
func (t *transport) refusal(e *Error) *Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Kind != KindUnauthorized {
		return e
	}
	var sure bool
	if t.refused, sure = t.refused.again(time.Now()); sure || !t.works {
		return e
	}
	return doubted(e, t.refused)
}

// accepted takes a success.
func (t *transport) accepted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.works, t.refused = true, doubt{}
}
