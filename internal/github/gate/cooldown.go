package gate

import (
	"fmt"
	"time"
)

// Refused is the error of a request for a closed resource.
type Refused struct{ Cooldown }

func (e *Refused) Error() string {
	return fmt.Sprintf("gate: %s: closed until %s: %s", e.Resource, e.Until.UTC().Format(time.RFC3339), e.Why)
}

// close closes the resources of a limit. Consecutive limits without a stated wait increase the wait. Answers to
// requests that left before the last such limit do not count again.
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
		l.Why += fmt.Sprintf("; until %s UTC Retake counts every change as new content", g.strict.UTC().Format("15:04"))
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

// extend sets a cooldown if it is later than the current one. It never shortens one.
func (g *Gate) extend(c Cooldown) (extended bool) {
	if extended = c.Until.After(g.shut[c.Resource].Until); extended {
		g.shut[c.Resource] = c
	}
	return extended
}

// shutUntil extends a cooldown and queues the call of OnCooldown.
func (g *Gate) shutUntil(c Cooldown) {
	if g.extend(c) {
		g.unreported = append(g.unreported, c)
	}
}

// Prime restores a cooldown without a call of OnCooldown. It ignores unknown resources.
func (g *Gate) Prime(c Cooldown) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.extend(c) && c.Resource == API && now.Before(c.Until) {
		g.silence.prime(now, c.Why)
	}
}

// Lift opens a resource for an operator and wakes waiting requests. The next limit without a stated wait counts as the
// first one. It ignores unknown resources.
func (g *Gate) Lift(resource string) {
	g.locked(func() {
		if _, shut := g.shut[resource]; shut {
			delete(g.shut, resource)
			g.strikes = 0
			g.settle()
		}
	})
}

// Refused returns the time and the reason of GitHub's refusal of the whole account, or zero while GitHub accepts the
// account.
func (g *Gate) Refused() (since time.Time, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.silence.down() || !g.silence.refused {
		return time.Time{}, ""
	}
	return g.silence.since, g.silence.why
}

// Away returns the time since which GitHub has not answered, and the last failure, or zero while GitHub answers.
func (g *Gate) Away() (since time.Time, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.silence.down() || g.silence.refused {
		return time.Time{}, ""
	}
	return g.silence.since, g.silence.why
}

// Closed returns the end and the reason of a cooldown of the whole API, other than silence or a refused account. It
// returns zero if the API is open.
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
	ChangesLeft int    // remaining in the hourly limit on new content
	Waiting     int    // requests waiting for their turn
	Held        string // the limit that has delayed work for heldAfter, or empty
}

// heldAfter is a wait that is longer than a few pauses between writes.
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

// held names the limit for which the longest wait lasts, or returns "". Progress edits and reads may wait without
// delaying work.
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
		return "GitHub's limit on requests a minute"
	case longest.Write:
		return "GitHub's pace of writes"
	}
	return "a turn for its requests to GitHub (rate_limits.github.max_concurrent_requests)"
}

// minuteWait returns how long the limit on points delays r.
func (g *Gate) minuteWait(r *Request, now time.Time) time.Duration {
	budget, limit := g.budgetOf(r)
	return budget.wait(now, r.cost(), limit)
}
