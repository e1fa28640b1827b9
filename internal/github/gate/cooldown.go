package gate

import (
	"fmt"
	"time"
)

// Refused is the error returned for a request to a closed resource.
type Refused struct{ Cooldown }

func (e *Refused) Error() string {
	return fmt.Sprintf("gate: %s: closed until %s: %s", e.Resource, e.Until.UTC().Format(time.RFC3339), e.Why)
}

// close closes the resources affected by a limit. If GitHub does not specify a wait, the first wait is
// Options.Fallback, and each consecutive limit doubles it. The wait does not double again for a request that was sent
// before the previous limit.
func (g *Gate) close(r *Request, l Limit, sent time.Time) time.Time {
	now := time.Now()
	wait := l.Wait
	if !l.Stated {
		if sent.After(g.limited) || g.strikes == 0 {
			g.strikes++
			g.limited = now
		}
		wait = min(g.Fallback<<min(g.strikes-1, 10), max(backoffLimit, g.Fallback))
	}
	until := now.Add(wait)
	if l.Secondary && r.Write {
		g.strict = now.Add(strictFor)
		l.Why += fmt.Sprintf("; Retake counts every change as new content until %s UTC", g.strict.UTC().Format("15:04"))
	}
	resources := []string{Read, Write}
	if l.Resource != "" {
		resources = []string{l.Resource}
	}
	for _, name := range resources {
		if l.Reserve {
			g.extend(Cooldown{name + reserved, until, l.Why})
		} else {
			g.shutUntil(Cooldown{name, until, l.Why})
		}
	}
	return until
}

// extend replaces the cooldown of a resource if the new one ends later. Otherwise it returns false.
func (g *Gate) extend(c Cooldown) (extended bool) {
	if extended = c.Until.After(g.shut[c.Resource].Until); extended {
		g.shut[c.Resource] = c
	}
	return extended
}

// shutUntil extends a cooldown and queues the call to OnCooldown.
func (g *Gate) shutUntil(c Cooldown) {
	if g.extend(c) {
		g.unreported = append(g.unreported, c)
	}
}

// Prime restores a cooldown without calling OnCooldown. It ignores unknown resources.
func (g *Gate) Prime(c Cooldown) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.extend(c) && c.Resource == API && now.Before(c.Until) {
		g.silence.prime(now, c.Why)
	}
}

// Lift reopens a resource on an operator's request. It also resets the backoff for limits without a specified wait.
// Lift ignores unknown resources.
func (g *Gate) Lift(resource string) {
	g.locked(func() {
		if _, shut := g.shut[resource]; shut {
			delete(g.shut, resource)
			g.strikes = 0
			g.settle()
		}
	})
}

// Refused returns when GitHub started to refuse the whole account, and why. It returns zero while GitHub accepts the
// account.
func (g *Gate) Refused() (since time.Time, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.silence.down() || !g.silence.refused {
		return time.Time{}, ""
	}
	return g.silence.since, g.silence.why
}

// Away returns when GitHub stopped answering, and the last failure. It returns zero while GitHub answers.
func (g *Gate) Away() (since time.Time, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.silence.down() || g.silence.refused {
		return time.Time{}, ""
	}
	return g.silence.since, g.silence.why
}

// Closed returns when a cooldown of the whole API ends, and the reason for it. It returns zero if the API is open, or
// if the reason is an outage (see Away) or a refused account (see Refused).
func (g *Gate) Closed() (until time.Time, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.shut[API]; !g.silence.down() && time.Now().Before(c.Until) {
		return c.Until, c.Why
	}
	return time.Time{}, ""
}

// Pace is the state of the gate.
type Pace struct {
	ChangesLeft int    // new content that the hourly limit still allows
	Waiting     int    // requests waiting for their turn
	Held        string // description of the limit that has delayed a request for heldAfter, or empty
}

// heldAfter is the minimum wait of a request before Pace reports the limit that delays it. It is longer than a
// few pauses between writes.
const heldAfter = 10 * time.Second

// Pace returns the state of the gate without waiting.
func (g *Gate) Pace() Pace {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	budget, _ := g.counted(&Request{}, now)
	budget.hour.forget(now)
	return Pace{
		ChangesLeft: max(contentPerHour-budget.hour.used, 0), Waiting: g.lines.waiting(), Held: g.held(now),
	}
}

// held describes the limit that delays the request that has waited longest, if it has waited for heldAfter. Otherwise
// it returns "". It ignores reads and progress edits, because they do not delay work.
func (g *Gate) held(now time.Time) string {
	var longest *Request
	for _, of := range g.lines {
		for _, r := range *of {
			if r.Lane <= Claim && now.Sub(r.since) >= heldAfter && (longest == nil || r.since.Before(longest.since)) {
				longest = r
			}
		}
	}
	switch {
	case longest == nil:
		return ""
	case g.contentWait(longest, now) > 0:
		return fmt.Sprintf("GitHub's limit of %d new comments and pull requests a minute", contentPerMinute)
	case g.minuteWait(longest, now) > 0:
		return "GitHub's limit on requests per minute"
	case longest.Write:
		return "the required pause between writes to GitHub"
	}
	return "a free slot for requests to GitHub (rate_limits.github.max_concurrent_requests)"
}

// minuteWait returns how long GitHub's limit on points per minute delays r.
func (g *Gate) minuteWait(r *Request, now time.Time) time.Duration {
	budget, limit := g.budgetOf(r)
	return budget.wait(now, r.cost(), limit)
}
