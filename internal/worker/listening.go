package worker

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"retake/internal/agent"
	"retake/internal/budget"
	"retake/internal/bus/wire"
)

// stepEvery is the least time between two steps of an agent that are sent on: people read them, and heartbeats carry the
// newest one anyway.
const stepEvery = 5 * time.Second

// listening turns what an agent prints into steps, usage and word of limits while it runs. The streams are read unmasked,
// as a mask may break their JSON; what leaves here is masked.
type listening struct {
	mask  *masker
	lease *lease
	step  func(text string)     // the newest step, at most every stepEvery
	spent func(agent.Usage)     // so far, in this invocation
	wake  chan struct{}         // one token: there is something to send
	done  chan struct{}         // closed: the agent has ended
	ended sync.WaitGroup        // of speak
	taps  map[string]*streamTap // by stream
	mu    sync.Mutex            // guards what follows: the two streams are copied by two goroutines
	out   agent.Outcome         //
	said  string                // the newest step; empty: it was sent
	limit *agent.RateLimited    // the newest word of a limit; nil: it was sent
	used  bool                  // usage changed since it was told
}

// listen begins to listen to an agent, on the streams that its profile names.
func listen(ctx context.Context, a *wire.PlanAgent, l *listening) (*listening, error) {
	l.wake, l.done, l.taps = make(chan struct{}, 1), make(chan struct{}), map[string]*streamTap{}
	for _, stream := range a.Streams {
		r, err := agent.NewReader(a.Format)
		if err != nil {
			return nil, err
		}
		l.taps[stream] = &streamTap{l, r}
	}
	l.ended.Go(func() { l.speak(ctx) })
	return l, nil
}

// tap is where a stream's bytes go; nil: it is not listened to.
func (l *listening) tap(stream string) io.Writer {
	if t, ok := l.taps[stream]; ok {
		return t
	}
	return nil
}

// streamTap is one stream's way in.
type streamTap struct {
	to     *listening
	reader *agent.Reader
}

// Write never fails, and never waits for the bus.
func (t *streamTap) Write(p []byte) (int, error) {
	t.to.take(t.reader.Write(p))
	return len(p), nil
}

func (l *listening) take(events []agent.Event) {
	if len(events) == 0 {
		return
	}
	l.mu.Lock()
	for _, e := range events {
		l.out.Add(e)
		switch e := e.(type) {
		case agent.Progress:
			l.said = e.Step
		case agent.Used:
			l.used = true
		case agent.RateLimited:
			l.limit = &e
		case agent.Failed:
			if agent.Limits(e.Status) && !e.Retryable { // a retryable one comes with a word of its own
				l.limit = &agent.RateLimited{Status: e.Status, RetryAfter: e.RetryAfter, Headers: e.Headers}
			}
		}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// end ends listening and says what was heard. The streams have ended.
func (l *listening) end() agent.Outcome {
	for _, stream := range []string{"stdout", "stderr"} {
		if t, ok := l.taps[stream]; ok {
			l.take(t.reader.Close())
		}
	}
	close(l.done)
	l.ended.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.out
	out.Denied = slices.Clone(out.Denied)
	return out
}

// speak sends on what was heard: limits at once, steps now and then.
func (l *listening) speak(ctx context.Context) {
	var last time.Time
	var later <-chan time.Time
	for over := false; !over; {
		select {
		case <-l.wake:
		case <-later:
			later = nil
		case <-l.done:
			over = true
		}
		l.tellUsage()
		if again := l.tellLimit(ctx, over); again > 0 {
			later = time.After(again)
		}
		l.mu.Lock()
		text := l.said
		wait := stepEvery - time.Since(last)
		if text != "" && (wait <= 0 || last.IsZero()) {
			l.said, last = "", time.Now()
		} else if text != "" {
			if later == nil {
				later = time.After(wait)
			}
			text = ""
		}
		l.mu.Unlock()
		if text != "" && !over {
			l.step(l.mask.text(text))
		}
	}
}

func (l *listening) tellUsage() {
	l.mu.Lock()
	changed, u := l.used, l.out.Usage()
	l.used = false
	l.mu.Unlock()
	if changed {
		l.spent(u)
	}
}

// tellLimit reports the newest limit to the shared guard, so that it knows while the agent goes on trying in silence. If
// the guard cannot take it now it returns after how long to try again.
func (l *listening) tellLimit(ctx context.Context, over bool) time.Duration {
	l.mu.Lock()
	limit := l.limit
	l.mu.Unlock()
	if limit == nil {
		return 0
	}
	wait := l.lease.report(ctx, *limit)
	if wait > 0 && !over {
		return wait
	}
	l.mu.Lock()
	if l.limit == limit {
		l.limit = nil
	}
	l.mu.Unlock()
	return 0
}

// lease is an agent's own lease on its model. It paces the starts of agents: it is held until it expires or the agent
// ends, not for as long as an agent may work. A nil lease is none.
type lease struct {
	broker   *broker
	resource string

	mu    sync.Mutex
	grant string
	until time.Time
}

// maxCooldown is the longest cooldown that a stage waits out by itself. For a longer one the attempt ends, so that the
// director waits instead, with a slot free for another task.
const maxCooldown = 5 * time.Minute

// take asks once.
func (l *lease) take(ctx context.Context) wire.BudgetGrant {
	g := l.broker.acquire(ctx, l.resource)
	if g.GrantID != "" {
		l.mu.Lock()
		l.grant, l.until = g.GrantID, time.Now().Add(seconds(g.LeaseSeconds, budget.DefaultLease))
		l.mu.Unlock()
	}
	return g
}

// report says that the provider limits. 0: said, or known already; else try again after so long: reporting needs a lease,
// and the agent's own has expired while others hold theirs.
func (l *lease) report(ctx context.Context, r agent.RateLimited) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	grant, live := l.grant, l.grant != "" && time.Now().Before(l.until)
	l.mu.Unlock()
	if !live {
		g := l.broker.acquire(ctx, l.resource)
		switch {
		case g.GrantID != "":
			grant = g.GrantID
			defer l.broker.release(ctx, grant)
		case g.Why == budget.WhyCooldown:
			return 0
		default:
			return max(seconds(g.WaitSeconds, time.Second), time.Second)
		}
	}
	said := wire.BudgetReport{GrantID: grant, Status: string(budget.Failed), Headers: r.Headers}
	if r.Status == 429 || r.Status == 0 {
		said.Status = string(budget.RateLimited)
	}
	if r.RetryAfter > 0 {
		s := r.RetryAfter.Seconds()
		said.RetryAfterSeconds = &s
	}
	l.broker.report(ctx, said)
	return 0
}

// end gives it back.
func (l *lease) end(ctx context.Context) {
	if l == nil {
		return
	}
	l.mu.Lock()
	grant := l.grant
	l.grant = ""
	l.mu.Unlock()
	if grant != "" {
		l.broker.release(ctx, grant)
	}
}
