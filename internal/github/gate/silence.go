package gate

import (
	"strings"
	"time"
)

// Limits for an outage. After DownAfter consecutive requests without an answer, the gate closes the API. After a pause,
// it admits one request as a probe. Each failed probe doubles the pause, up to probeLimit times the first pause.
const (
	DownAfter  = 3
	firstProbe = 4 * time.Second
	probeLimit = 15 // a minute
)

// silent is the prefix of a cooldown's reason while GitHub does not answer. It must not change, because journals
// contain it.
const silent = "GitHub does not answer: "

// RefusesAll is the prefix of a cooldown's reason while GitHub refuses the whole account. It must not change, because
// journals contain it, and because package recovery has a copy for the state machine.
const RefusesAll = "GitHub refuses every request of this account: "

// silence counts the consecutive requests that GitHub did not answer. A refused account closes the API at once.
type silence struct {
	first    time.Duration // first pause
	failures int           // consecutive failures
	since    time.Time     // time of the first failure
	why      string
	refused  bool // GitHub has refused the account since the last success
	shutAt   time.Time
	probe    *Request // current probe, or nil
}

func (o *silence) down() bool { return o.failures >= DownAfter }

// reason returns the reason for closing the API.
func (o *silence) reason() string {
	if o.refused {
		return RefusesAll + o.why
	}
	return silent + o.why
}

// failed counts a failed request and returns the length of the pause, or 0 after fewer than DownAfter failures. It
// ignores a request that was sent before the last pause began.
func (o *silence) failed(now, sent time.Time, res Result) time.Duration {
	if o.beforePause(sent) {
		return 0
	}
	if o.failures == 0 {
		o.since = now
	}
	if o.failures++; res.Refused {
		o.failures, o.refused = max(o.failures, DownAfter), true
	}
	if o.why = res.Failure; !o.down() {
		return 0
	}
	return o.pause(now)
}

// beforePause reports whether a request was sent before the last pause began.
func (o *silence) beforePause(sent time.Time) bool {
	return !o.shutAt.IsZero() && !sent.After(o.shutAt)
}

func (o *silence) pause(now time.Time) time.Duration {
	o.shutAt = now
	return min(o.first<<min(o.failures-DownAfter, 10), probeLimit*o.first)
}

// prime makes the next request a probe if the journal's reason says that GitHub did not answer or refused the account.
func (o *silence) prime(now time.Time, reason string) {
	why, away := strings.CutPrefix(reason, silent)
	why, refused := strings.CutPrefix(why, RefusesAll)
	if !away && !refused {
		return
	}
	if !o.down() {
		o.failures, o.since, o.why, o.refused = DownAfter, now, why, refused
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
	case res.GivenUp: // GitHub may be up or down, so pause again before the next probe
		pause = o.pause(now)
	case res.Failure == "" && o.refused && o.beforePause(sent): // sent before GitHub refused the account
	case res.Failure == "":
		o.failures, o.refused = 0, false
	default:
		pause = o.failed(now, sent, res)
	}
	if pause > 0 {
		g.shutUntil(Cooldown{API, now.Add(pause), o.reason()})
	}
}
