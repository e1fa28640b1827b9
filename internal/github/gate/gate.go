package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Options configure a Gate.
type Options struct {
	Between    time.Duration  // pause from the end of one write to the start of the next
	Concurrent int            // maximum number of concurrent requests; at least 1
	Fallback   time.Duration  // first wait after a limit if GitHub does not specify one; at least one second
	FirstProbe time.Duration  // pause from the beginning of an outage to the first probe; default 4 seconds
	OnCooldown func(Cooldown) // called without locks, in the goroutine of a request or timer; must not block
	// Owed returns the number of comments and pull requests that the claimed issues still need. Nil means 0. It must
	// not block, because the gate calls it while it holds its lock.
	Owed func() int
}

// Gate decides when requests may be sent. It is safe for concurrent use. Each change to its state, such as an answer or
// the end of a pause, calls settle, which admits or refuses waiting requests.
type Gate struct {
	Options

	mu         sync.Mutex // guards everything below
	shut       map[string]Cooldown
	lines      lines
	tickets    int         // number of tickets so far
	entered    int         // number of requests so far
	timer      *time.Timer // fires at the end of the shortest pause of a waiting request
	inflight   int
	writing    bool
	wroteAt    time.Time // end of the last write
	limited    time.Time // time of the last limit for which GitHub did not specify a wait
	strikes    int       // number of consecutive limits for which GitHub did not specify a wait
	points     window
	graphQL    window
	created    contentBudget // new content
	all        contentBudget // every change
	strict     time.Time     // until this time, every change counts as content
	silence    silence
	unreported []Cooldown // passed to OnCooldown after mu is released
}

// New returns an open gate. Its first write waits for Options.Between.
func New(o Options) *Gate {
	o.Concurrent, o.Fallback = max(o.Concurrent, 1), max(o.Fallback, time.Second)
	o.Between /= time.Hour / hour
	if o.FirstProbe == 0 {
		o.FirstProbe = firstProbe
	}
	if o.Owed == nil {
		o.Owed = func() int { return 0 }
	}
	if o.OnCooldown == nil {
		o.OnCooldown = func(Cooldown) {}
	}
	return &Gate{
		Options: o, shut: map[string]Cooldown{}, lines: lines{}, wroteAt: time.Now(),
		points: window{span: minute}, graphQL: window{span: minute},
		created: newContentBudget(), all: newContentBudget(), silence: silence{first: o.FirstProbe},
	}
}

// ticketKey is the key of the ticket in a context. go-github passes only the context on to its transport.
type ticketKey struct{}

// InOneGo gives all requests with the returned context the same age. An operation with several requests can then
// complete before the gate admits requests of later operations in its lane.
func (g *Gate) InOneGo(ctx context.Context) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	return context.WithValue(ctx, ticketKey{}, g.issue())
}

// Enter waits until the gate admits a request. It returns *Refused if a needed resource is closed, or the context's
// cause if the context ends. If it returns nil, the caller must call Leave exactly once, unless r is a part and Enter
// did not set r.Parts. In that case, another caller sends the part and calls Leave.
func (g *Gate) Enter(ctx context.Context, r *Request) (err error) {
	r.decided = make(chan error, 1)
	g.locked(func() {
		var held bool
		if r.ticket, held = ctx.Value(ticketKey{}).(ticket); !held {
			r.ticket = g.issue()
		}
		g.entered++
		r.due, r.entered, r.since = r.ticket.at.Add(delays[r.Lane]), g.entered, time.Now()
		g.lines.add(r)
		g.settle()
	})
	select {
	case err = <-r.decided:
		return err
	case <-ctx.Done():
	}
	g.locked(func() {
		if !g.lines.remove(r) {
			err = <-r.decided // the gate decided at the same moment
			return
		}
		err = context.Cause(ctx)
		g.settle()
	})
	return err
}

func (g *Gate) issue() ticket {
	g.tickets++
	return ticket{time.Now(), g.tickets}
}

// settle admits and refuses waiting requests. If the remaining requests wait for a pause, a timer calls settle again.
func (g *Gate) settle() {
	for {
		now, heads := time.Now(), g.lines.heads()
		refused := slices.ContainsFunc(heads, func(r *Request) bool { return g.refuse(r, now) })
		if !refused && !g.admitFirst(heads, now) {
			return
		}
	}
}

// refuse refuses all waiting requests of r's kind if a resource that they need is closed, or their budget is exhausted.
// Otherwise it returns false.
func (g *Gate) refuse(r *Request, now time.Time) bool {
	err := g.refusal(r, now)
	if err == nil {
		err = g.overBudget(r, now)
	}
	if err == nil {
		return false
	}
	for _, o := range g.lines.clear(r.kind()) {
		o.decided <- err
	}
	return true
}

// admitFirst admits the first request that may be sent now, and returns true. If all must wait, it sets the timer to
// the end of the shortest pause.
func (g *Gate) admitFirst(heads []*Request, now time.Time) bool {
	pause := time.Duration(0)
	for _, r := range heads {
		wait, hold := g.waitFor(r, now)
		if wait == 0 && !hold {
			g.lines.remove(r)
			g.admit(r, now)
			r.decided <- nil
			return true
		}
		if wait > 0 && (pause == 0 || wait < pause) {
			pause = wait
		}
		if hold {
			break // less urgent requests must not overtake this one
		}
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	if pause > 0 {
		g.timer = time.AfterFunc(pause, func() { g.locked(g.settle) })
	}
	return false
}

// Leave ends the turn of a request that was sent at the given time. If the result is a limit or a refused account,
// Leave closes the gate before it admits another request, and returns the deadline. Otherwise it returns zero.
func (g *Gate) Leave(r *Request, sent time.Time, res Result) (until time.Time) {
	g.locked(func() {
		g.noteResult(r, sent, res)
		switch {
		case res.Limit != nil:
			until = g.close(r, *res.Limit, sent)
		case res.Refused:
			until = g.shut[API].Until
		case res.OK:
			g.strikes = 0
		}
		g.inflight--
		if r.Write {
			g.writing = false
			g.wroteAt = time.Now()
		}
		g.settle()
	})
	return until
}

// locked runs f with the lock held, then releases it and calls OnCooldown for the cooldowns that f caused.
func (g *Gate) locked(f func()) {
	g.mu.Lock()
	f()
	unreported := g.unreported
	g.unreported = nil
	g.mu.Unlock()
	for _, c := range unreported {
		g.OnCooldown(c)
	}
}

// refusal returns *Refused with the latest deadline of the resources that r needs, or nil if all are open.
func (g *Gate) refusal(r *Request, now time.Time) error {
	var last Cooldown
	for _, name := range r.resources() {
		if c := g.shut[name]; c.Until.After(last.Until) {
			last = c
		}
	}
	if !now.Before(last.Until) {
		return nil
	}
	return &Refused{last}
}

// overBudget returns *Refused for a request that the limits on content would delay for longer than longestPacing. If
// that request is an escalation, the budget is exhausted, so overBudget closes all writes. If it is a claim, overBudget
// closes only claims, because claimed issues may use the rest of the budget.
func (g *Gate) overBudget(r *Request, now time.Time) error {
	over := g.contentWait(r, now)
	if over <= longestPacing {
		return nil
	}
	why := fmt.Sprintf("GitHub allows %d new comments and pull requests an hour", contentPerHour)
	c := Cooldown{Write, now.Add(over), why}
	switch r.Lane {
	case Escalation:
		g.shutUntil(c)
	case Claim:
		c.Resource = Claims
		g.shutUntil(c)
	case Progress:
	default:
		c.Resource += reserved
	}
	return &Refused{c}
}

func (g *Gate) admit(r *Request, now time.Time) {
	if g.silence.down() {
		g.silence.probe = r
	}
	g.inflight++
	g.writing = g.writing || r.Write
	budget, _ := g.budgetOf(r)
	budget.take(now, r.cost())
	g.takeContent(r, now)
	if r.Part != nil {
		g.gather(r, now)
	}
}

// blocked means that a write must wait until another write ends.
const blocked = -1

// waitFor returns how long r must wait, or blocked. If hold is true, r must wait even if wait is 0, and less urgent
// requests must not overtake it.
func (g *Gate) waitFor(r *Request, now time.Time) (wait time.Duration, hold bool) {
	if g.inflight >= g.Concurrent || g.silence.probe != nil {
		return 0, true
	}
	if r.Write {
		if g.writing {
			return blocked, false
		}
		wait = max(0, g.wroteAt.Add(g.Between).Sub(now))
	}
	if wait = max(wait, g.contentWait(r, now)); wait > 0 {
		return wait, false
	}
	if wait = g.minuteWait(r, now); wait > 0 {
		return wait, true
	}
	return 0, false
}

// budgetOf returns the window that counts the request's points, and the window's limit.
func (g *Gate) budgetOf(r *Request) (*window, int) {
	if r.GraphQL {
		return &g.graphQL, graphQLPerMinute
	}
	return &g.points, pointsPerMinute
}
