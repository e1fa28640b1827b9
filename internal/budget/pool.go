package budget

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits apply to each resource of a pool separately.
type Limits struct {
	MaxConcurrent int           // maximum leases at a time; values below 1 count as 1
	Spacing       time.Duration // minimum time between two grants, at least 0
	Cooldown      time.Duration // delay after a failed call if the report specifies none; at least 0
	Lease         time.Duration // duration of a lease; 0 means DefaultLease
}

// DefaultLease is longer than nearly all model calls. If a call takes longer, its lease expires, and another call may
// overlap with it.
const DefaultLease = 2 * time.Minute

// Reasons why a lease was not granted.
const (
	WhyCooldown = "cooldown" // the resource is closed
	WhyQueue    = "queue"    // other workers asked earlier
	WhyBusy     = "busy"     // all leases are in use
	WhySpacing  = "spacing"  // too soon after the last grant
	WhyFull     = "full"     // the pool has too many resources or places
	WhyName     = "name"     // the resource's name is not valid; see CheckResource
)

// Waits that do not depend on Limits.
const (
	// pollWait is the wait for a lease that is in use. It is short compared with a model call, and long compared with
	// the cost of asking.
	pollWait   = time.Second
	fullWait   = 5 * time.Second  // after WhyFull
	refuseWait = time.Minute      // after WhyName; asking again does not help
	placeKept  = 5 * time.Second  // a waiting worker that is later than this leaves the queue
	askAgain   = 30 * time.Second // interval at which a worker with a long wait repeats its request
	// longestCooldown limits the delay in a report, because quotas renew at least once a day.
	longestCooldown = 24 * time.Hour
)

// Limits on a pool's size. The limit per worker prevents a faulty worker from taking all leases and places.
const (
	maxResources = 64
	maxQueue     = 256
	maxPerWorker = 16 // leases and places, across all resources
)

// Grant answers an Acquire with a lease, or with the wait and its reason.
type Grant struct {
	ID    string // empty if not granted
	Lease time.Duration
	Wait  time.Duration
	Why   string // one of the Why constants
}

// Lease permits one model call.
type Lease struct {
	ID     string
	Worker string
	Until  time.Time // time of expiry
	failed bool      // the worker reported that its call failed
}

// Pool grants leases. It is not safe for concurrent use.
type Pool struct {
	epoch     string
	limits    Limits
	now       time.Time // the latest time passed to a method
	serial    uint64
	resources []*resource // by name
}

// resource is the state of one resource.
type resource struct {
	name    string
	leases  []Lease // oldest first
	queue   []place // in order of first request
	granted time.Time
	closed  time.Time // no lease is granted before this time
	careful bool      // grant one lease at a time; set after a failure or cooldown, until a call succeeds
}

// place records that a worker is waiting in a queue.
type place struct {
	worker string
	due    time.Time // when the worker must ask again
}

// New returns an empty pool. The epoch is the prefix of grant ids, so it must differ from the epochs of the owner's
// earlier pools. The director uses its run id.
func New(epoch string, l Limits) *Pool { return &Pool{epoch: epoch, limits: l.complete()} }

func (l Limits) complete() Limits {
	l.MaxConcurrent = max(l.MaxConcurrent, 1)
	if l.Lease <= 0 {
		l.Lease = DefaultLease
	}
	return l
}

// Limit replaces the limits for future grants. Existing leases are not affected.
func (p *Pool) Limit(l Limits) { p.limits = l.complete() }

// Own reports whether a grant id has this pool's epoch.
func (p *Pool) Own(id string) bool {
	serial, own := strings.CutPrefix(id, p.epoch+".")
	return own && serial != "" && strings.Trim(serial, "0123456789") == ""
}

// Acquire grants a lease or returns a wait. A waiting worker stays in the queue if it asks again after the wait.
func (p *Pool) Acquire(now time.Time, name, worker string) Grant {
	now = p.advance(now)
	if CheckResource(name) != nil {
		return Grant{Wait: refuseWait, Why: WhyName}
	}
	r := p.resource(name)
	if r == nil {
		return Grant{Wait: fullWait, Why: WhyFull}
	}
	ahead := r.ahead(worker)
	newcomer := ahead == len(r.queue)
	if newcomer && (ahead >= maxQueue || p.share(worker) >= maxPerWorker) {
		return Grant{Wait: fullWait, Why: WhyFull}
	}
	if wait, why := p.obstacle(r, ahead, now); why != "" {
		due := place{worker, now.Add(wait)}
		if newcomer {
			r.queue = append(r.queue, due)
		} else {
			r.queue[ahead] = due
		}
		return Grant{Wait: wait, Why: why}
	}
	if !newcomer {
		r.queue = slices.Delete(r.queue, ahead, ahead+1)
	}
	p.serial++
	id := fmt.Sprintf("%s.%d", p.epoch, p.serial)
	r.lease(id, worker, now, p.limits.Lease)
	return Grant{ID: id, Lease: p.limits.Lease}
}

// obstacle returns a worker's minimum wait and the reason for it, or an empty reason if the worker can have a lease.
// ahead is the number of workers before it in the queue.
func (p *Pool) obstacle(r *resource, ahead int, now time.Time) (time.Duration, string) {
	if wait := r.closed.Sub(now); wait > 0 {
		return wait + time.Duration(ahead)*p.limits.Spacing, WhyCooldown
	}
	free := p.limits.MaxConcurrent
	if r.careful {
		free = 1
	}
	free -= len(r.leases)
	switch {
	case free <= 0 && ahead == 0:
		return r.soon(now), WhyBusy
	case ahead >= free:
		return r.soon(now), WhyQueue
	}
	if wait := r.granted.Add(time.Duration(ahead+1) * p.limits.Spacing).Sub(now); wait > 0 && !r.granted.IsZero() {
		return wait, WhySpacing
	}
	return 0, ""
}

// soon returns the wait for a lease that is in use: pollWait, or less if a lease expires earlier.
func (r *resource) soon(now time.Time) time.Duration {
	wait := pollWait
	for _, l := range r.leases {
		wait = min(wait, l.Until.Sub(now))
	}
	return wait
}

func (r *resource) lease(id, worker string, now time.Time, length time.Duration) {
	r.leases = append(r.leases, Lease{ID: id, Worker: worker, Until: now.Add(length)})
	r.granted = now
}

// ahead counts the workers before worker in the queue, or the whole queue if worker is not in it.
func (r *resource) ahead(worker string) int {
	if i := slices.IndexFunc(r.queue, func(w place) bool { return w.worker == worker }); i >= 0 {
		return i
	}
	return len(r.queue)
}
