package demo

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

const (
	// limitFor is the length of GitHub's pause, which is long enough for a worker to end in the meantime.
	limitFor = 8 * time.Second
	// inFlight is the time after the refusal in which requests may arrive on an idle machine, because the director sent
	// them before it read the refusal. A director that ignored the pause would send a request every second.
	inFlight = time.Second
)

// rateLimit is GitHub's request for a pause.
type rateLimit struct {
	ordered bool // set once the GitHub stand-in will refuse, or has refused, a request
	at      time.Time
	until   time.Time
}

// findRateLimit finds the refusal in the GitHub stand-in's log, or returns the zero rateLimit.
func findRateLimit(log []githubtest.Request) rateLimit {
	i := slices.IndexFunc(log, func(r githubtest.Request) bool { return r.Status == http.StatusTooManyRequests })
	if i < 0 {
		return rateLimit{}
	}
	return rateLimit{ordered: true, at: log[i].At, until: log[i].At.Add(limitFor)}
}

// requestsWhileLimited returns the requests that the director sent although GitHub had asked for a pause.
func requestsWhileLimited(log []githubtest.Request, slowness float64) (wrong []string) {
	l := findRateLimit(log)
	for _, r := range log {
		if r.DuringLimit && r.At.After(l.at.Add(scaled(inFlight, slowness))) {
			wrong = append(wrong, fmt.Sprintf("%s %s, %v after the limit", r.Method, r.Path,
				r.At.Sub(l.at).Round(time.Millisecond)))
		}
	}
	return wrong
}

// limitRequests makes the stand-in for GitHub demand a pause shortly before a worker ends, and then offers the
// scenario's issue. It first waits until a worker has ended, because a build with an empty cache takes longer than the
// pause.
func (r *run) limitRequests(a *activeScenario) error {
	switch {
	case !a.Limit || !r.limit.at.IsZero():
	case !r.limit.ordered:
		if !r.timeToLimit() {
			return nil
		}
		r.limit.ordered = true
		r.printFor(a.key(), "GitHub will answer the next request with 429, Retry-After: %.0f", limitFor.Seconds())
		return r.world.github.Inject(githubtest.SecondaryLimit(http.StatusTooManyRequests, limitFor))
	default:
		if l := findRateLimit(r.world.github.Requests()); !l.at.IsZero() {
			r.limit = l
			r.printFor(a.key(), "429: no requests for %.0f s; offering the issue during the pause",
				limitFor.Seconds())
			r.world.github.AddLabel(a.key(), testbed.Person, testbed.LabelTask)
			if r.kills > 0 { // the cooldown is in the journal
				r.killTimer.Reset(limitFor / 4)
			}
		}
	}
	return nil
}

// justBegun is the maximum age of a CODE stage that is certain to last until the next poll.
const justBegun = 300 * time.Millisecond

// timeToLimit reports whether the GitHub stand-in should now demand the pause.
func (r *run) timeToLimit() bool {
	others, ended, busy := 0, 0, false
	for _, a := range r.scenarios {
		if !a.Limit {
			others++
		}
		if a.done {
			ended++
		}
		busy = busy || a.state == running && a.stage == wire.StageCode && a.attempt == a.Attempts &&
			time.Since(a.since) < justBegun
	}
	// The last condition is a fallback for a director that was down at the right time.
	return busy && (ended > 0 || others == 1) || ended == others
}
