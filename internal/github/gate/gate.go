package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Resources that a cooldown can close. GitHub's other budgets are called "github." and the name in its answers.
const (
	Read    = "github.read"
	Write   = "github.write"
	API     = "github.api" // every request, while GitHub does not answer
	GraphQL = "github.graphql"
)

// reserved ends the name of a resource that is closed to everything except escalations. The gate does not report it,
// because the next answer states it again.
const reserved = ".reserve"

// CutReserved returns the name of a resource, and whether it is closed only to keep a reserve for escalations.
func CutReserved(resource string) (name string, isReserve bool) {
	return strings.CutSuffix(resource, reserved)
}

// Cooldown is a deadline before which a resource is not used.
type Cooldown struct {
	Resource string
	Until    time.Time
	Why      string
}

// Refused is the error of a request for a closed resource.
type Refused struct{ Cooldown }

func (e *Refused) Error() string {
	return fmt.Sprintf("gate: %s: closed until %s: %s", e.Resource, e.Until.UTC().Format(time.RFC3339), e.Why)
}

// GitHub's documented secondary limits, per credential.
const (
	pointsPerMinute  = 900
	graphQLPerMinute = 2000
	pointsOfRead     = 1
	pointsOfWrite    = 5
	contentPerMinute = 80
	contentPerHour   = 500
)

// Progress edits leave part of the hour's changes to everything else, and everything else leaves a rest to escalations.
const (
	progressPerHour = 400
	contentReserve  = 20
)

const (
	// longestPacing is the longest wait inside the gate. A longer one is a cooldown.
	longestPacing = time.Minute
	// backoffLimit bounds waits that GitHub did not state.
	backoffLimit = 30 * time.Minute
)

// Lane orders requests that wait at the same time. Lower lanes go first.
type Lane int

// The lanes, most urgent first.
const (
	Escalation Lane = iota
	Claim
	Completion
	Reads
	Progress
	Lanes // number of lanes
)

// Request is one request at the gate. It must not be reused.
type Request struct {
	Lane    Lane
	Write   bool
	GraphQL bool
	Content int // things visible to people that it creates or edits

	ticket int
}

// Resource is Read or Write.
func (r *Request) Resource() string {
	if r.Write {
		return Write
	}
	return Read
}

// resources must all be open for the request.
func (r *Request) resources() []string {
	all := []string{API, r.Resource()}
	if r.GraphQL {
		all = append(all, GraphQL)
	}
	if r.Lane != Escalation {
		for _, name := range all {
			all = append(all, name+reserved)
		}
	}
	return all
}

func (r *Request) cost() int {
	if r.Write {
		return pointsOfWrite
	}
	return pointsOfRead
}

// Limit is a rate limit stated by an answer.
type Limit struct {
	Stated bool          // GitHub stated the duration; otherwise the gate backs off
	Wait   time.Duration // from now; only if stated
	Why    string
	// Resource is empty for a limit on all of REST, reads and writes.
	Resource string
	Reserve  bool // escalations may use the rest of the budget
}

// Result tells the gate how a request ended.
type Result struct {
	Limit   *Limit
	OK      bool   // the answer refused nothing
	Failure string // the reason for a missing answer, or empty
	GivenUp bool   // the caller stopped waiting for the answer
	Unsent  bool
}

// Options configure a Gate.
type Options struct {
	Between    time.Duration  // from the end of one write to the start of the next
	Concurrent int            // requests under way; at least 1
	Fallback   time.Duration  // first wait after a limit that states none; at least one second
	FirstProbe time.Duration  // first pause before GitHub is probed after an outage; default 4 seconds
	OnCooldown func(Cooldown) // called without locks, on the goroutine of the request; must not block
}

// Gate lets requests out. It is safe for concurrent use. Each waiting request re-examines the gate whenever changed is
// closed or its pause ends. Requests never wait for a particular other request.
type Gate struct {
	Options

	mu         sync.Mutex // guards everything below
	shut       map[string]Cooldown
	queue      []*Request // by lane, then by ticket
	tickets    int        // issued so far
	changed    chan struct{}
	inflight   int
	writing    bool
	wroteAt    time.Time // end of the last write
	limited    time.Time // when a limit without a stated wait was last met
	strikes    int       // such limits in a row
	points     window
	graphQL    window
	content    window // within an hour
	burst      window // content within a minute
	silence    silence
	unreported []Cooldown // reported once mu is released
}

// New returns an open gate whose first write waits for Options.Between.
func New(o Options) *Gate {
	o.Concurrent, o.Fallback = max(o.Concurrent, 1), max(o.Fallback, time.Second)
	if o.FirstProbe == 0 {
		o.FirstProbe = firstProbe
	}
	if o.OnCooldown == nil {
		o.OnCooldown = func(Cooldown) {}
	}
	return &Gate{
		Options: o, shut: map[string]Cooldown{}, changed: make(chan struct{}), wroteAt: time.Now(),
		points: window{span: time.Minute}, graphQL: window{span: time.Minute},
		content: window{span: time.Hour}, burst: window{span: time.Minute}, silence: silence{first: o.FirstProbe},
	}
}

// ticketKey is the key of the ticket in a context, the only thing that go-github passes through.
type ticketKey struct{}

// InOneGo gives all requests with this context the age of a request made now. An operation of several requests then
// finishes before the next one in its lane begins, instead of all finishing at the end.
func (g *Gate) InOneGo(ctx context.Context) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tickets++
	return context.WithValue(ctx, ticketKey{}, g.tickets)
}

// Enter waits for the turn of a request. It returns *Refused if a needed resource is closed, or the cause of the
// context's end. After nil the caller must call Leave exactly once.
func (g *Gate) Enter(ctx context.Context, r *Request) error {
	g.locked(func() { g.enqueue(ctx, r) })
	for {
		var done bool
		var wait time.Duration
		var err error
		var changed <-chan struct{}
		g.locked(func() {
			done, wait, err = g.turn(r, time.Now())
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
			g.locked(func() { g.dequeue(r) })
			return context.Cause(ctx)
		}
	}
}

func (g *Gate) enqueue(ctx context.Context, r *Request) {
	if r.ticket, _ = ctx.Value(ticketKey{}).(int); r.ticket == 0 {
		g.tickets++
		r.ticket = g.tickets
	}
	at := slices.IndexFunc(g.queue, func(o *Request) bool {
		return o.Lane > r.Lane || o.Lane == r.Lane && o.ticket > r.ticket
	})
	if at < 0 {
		at = len(g.queue)
	}
	g.queue = slices.Insert(g.queue, at, r)
}

// turn admits or refuses r if it can. Otherwise it returns how long r has to wait, or 0 or less if something else has
// to change first.
func (g *Gate) turn(r *Request, now time.Time) (done bool, wait time.Duration, err error) {
	if err = g.refusal(r, now); err == nil {
		err = g.overBudget(r, now)
	}
	if err != nil {
		g.dequeue(r)
		return true, 0, err
	}
	for _, o := range g.queue {
		wait, hold := g.waitFor(o, now)
		switch {
		case o == r && wait == 0 && !hold:
			g.dequeue(r)
			g.admit(r, now)
			return true, 0, nil
		case o == r:
			return false, wait, nil
		case hold || wait == 0:
			return false, 0, nil // its turn comes first
		}
	}
	return false, 0, nil
}

func (g *Gate) dequeue(r *Request) {
	g.queue = slices.DeleteFunc(g.queue, func(o *Request) bool { return o == r })
	g.notify()
}

// notify wakes every waiting request.
func (g *Gate) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// Leave ends the turn of a request that was sent at the given time. A limit closes the gate before any other request
// gets a turn. It returns the limit's deadline, or zero without a limit.
func (g *Gate) Leave(r *Request, sent time.Time, res Result) (until time.Time) {
	g.locked(func() {
		g.noteResult(r, sent, res)
		if res.Limit != nil {
			until = g.close(*res.Limit, sent)
		} else if res.OK {
			g.strikes = 0
		}
		g.inflight--
		if r.Write {
			g.writing = false
			g.wroteAt = time.Now()
		}
		g.notify()
	})
	return until
}

// locked runs f under the lock, then reports the cooldowns that it caused.
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

// overBudget refuses a request that would exceed our own hourly budget of changes for longer than a pause. For
// escalations the whole budget is used up, so every write is closed.
func (g *Gate) overBudget(r *Request, now time.Time) error {
	over := g.contentWait(r, now)
	if over <= longestPacing {
		return nil
	}
	c := Cooldown{Write, now.Add(over), fmt.Sprintf("own limit: %d changes within an hour", contentPerHour)}
	switch r.Lane {
	case Escalation:
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
	g.content.take(now, r.Content)
	g.burst.take(now, r.Content)
}

// blocked is the wait of a request that the end of another one will free.
const blocked = -1

// waitFor returns how long r has to wait: 0 for not at all, blocked until another request ends. With hold, no less
// urgent request may pass it.
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
	budget, limit := g.budgetOf(r)
	if wait = budget.wait(now, r.cost(), limit); wait > 0 {
		return wait, true
	}
	return 0, false
}

// budgetOf returns the window in which the request's points count, and its limit.
func (g *Gate) budgetOf(r *Request) (*window, int) {
	if r.GraphQL {
		return &g.graphQL, graphQLPerMinute
	}
	return &g.points, pointsPerMinute
}

// contentWait returns how long the limits on content creation delay r.
func (g *Gate) contentWait(r *Request, now time.Time) time.Duration {
	if r.Content == 0 {
		return 0
	}
	hourly := contentPerHour - contentReserve
	switch r.Lane {
	case Progress:
		hourly = progressPerHour
	case Escalation:
		hourly = contentPerHour
	}
	return max(g.content.wait(now, r.Content, hourly), g.burst.wait(now, r.Content, contentPerMinute))
}
