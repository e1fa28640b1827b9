package worker

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
	"retake/internal/secrets/redact"
)

// stepEvery is the minimum time between two published steps of an agent. More steps are unnecessary, because only
// people read them, and heartbeats also carry the newest step.
const stepEvery = 5 * time.Second

// agentMonitor turns the output of a running agent into steps, usage and rate limits. It reads the raw streams, because
// redaction can break their JSON, and redacts its own output instead.
type agentMonitor struct {
	mask    *redact.Redactor
	lease   *lease
	onStep  func(text string) // the newest step, at most every stepEvery
	onUsage func(agent.Usage) // receives the usage of this invocation so far

	wake       chan struct{} // holds one token while a step, usage or a limit waits for publish
	done       chan struct{} // closed when the agent has ended
	publishing sync.WaitGroup
	taps       map[string]*streamTap // by stream
	linger     *linger

	mu       sync.Mutex // guards the fields below, since two goroutines copy the streams
	out      agent.Outcome
	newStep  string           // newest step, until it is published
	newLimit *agent.RateLimit // newest limit, until it is reported
	newUsage bool             // usage has changed since it was last published
}

// start begins reading the streams listed in the agent's profile.
func (m *agentMonitor) start(ctx context.Context, a *wire.PlanAgent) error {
	m.wake, m.done, m.taps = make(chan struct{}, 1), make(chan struct{}), map[string]*streamTap{}
	m.linger, m.out.EndsWith = newLinger(duration(a.ExitSeconds, 0)), a.EndsWith
	for _, stream := range a.Streams {
		r, err := agent.NewReader(a.Format)
		if err != nil {
			return err
		}
		m.taps[stream] = &streamTap{m, r}
	}
	m.publishing.Go(func() { m.publish(ctx) })
	return nil
}

// tap returns the writer for a stream.
func (m *agentMonitor) tap(stream string) io.Writer {
	if t, ok := m.taps[stream]; ok {
		return t
	}
	return activity{m.linger}
}

// streamTap reads one stream.
type streamTap struct {
	monitor *agentMonitor
	reader  *agent.Reader
}

// Write never fails and never waits for the bus.
func (t *streamTap) Write(p []byte) (int, error) {
	t.monitor.record(t.reader.Write(p))
	t.monitor.linger.wrote(t)
	return len(p), nil
}

func (m *agentMonitor) record(events []agent.Event) {
	if len(events) == 0 {
		return
	}
	m.mu.Lock()
	for _, e := range events {
		m.out.Add(e)
		switch e := e.(type) {
		case agent.Progress:
			m.newStep = e.Step
		case agent.UsageReport:
			m.newUsage = true
		case agent.RateLimit:
			m.newLimit = &e
		case agent.Failure:
			if agent.IsLimitStatus(e.Status) && !e.Retryable { // retryable errors have separate events
				m.newLimit = &agent.RateLimit{Status: e.Status, RetryAfter: e.RetryAfter, Headers: e.Headers}
			}
		}
	}
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// close returns the agent's outcome after its streams have ended.
func (m *agentMonitor) close() agent.Outcome {
	for _, stream := range []string{"stdout", "stderr"} {
		if t, ok := m.taps[stream]; ok {
			m.record(t.reader.Close())
		}
	}
	close(m.done)
	m.publishing.Wait()
	out := m.out
	out.Denials = slices.Clone(out.Denials)
	return out
}

// publish sends usage and limits at once, and steps at most every stepEvery. It retries the report of a limit until it
// succeeds, so that the director learns of the limit while the agent is silently waiting.
func (m *agentMonitor) publish(ctx context.Context) {
	var last time.Time
	var later <-chan time.Time
	for over := false; !over; {
		select {
		case <-m.wake:
		case <-later:
			later = nil
		case <-m.done:
			over = true
		}
		m.mu.Lock()
		step, limit, usage, usageChanged := m.newStep, m.newLimit, m.out.Usage(), m.newUsage
		m.newLimit, m.newUsage = nil, false
		early := stepEvery - time.Since(last)
		if step != "" && early <= 0 {
			m.newStep, last = "", time.Now()
		}
		m.mu.Unlock()
		if usageChanged {
			m.onUsage(usage)
		}
		if limit != nil {
			if again := m.lease.report(ctx, *limit); again > 0 {
				later = time.After(again)
				m.mu.Lock()
				if m.newLimit == nil {
					m.newLimit = limit
				}
				m.mu.Unlock()
			}
		}
		switch {
		case step == "" || over:
		case early <= 0:
			m.onStep(m.mask.Text(step))
		case later == nil:
			later = time.After(early)
		}
	}
}
