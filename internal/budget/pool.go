package budget

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits hold for each resource of a pool.
type Limits struct {
	MaxConcurrent int           // leases at the same time; less than 1 counts as 1
	Spacing       time.Duration // between two grants, at least 0
	Cooldown      time.Duration // after a failed call that did not state a delay, at least 0
	Lease         time.Duration // of one grant; 0 means DefaultLease
}

// DefaultLease is longer than nearly all model calls. A longer call may overlap with one extra call.
const DefaultLease = 2 * time.Minute

// Why a lease was not granted. The set is closed.
const (
	WhyCooldown = "cooldown" // the resource is closed
	WhyQueue    = "queue"    // others came first
	WhyBusy     = "busy"     // all leases are held
	WhySpacing  = "spacing"  // too soon after the last grant
	WhyFull     = "full"     // a bound of the pool is reached
	WhyName     = "name"     // not a valid name of a resource; see CheckResource
)

// Waits that do not follow from a limit.
const (
	// until a lease may be free; short compared with a model call, long compared with the cost of asking
	pollWait   = time.Second
	fullWait   = 5 * time.Second  // until the pool may be below a bound again
	refuseWait = time.Minute      // for an invalid name, because asking again is a fault
	placeKept  = 5 * time.Second  // how late a waiting worker may ask again
	askAgain   = 30 * time.Second // how often workers with a long wait ask again
	// longestCooldown bounds the wait in a report, because quotas renew at least once a day.
	longestCooldown = 24 * time.Hour
)

// Bounds of a pool. The bound per worker keeps a faulty worker from taking everything.
const (
	maxResources = 64
	maxQueue     = 256
	maxPerWorker = 16 // leases and places, over all resources
)

// Grant is the answer to an Acquire. It contains a lease, or the wait and the reason for it.
type Grant struct {
	ID    string // empty if not granted
	Lease time.Duration
	Wait  time.Duration
	Why   string // one of the Why constants
}

// Lease is the right to one call under way.
type Lease struct {
	ID     string
	Worker string
	Until  time.Time // it expires then
	failed bool      // its call was reported as failed
}

// Pool hands out leases. It belongs to one goroutine.
type Pool struct {
	epoch     string
	limits    Limits
	now       time.Time // the newest time seen
	serial    uint64
	resources []*resource // by name
}

// resource is the state of one resource.
type resource struct {
	name    string
	leases  []Lease // oldest first
	queue   []place // first come first
	granted time.Time
	closed  time.Time // no grant before
	careful bool      // no call has succeeded since it was closed
}

// place is a worker's place in a queue.
type place struct {
	worker string
	due    time.Time // when the worker must ask again
}

// New returns an empty pool. The epoch is the prefix of grant ids, and must differ from the epochs of the owner's
// earlier pools. The director uses its run id.
func New(epoch string, l Limits) *Pool { return &Pool{epoch: epoch, limits: l.complete()} }

func (l Limits) complete() Limits {
	l.MaxConcurrent = max(l.MaxConcurrent, 1)
	if l.Lease <= 0 {
		l.Lease = DefaultLease
	}
	return l
}

// Limit replaces the limits for later grants. Existing leases stay.
func (p *Pool) Limit(l Limits) { p.limits = l.complete() }

// Own reports whether this pool has made a grant id.
func (p *Pool) Own(id string) bool {
	serial, own := strings.CutPrefix(id, p.epoch+".")
	return own && serial != "" && strings.Trim(serial, "0123456789") == ""
}

// Acquire asks for a lease. A waiting worker stays in the queue by asking again in time.
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

// obstacle returns the reason why a worker with this many others ahead has to wait, and the minimum wait. An empty
// reason means that it can have a lease.
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

// soon returns when to ask again for a held lease: after pollWait, or earlier if a lease expires.
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

// ahead counts the workers in the queue before a worker. If it is not in the queue, all of them count.
func (r *resource) ahead(worker string) int {
	if i := slices.IndexFunc(r.queue, func(w place) bool { return w.worker == worker }); i >= 0 {
		return i
	}
	return len(r.queue)
}
