package github

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// After so many requests in a row without an answer, whoever made them, GitHub is taken to be away. It is left
// alone, and then one request is the probe: if that fails, too, the next pause is twice as long, up to
// probeLimit times the first.
const (
	downAfter  = 3
	firstProbe = 4 * time.Second
	probeLimit = 15 // a minute
)

// silent begins why ResourceAPI is shut when GitHub does not answer; a journal keeps it.
const silent = "GitHub does not answer: "

// silence counts what GitHub leaves unanswered. It belongs to the gate.
type silence struct {
	first    time.Duration // pause
	failures int           // in a row
	since    time.Time     // of the first of them
	why      string
	shutAt   time.Time
	probe    *waiter // under way
}

func (o *silence) down() bool { return o.failures >= downAfter }

// failed counts a request without an answer. It returns for how long GitHub is to be left alone; 0: not yet, or
// the request was sent before it was.
func (o *silence) failed(now, sent time.Time, why string) time.Duration {
	if !o.shutAt.IsZero() && !sent.After(o.shutAt) {
		return 0
	}
	if o.failures == 0 {
		o.since = now
	}
	o.failures++
	o.why = why
	if !o.down() {
		return 0
	}
	return o.pause(now)
}

func (o *silence) pause(now time.Time) time.Duration {
	o.shutAt = now
	return min(o.first<<min(o.failures-downAfter, 10), probeLimit*o.first)
}

// prime has the next request be a probe: a journal says that GitHub was away.
func (o *silence) prime(now time.Time, why string) {
	if !o.down() {
		o.failures, o.since, o.why = downAfter, now, why
	}
}

// result is what became of a request, for the gate.
type result struct {
	limit   *limit // that the answer states
	ok      bool   // the answer is no refusal
	failure string // why there is no answer; empty: there is one
	givenUp bool   // whoever asked did not wait for one
	unsent  bool
}

// unanswered is the result of a request that an error has ended.
func unanswered(ctx context.Context, err error) result {
	if ctx.Err() != nil {
		return result{givenUp: true}
	}
	return result{failure: detail(err).Detail(), unsent: kindOf(err) != KindTransient || errors.Is(err, ErrNotSent)}
}

// answered is the result of a request with an answer. One of a server that fails is none.
func answered(a answer, op string) result {
	if a.status >= 300 && kindOfStatus(a.status) == KindTransient {
		return result{failure: fmt.Sprintf("%s: status %d", op, a.status)}
	}
	return result{ok: a.status < 400}
}

// noteResult counts for the breaker, and shuts everything if GitHub is away.
func (g *gate) noteResult(w *waiter, sent time.Time, r result) {
	o, now, pause := &g.silence, time.Now(), time.Duration(0)
	probe := o.probe == w
	if probe {
		o.probe = nil
	}
	switch {
	case r.unsent, r.givenUp && !probe:
	case r.givenUp: // nobody knows, and the next probe has its time
		pause = o.pause(now)
	case r.failure == "":
		o.failures = 0
	default:
		pause = o.failed(now, sent, r.failure)
	}
	if pause > 0 {
		g.shutUntil(Cooldown{ResourceAPI, now.Add(pause), silent + o.why})
	}
}

// Away says since when GitHub has not answered, and how the last request failed; zero: it answers.
func (c *Client) Away() (since time.Time, why string) {
	g := c.transport.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.silence.down() {
		return time.Time{}, ""
	}
	return g.silence.since, g.silence.why
}

// Closed says until when nothing is asked of GitHub, and why, although it has not been silent; zero: it may be
// asked, or is away.
func (c *Client) Closed() (until time.Time, why string) {
	g := c.transport.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if cd := g.shut[ResourceAPI]; !g.silence.down() && time.Now().Before(cd.Until) {
		return cd.Until, cd.Why
	}
	return time.Time{}, ""
}
