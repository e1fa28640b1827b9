package budget

import (
	"slices"
	"time"

	"retake/internal/bus/wire"
)

// Status is the outcome of a leased call.
type Status string

// The statuses that a wire.BudgetReport can have.
const (
	OK          Status = "ok"
	RateLimited Status = "rate_limited"
	Failed      Status = "error"
)

// Cooldown is a request to close a resource until a given time.
type Cooldown struct {
	Resource string
	Until    time.Time
	Why      string
}

// Release ends a lease if worker still holds it. Otherwise it does nothing, so a late release is harmless.
func (p *Pool) Release(now time.Time, id, worker string) {
	p.advance(now)
	r, i := p.find(id, worker)
	if r == nil {
		return
	}
	if !r.leases[i].failed {
		r.careful = false // the call did not fail
	}
	r.leases = slices.Delete(r.leases, i, i+1)
}

// Report records the outcome of the call under a lease. The lease stays until it is released. A rate limit or other
// error closes the resource for everyone, for retryAfter (at most a day) or for Limits.Cooldown if retryAfter is 0.
// Report returns the cooldown if it is new or longer than before.
func (p *Pool) Report(now time.Time, id, worker string, s Status, retryAfter time.Duration) *Cooldown {
	c := p.Note(now, id, worker, s, retryAfter)
	if c == nil || !p.Close(c.Resource, c.Until) {
		return nil
	}
	return c
}

// Note records an outcome like Report, for an owner that decides how long other workers must wait. It returns the
// requested cooldown, or nil, and does not close the resource. After a failure, the pool grants only one lease at a
// time until a call succeeds.
func (p *Pool) Note(now time.Time, id, worker string, s Status, retryAfter time.Duration) *Cooldown {
	now = p.advance(now)
	r, i := p.find(id, worker)
	if r == nil {
		return nil
	}
	if s == OK {
		r.leases[i].failed, r.careful = false, false
		return nil
	}
	r.leases[i].failed, r.careful = true, true
	if retryAfter <= 0 {
		retryAfter = p.limits.Cooldown
	}
	return &Cooldown{Resource: r.name, Until: now.Add(min(retryAfter, longestCooldown)), Why: string(s)}
}

// Close closes a resource until the given time, and reports whether that extends its cooldown.
func (p *Pool) Close(name string, until time.Time) bool {
	r := p.resource(name)
	if r == nil || !until.After(p.now) || !until.After(r.closed) {
		return false
	}
	r.closed, r.careful = until, true
	return true
}

// Open ends a cooldown at an operator's command. The pool then grants one lease at a time until a call succeeds. A
// worker that was waiting for the cooldown leaves the queue unless it asks again within askAgain plus placeKept.
func (p *Pool) Open(now time.Time, name string) {
	now = p.advance(now)
	for _, r := range p.resources {
		if r.name != name || !r.closed.After(now) {
			continue
		}
		r.closed = now
		for i := range r.queue {
			if latest := now.Add(askAgain); r.queue[i].due.After(latest) {
				r.queue[i].due = latest
			}
		}
	}
}

// Adopt records a lease granted by another pool, even if it exceeds Limits. Its length counts from now. Adopt does
// nothing if the pool has too many resources, or the worker too many leases and places.
func (p *Pool) Adopt(now time.Time, name, id, worker string, length time.Duration) {
	now = p.advance(now)
	if r := p.resource(name); r != nil && p.share(worker) < maxPerWorker {
		r.lease(id, worker, now, length)
	}
}

// Drop ends a worker's leases and removes the worker from all queues, at the end of its attempt or stage. It returns
// the ids of the ended leases.
func (p *Pool) Drop(now time.Time, worker string) (held []string) {
	p.advance(now)
	for _, r := range p.resources {
		r.leases = slices.DeleteFunc(r.leases, func(l Lease) bool {
			if l.Worker == worker {
				held = append(held, l.ID)
			}
			return l.Worker == worker
		})
		r.queue = slices.DeleteFunc(r.queue, func(w place) bool { return w.worker == worker })
	}
	return held
}

// Expire advances the pool's time, and removes expired leases and abandoned queue entries. Methods with a now argument
// do this implicitly. Close does not, so an owner that closes a resource before the first request calls Expire first.
func (p *Pool) Expire(now time.Time) { p.advance(now) }

// advance moves the pool's time forward, and removes expired leases and places.
func (p *Pool) advance(now time.Time) time.Time {
	if now.After(p.now) {
		p.now = now
	}
	for _, r := range p.resources {
		r.leases = slices.DeleteFunc(r.leases, func(l Lease) bool { return !l.Until.After(p.now) })
		r.queue = slices.DeleteFunc(r.queue, func(w place) bool { return p.now.Sub(w.due) > placeKept })
	}
	return p.now
}

// find looks up a lease by id and holder.
func (p *Pool) find(id, worker string) (*resource, int) {
	for _, r := range p.resources {
		if i := slices.IndexFunc(r.leases, func(l Lease) bool { return l.ID == id && l.Worker == worker }); i >= 0 {
			return r, i
		}
	}
	return nil, 0
}

// Message converts the grant to a message for the bus and for the worker's lease socket.
func (g Grant) Message() wire.BudgetGrant {
	return wire.BudgetGrant{GrantID: g.ID, LeaseSeconds: g.Lease.Seconds(), WaitSeconds: g.Wait.Seconds(), Why: g.Why}
}

// RetryAfter returns the wait requested in a report, capped at a day, or 0 if the report does not request one.
func RetryAfter(r wire.BudgetReport) time.Duration {
	if r.RetryAfterSeconds == nil || *r.RetryAfterSeconds <= 0 {
		return 0
	}
	return time.Duration(min(*r.RetryAfterSeconds, longestCooldown.Seconds()) * float64(time.Second))
}
