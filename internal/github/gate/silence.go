package gate

import "time"

// After DownAfter requests in a row without an answer, GitHub counts as away. After a pause one request probes it. Each
// failed probe doubles the pause, up to probeLimit times the first.
const (
	DownAfter  = 3
	firstProbe = 4 * time.Second
	probeLimit = 15 // a minute
)

// silent begins the reason of a cooldown of API while GitHub does not answer. Journals contain it.
const silent = "GitHub does not answer: "

// silence counts requests that GitHub leaves unanswered.
type silence struct {
	first    time.Duration // pause
	failures int           // in a row
	since    time.Time     // of the first failure
	why      string
	shutAt   time.Time
	probe    *Request // under way
}

func (o *silence) down() bool { return o.failures >= DownAfter }

// failed counts a request without an answer and returns the length of the pause. It returns 0 below DownAfter, and for
// a request sent before the last pause began.
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
	return min(o.first<<min(o.failures-DownAfter, 10), probeLimit*o.first)
}

// prime makes the next request a probe, because GitHub was down according to the journal.
func (o *silence) prime(now time.Time, why string) {
	if !o.down() {
		o.failures, o.since, o.why = DownAfter, now, why
	}
}

// noteResult counts a result and closes the API if GitHub is down.
func (g *Gate) noteResult(r *Request, sent time.Time, res Result) {
	o, now, pause := &g.silence, time.Now(), time.Duration(0)
	probe := o.probe == r
	if probe {
		o.probe = nil
	}
	switch {
	case res.Unsent, res.GivenUp && !probe:
	case res.GivenUp: // GitHub may or may not answer, so the next probe waits as well
		pause = o.pause(now)
	case res.Failure == "":
		o.failures = 0
	default:
		pause = o.failed(now, sent, res.Failure)
	}
	if pause > 0 {
		g.shutUntil(Cooldown{API, now.Add(pause), silent + o.why})
	}
}
