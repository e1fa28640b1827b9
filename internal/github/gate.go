package github

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Resources of the gate, as they appear in cooldowns.
const (
	ResourceRead  = "github.read"
	ResourceWrite = "github.write"
	ResourceAPI   = "github.api" // whatever is asked, while GitHub does not answer
	// ResourceGraphQL has a budget of its own. Others of GitHub's ("github.search") are called as its answers do.
	ResourceGraphQL = "github.graphql"
	// reserved is the end of what is shut for all but escalations. It is no cooldown: nobody is told, and the
	// next answer says so again.
	reserved = ".reserve"
)

// Cooldown is a deadline before which a resource is not used.
type Cooldown struct {
	Resource string // one of those above
	Until    time.Time
	Why      string
}

// GitHub's documented secondary limits, per credential.
const (
	pointsPerMinute  = 900
	graphQLPerMinute = 2000
	pointsOfRead     = 1
	pointsOfWrite    = 5
	contentPerMinute = 80
	contentPerHour   = 500
	leastBetween     = time.Second
)

// What is kept back: progress edits leave the rest of the hour to what people wait for, and everything leaves a
// rest to escalations, also of the requests of an hour (but no more than a share of a small budget).
const (
	progressPerHour = 400
	contentReserve  = 20
	requestReserve  = 100
	reserveShare    = 20
)

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

// longestPacing is the longest wait inside the gate; a longer one is a cooldown, and the caller gets an error.
const longestPacing = time.Minute

// gate lets requests out. All fields below mu belong to it; onCooldown is called without it.
type gate struct {
	between    time.Duration // from the end of one write to the start of the next
	concurrent int
	fallback   time.Duration // first wait of a limit that states none
	onCooldown func(Cooldown)

	mu         sync.Mutex
	shut       map[string]Cooldown
	queue      []*waiter     // by lane, then by ticket
	tickets    int           // given out
	changed    chan struct{} // closed, and made anew, when somebody who waits may get a turn
	inflight   int
	writing    bool
	wroteAt    time.Time // end of the last write
	limited    time.Time // when a limit without a stated wait was last met
	strikes    int       // such limits in a row
	points     window
	graphQL    window // points
	content    window // of an hour
	burst      window // content of a minute
	silence    silence
	unreported []Cooldown // to be reported after mu is released
}

func newGate(between time.Duration, concurrent int, fallback time.Duration, onCooldown func(Cooldown)) *gate {
	return &gate{
		between: between, concurrent: max(concurrent, 1), fallback: max(fallback, time.Second), onCooldown: onCooldown,
		shut: map[string]Cooldown{}, changed: make(chan struct{}), points: window{span: time.Minute},
		content: window{span: time.Hour},
		graphQL: window{span: time.Minute}, burst: window{span: time.Minute},
		silence: silence{first: firstProbe},
	}
}

// asIfJustWritten delays the first write: the process before this one may have written a moment ago, and a process that
// crashes again and again must not write faster than one that keeps running.
func (g *gate) asIfJustWritten() *gate {
	g.wroteAt = time.Now()
	return g
}

// waiter is one request at the gate.
type waiter struct {
	lane    lane
	ticket  int // 0: it gets the next one
	write   bool
	content int // so many things that people see are created or edited
	graphQL bool
}

// resources are those that have to be open for it.
func (w *waiter) resources() []string {
	all := []string{ResourceAPI, ResourceRead}
	if w.write {
		all[1] = ResourceWrite
	}
	if w.graphQL {
		all = append(all, ResourceGraphQL)
	}
	if w.lane != laneEscalation {
		for _, r := range all {
			all = append(all, r+reserved)
		}
	}
	return all
}

func (w *waiter) cost() int {
	if w.write {
		return pointsOfWrite
	}
	return pointsOfRead
}

// ticketKey is of the ticket in a context: go-github hands nothing else through.
type ticketKey struct{}

// inOneGo has all requests with this context wait as if they had come now: what needs several, one after the
// other, is finished before the next one of its lane is begun, and many that begin at once are not all finished
// at the end.
func (g *gate) inOneGo(ctx context.Context) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tickets++
	return context.WithValue(ctx, ticketKey{}, g.tickets)
}

// enter waits for the turn of w: each waiter looks for itself, whenever something has changed or its pause is
// over. After nil the caller must call leave exactly once.
func (g *gate) enter(ctx context.Context, w *waiter) error {
	g.locked(func() {
		if w.ticket == 0 {
			g.tickets++
			w.ticket = g.tickets
		}
		at := slices.IndexFunc(g.queue, func(o *waiter) bool {
			return o.lane > w.lane || o.lane == w.lane &&
				o.ticket > w.ticket
		})
		if at < 0 {
			at = len(g.queue)
		}
		g.queue = slices.Insert(g.queue, at, w)
	})
	for {
		var done bool
		var wait time.Duration
		var err error
		var changed <-chan struct{}
		g.locked(func() {
			done, wait, err = g.turn(w, time.Now())
			changed = g.changed
		})
		if done {
			return err
		}
		var paused <-chan time.Time
		if wait > 0 {
			paused = time.After(wait)
		}
		select {
		case <-changed:
		case <-paused:
		case <-ctx.Done():
			g.locked(func() { g.dequeue(w) })
			return cancelled(ctx)
		}
	}
}

// turn lets w go or refuses it, if it can. Otherwise it returns for how long w has to wait, 0 or less if
// something else has to change first. Nothing overtakes a request that waits for the points budget, so that
// cheap reads cannot starve an escalation.
func (g *gate) turn(w *waiter, now time.Time) (done bool, wait time.Duration, err error) {
	if err = g.refusal(w, now); err == nil {
		err = g.overBudget(w, now)
	}
	if err != nil {
		g.dequeue(w)
		return true, 0, err
	}
	for _, o := range g.queue {
		wait, hold := g.waitFor(o, now)
		switch {
		case o == w && wait == 0 && !hold:
			g.dequeue(w)
			g.admit(w, now)
			return true, 0, nil
		case o == w:
			return false, wait, nil
		case hold || wait == 0:
			return false, 0, nil // its turn comes first
		}
	}
	return false, 0, nil
}

func (g *gate) dequeue(w *waiter) {
	g.queue = slices.DeleteFunc(g.queue, func(o *waiter) bool { return o == w })
	g.notify()
}

// notify has everybody who waits look again.
func (g *gate) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// leave ends the turn of w, whose request was sent at the given time, and shuts what its answer says before
// anybody else gets a turn. It returns the deadline, zero if the answer was no limit.
func (g *gate) leave(w *waiter, sent time.Time, r result) (until time.Time) {
	g.locked(func() {
		g.noteResult(w, sent, r)
		if r.limit != nil {
			until = g.close(*r.limit, sent)
		} else if r.ok {
			g.strikes = 0
		}
		g.inflight--
		if w.write {
			g.writing = false
			g.wroteAt = time.Now()
		}
		g.notify()
	})
	return until
}

// locked runs f under the lock and reports the cooldowns that it caused afterwards.
func (g *gate) locked(f func()) {
	g.mu.Lock()
	f()
	unreported := g.unreported
	g.unreported = nil
	g.mu.Unlock()
	for _, c := range unreported {
		g.onCooldown(c)
	}
}

// close shuts what a limit is of. Answers to requests that were under way when a limit without a stated wait was met
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
	of := []string{ResourceRead, ResourceWrite}
	if l.resource != "" {
		of = []string{l.resource}
	}
	for _, r := range of {
		if l.reserve {
			g.extend(Cooldown{r + reserved, until, l.why})
		} else {
			g.shutUntil(Cooldown{r, until, l.why})
		}
	}
	return until
}

// extend sets a cooldown that is later than the one there is; it never shortens one.
func (g *gate) extend(c Cooldown) (extended bool) {
	if extended = c.Until.After(g.shut[c.Resource].Until); extended {
		g.shut[c.Resource] = c
	}
	return extended
}

// shutUntil extends a cooldown and has it reported.
func (g *gate) shutUntil(c Cooldown) {
	if g.extend(c) {
		g.unreported = append(g.unreported, c)
	}
}

// prime restores a cooldown without reporting it.
func (g *gate) prime(c Cooldown) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why, away := strings.CutPrefix(c.Why, silent)
	if now := time.Now(); g.extend(c) && away && c.Resource == ResourceAPI && now.Before(c.Until) {
		g.silence.prime(now, why)
	}
}

// lift opens a resource, and has those who wait look again. The next limit without a stated wait is a first one.
func (g *gate) lift(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, shut := g.shut[resource]; shut {
		delete(g.shut, resource)
		g.strikes = 0
		g.notify()
	}
}

// refusal is the error of a request that needs what is shut, nil if all of it is open. Of several deadlines the
// last is told.
func (g *gate) refusal(w *waiter, now time.Time) error {
	var last Cooldown
	for _, r := range w.resources() {
		if c := g.shut[r]; c.Until.After(last.Until) {
			last = c
		}
	}
	if !now.Before(last.Until) {
		return nil
	}
	return &Error{Kind: KindRateLimited, Resource: last.Resource, Until: last.Until, Message: last.Why}
}

// overBudget refuses a request that exceeds our own hourly budget by more than a pause. Of it something is kept from
// progress, and something from all but escalations: for these the whole budget is used up, and every write waits.
func (g *gate) overBudget(w *waiter, now time.Time) error {
	over := g.contentWait(w, now)
	if over <= longestPacing {
		return nil
	}
	c := Cooldown{ResourceWrite, now.Add(over), fmt.Sprintf("own limit: %d changes within an hour", contentPerHour)}
	switch w.lane {
	case laneEscalation:
		g.shutUntil(c)
	case laneProgress:
	default:
		c.Resource += reserved
	}
	return &Error{Kind: KindRateLimited, Resource: c.Resource, Until: c.Until, Message: c.Why}
}

func (g *gate) admit(w *waiter, now time.Time) {
	if g.silence.down() {
		g.silence.probe = w
	}
	g.inflight++
	g.writing = g.writing || w.write
	budget, _ := g.budgetOf(w)
	budget.take(now, w.cost())
	g.content.take(now, w.content)
	g.burst.take(now, w.content)
}

// blocked is the wait of a request that the end of another one will free.
const blocked = -1

// waitFor returns how long w has to wait: 0 not at all, blocked until another request ends. With hold no less
// urgent request may pass it.
func (g *gate) waitFor(w *waiter, now time.Time) (wait time.Duration, hold bool) {
	if g.inflight >= g.concurrent || g.silence.probe != nil {
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
	budget, most := g.budgetOf(w)
	if wait = budget.wait(now, w.cost(), most); wait > 0 {
		return wait, true
	}
	return 0, false
}

// budgetOf is the window that the request's points count in, and how many it has.
func (g *gate) budgetOf(w *waiter) (*window, int) {
	if w.graphQL {
		return &g.graphQL, graphQLPerMinute
	}
	return &g.points, pointsPerMinute
}

// contentWait is how long the limits of content creation hold w up.
func (g *gate) contentWait(w *waiter, now time.Time) time.Duration {
	if w.content == 0 {
		return 0
	}
	hourly := contentPerHour - contentReserve
	switch w.lane {
	case laneProgress:
		hourly = progressPerHour
	case laneEscalation:
		hourly = contentPerHour
	}
	return max(g.content.wait(now, w.content, hourly), g.burst.wait(now, w.content, contentPerMinute))
}

// window counts units over the last span.
type window struct {
	span    time.Duration
	used    int
	entries []passed
}

type passed struct {
	at time.Time
	n  int
}

// wait returns how long n more units have to wait to stay within limit; 0: they may pass now.
func (w *window) wait(now time.Time, n, limit int) time.Duration {
	w.forget(now)
	over := w.used + n - limit
	if over <= 0 {
		return 0
	}
	for _, e := range w.entries {
		if over -= e.n; over <= 0 {
			return e.at.Add(w.span).Sub(now)
		}
	}
	return w.span
}

func (w *window) take(now time.Time, n int) {
	if n == 0 {
		return
	}
	w.used += n
	w.entries = append(w.entries, passed{now, n})
}

func (w *window) forget(now time.Time) {
	i := 0
	for i < len(w.entries) && now.Sub(w.entries[i].at) >= w.span {
		w.used -= w.entries[i].n
		i++
	}
	w.entries = append(w.entries[:0], w.entries[i:]...)
}
