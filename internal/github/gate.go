package github

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Resources of the gate, as they appear in cooldowns.
const (
	ResourceRead  = "github.read"
	ResourceWrite = "github.write"
)

// Cooldown is a deadline before which a resource is not used.
type Cooldown struct {
	Resource string // ResourceRead or ResourceWrite
	Until    time.Time
	Why      string
}

// lane orders requests that wait at the same time: smaller goes first.
type lane int

const (
	laneEscalation lane = iota
	laneClaim
	laneCompletion
	laneReads
	laneProgress
	laneCount
)

// patience is the longest wait that is pacing; a longer one is a cooldown that callers are told of.
const patience = time.Minute

// gate lets requests out. All fields below mu belong to it; onCooldown is called without it.
type gate struct {
	between    time.Duration // from the end of one write to the start of the next
	concurrent int
	fallback   time.Duration // first wait of a limit that states none
	onCooldown func(Cooldown)

	mu       sync.Mutex
	shut     map[string]Cooldown
	queue    [laneCount][]*waiter
	inflight int
	writing  bool
	wroteAt  time.Time // end of the last write
	limited  time.Time // when a limit without a stated wait was last met
	strikes  int       // such limits in a row
	points   window
	contentM window
	contentH window
	wake     *time.Timer
	news     []Cooldown // to be reported after mu is released
}

func newGate(between time.Duration, concurrent int, fallback time.Duration, onCooldown func(Cooldown)) *gate {
	if between == 0 {
		between = defaultBetween
	}
	if concurrent <= 0 {
		concurrent = defaultConcurrent
	}
	if fallback <= 0 {
		fallback = defaultCooldown
	}
	if onCooldown == nil {
		onCooldown = func(Cooldown) {}
	}
	return &gate{
		between: max(between, leastBetween), concurrent: concurrent, fallback: fallback, onCooldown: onCooldown,
		shut:   map[string]Cooldown{},
		points: window{span: time.Minute}, contentM: window{span: time.Minute}, contentH: window{span: time.Hour},
	}
}

// asIfJustWritten makes the first write wait its turn: the process before this one may have written a moment ago, and one
// that crashes again and again must not write faster than one that lives.
func (g *gate) asIfJustWritten() *gate {
	g.wroteAt = time.Now()
	return g
}

// waiter is one request in the queue. granted carries nil when it may leave, or the reason why it may not.
type waiter struct {
	lane    lane
	write   bool
	content bool // creates or edits something that people see
	granted chan error
}

func (w *waiter) resource() string {
	if w.write {
		return ResourceWrite
	}
	return ResourceRead
}

func (w *waiter) cost() int {
	if w.write {
		return pointsOfWrite
	}
	return pointsOfRead
}

// enter waits for the turn of w. After nil the caller must call leave exactly once.
func (g *gate) enter(ctx context.Context, w *waiter) error {
	w.granted = make(chan error, 1)
	g.locked(func() {
		g.queue[w.lane] = append(g.queue[w.lane], w)
		g.pump()
	})
	select {
	case err := <-w.granted:
		return err
	case <-ctx.Done():
	}
	g.locked(func() {
		if i := slices.Index(g.queue[w.lane], w); i >= 0 {
			g.queue[w.lane] = slices.Delete(g.queue[w.lane], i, i+1)
		} else if err := <-w.granted; err == nil {
			g.release(w)
		}
		g.pump()
	})
	return cancelled(ctx)
}

// leave ends the turn of w, whose request was sent at the given time, and shuts what its answer says before anybody else
// gets a turn. It returns the deadline, zero if the answer was no limit.
func (g *gate) leave(w *waiter, sent time.Time, l *limit, ok bool) (until time.Time) {
	g.locked(func() {
		if l != nil {
			until = g.close(*l, sent)
		} else if ok {
			g.strikes = 0
		}
		g.release(w)
		g.pump()
	})
	return until
}

func (g *gate) release(w *waiter) {
	g.inflight--
	if w.write {
		g.writing = false
		g.wroteAt = time.Now()
	}
}

// locked runs f under the lock and reports the cooldowns that it caused afterwards.
func (g *gate) locked(f func()) {
	g.mu.Lock()
	f()
	news := g.news
	g.news = nil
	g.mu.Unlock()
	for _, c := range news {
		g.onCooldown(c)
	}
}

// close shuts both resources. Answers to requests that were under way when a limit without a stated wait was met
// do not count as further strikes.
func (g *gate) close(l limit, sent time.Time) time.Time {
	now := time.Now()
	wait := l.wait
	if !l.stated {
		if sent.After(g.limited) || g.strikes == 0 {
			g.strikes++
			g.limited = now
		}
		wait = min(g.fallback<<min(g.strikes-1, 10), max(backoffLimit, g.fallback))
	}
	until := now.Add(wait)
	g.shutUntil(Cooldown{ResourceRead, until, l.why})
	g.shutUntil(Cooldown{ResourceWrite, until, l.why})
	return until
}

// shutUntil extends a cooldown; it never shortens one.
func (g *gate) shutUntil(c Cooldown) {
	if !c.Until.After(g.shut[c.Resource].Until) {
		return
	}
	g.shut[c.Resource] = c
	g.news = append(g.news, c)
}

// prime restores a cooldown without reporting it.
func (g *gate) prime(c Cooldown) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.Until.After(g.shut[c.Resource].Until) {
		g.shut[c.Resource] = c
	}
}

// refusal is the error of a resource that is shut, nil if it is open.
func (g *gate) refusal(resource string, now time.Time) error {
	c := g.shut[resource]
	if !now.Before(c.Until) {
		return nil
	}
	return &Error{Kind: KindRateLimited, Resource: resource, Until: c.Until, Message: c.Why}
}

// pump grants every turn that can be granted now and arranges to be called again when the next one can.
func (g *gate) pump() {
	now := time.Now()
	var next time.Duration
	for again := true; again; {
		again, next = g.grantOne(now)
	}
	if g.wake != nil {
		g.wake.Stop()
	}
	if next > 0 {
		g.wake = time.AfterFunc(next, func() { g.locked(g.pump) })
	}
}

// grantOne lets the most urgent request that may leave now go. Nothing overtakes a request that waits for the
// points budget, so that cheap reads cannot starve an escalation.
func (g *gate) grantOne(now time.Time) (granted bool, next time.Duration) {
	g.refuseShut(now)
	for l := range g.queue {
		for i, w := range g.queue[l] {
			if over := g.contentWait(w, now); over > patience {
				g.overBudget(w, now.Add(over))
				return true, 0 // look again: the queue has changed
			}
			wait, hold := g.waitFor(w, now)
			switch {
			case wait == 0 && !hold:
				g.queue[l] = slices.Delete(g.queue[l], i, i+1)
				g.admit(w, now)
				return true, 0
			case hold:
				return false, wait
			}
			if wait > 0 && (next == 0 || wait < next) {
				next = wait
			}
		}
	}
	return false, next
}

// refuseShut answers everybody who waits for a resource that is shut.
func (g *gate) refuseShut(now time.Time) {
	for l := range g.queue {
		g.queue[l] = slices.DeleteFunc(g.queue[l], func(w *waiter) bool {
			err := g.refusal(w.resource(), now)
			if err != nil {
				w.granted <- err
			}
			return err != nil
		})
	}
}

// overBudget answers a request that our own hourly budget holds up. Progress has a share only, so it alone is refused;
// for anything else the budget is spent, and every write waits.
func (g *gate) overBudget(w *waiter, until time.Time) {
	c := Cooldown{ResourceWrite, until, fmt.Sprintf("own limit: %d changes within an hour", contentPerHour)}
	if w.lane != laneProgress {
		g.shutUntil(c)
		return
	}
	g.queue[w.lane] = slices.DeleteFunc(g.queue[w.lane], func(o *waiter) bool { return o == w })
	w.granted <- &Error{Kind: KindRateLimited, Resource: c.Resource, Until: until, Message: c.Why}
}

func (g *gate) admit(w *waiter, now time.Time) {
	g.inflight++
	g.writing = g.writing || w.write
	g.points.take(now, w.cost())
	if w.content {
		g.contentM.take(now, 1)
		g.contentH.take(now, 1)
	}
	w.granted <- nil
}

// blocked is the wait of a request that the end of another one will free.
const blocked = -1

// waitFor tells how long w has to wait: 0 not at all, blocked until another request ends. hold: nobody less urgent may pass.
func (g *gate) waitFor(w *waiter, now time.Time) (wait time.Duration, hold bool) {
	if g.inflight >= g.concurrent {
		return 0, true
	}
	if w.write {
		if g.writing {
			return blocked, false
		}
		if !g.wroteAt.IsZero() {
			wait = max(0, g.wroteAt.Add(g.between).Sub(now))
		}
	}
	if wait = max(wait, g.contentWait(w, now)); wait > 0 {
		return wait, false
	}
	if wait = g.points.wait(now, w.cost(), pointsPerMinute); wait > 0 {
		return wait, true
	}
	return 0, false
}

// contentWait is how long the limits of content creation hold w up.
func (g *gate) contentWait(w *waiter, now time.Time) time.Duration {
	if !w.content {
		return 0
	}
	hourly := contentPerHour
	if w.lane == laneProgress {
		hourly = progressPerHour
	}
	return max(g.contentM.wait(now, 1, contentPerMinute), g.contentH.wait(now, 1, hourly))
}
