package demo

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/github/githubtest"
)

const (
	// pauseFor is what GitHub asks for: long enough for a worker to end meanwhile.
	pauseFor = 8 * time.Second
	// onTheWire is how long a request may be on its way that was sent before the refusal of another one had arrived. Who
	// ignores a pause asks once a second, for as long as it lasts.
	onTheWire = time.Second
)

// limit is GitHub's request for a pause.
type limit struct {
	ordered bool // the next request gets it
	at      time.Time
	until   time.Time
}

// limitAt finds the refusal in the stand-in's log; zero: it was not told yet.
func limitAt(log []githubtest.Request) limit {
	i := slices.IndexFunc(log, func(r githubtest.Request) bool { return r.Status == http.StatusTooManyRequests })
	if i < 0 {
		return limit{}
	}
	return limit{ordered: true, at: log[i].At, until: log[i].At.Add(pauseFor)}
}

// impatient are the requests that came while GitHub had asked for a pause, and whoever sent them knew.
func impatient(log []githubtest.Request) (wrong []string) {
	l := limitAt(log)
	for _, r := range log {
		if r.DuringLimit && r.At.After(l.at.Add(onTheWire)) {
			wrong = append(wrong, fmt.Sprintf("%s %s, %v after it", r.Method, r.Path, r.At.Sub(l.at).Round(time.Millisecond)))
		}
	}
	return wrong
}

// restrict lets GitHub ask for a pause when a worker has just begun what it will end soon, once another one has ended (a
// build with an empty cache takes longer than any pause), and then offers the scenario's issue.
func (p *play) restrict(a *act) error {
	switch {
	case !a.Limit || !p.limit.at.IsZero():
	case !p.limit.ordered:
		if !p.ripe() {
			return nil
		}
		p.limit.ordered = true
		p.about(a.key(), "GitHub will answer the next request with 429, Retry-After: %.0f", pauseFor.Seconds())
		return p.site.hub.Inject(githubtest.SecondaryLimit(http.StatusTooManyRequests, pauseFor))
	default:
		if l := limitAt(p.site.hub.Requests()); !l.at.IsZero() {
			p.limit = l
			p.about(a.key(), "429: no request for %.0f s. Meanwhile somebody offers this issue", pauseFor.Seconds())
			p.site.hub.AddLabel(a.key(), person, labelTask)
			if p.kills > 0 { // the cooldown is in the journal
				p.killing.Reset(pauseFor / 4)
			}
		}
	}
	return nil
}

// fresh is how long after its begin a run of CODE is sure to last until the next poll.
const fresh = 300 * time.Millisecond

// ripe says whether it is time for the limit.
func (p *play) ripe() bool {
	others, ended, busy := 0, 0, false
	for _, a := range p.acts {
		if !a.Limit {
			others++
		}
		if a.done {
			ended++
		}
		busy = busy || a.state == running && a.stage == wire.StageCode && a.attempt == a.Attempts && time.Since(a.since) < fresh
	}
	// The last: the director was not there when it was time.
	return busy && (ended > 0 || others == 1) || ended == others
}
