package director

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bench"
	"retake/internal/fsm"
	"retake/internal/patience"
)

// pace is the rate of the reports with a latency goal. inTurns is the number of concurrent senders at saturation.
// Each sends its next report when the previous one is durable.
const (
	pace    = time.Millisecond
	inTurns = 64
)

// latencyLimit explains a missed goal of the 99th percentile.
const latencyLimit = "a report is checked before it is stored and again when it is read, and waits for the append " +
	"that is under way when it is decided; " +
	"what is slowest meets the collector, which has a heap of 20,000 tasks to look through where the raw bus has " +
	"next to none"

// measureLatency measures the time from publishing a report until its decision is durable. For comparison, it
// measures the time from publishing a message until the append that answers it is durable.
func measureLatency(t *testing.T, bytes, tasks int, synced bool, what string) {
	t.Helper()
	x := newDecisionBench(t, bytes, tasks)
	b := x.open(synced)
	defer x.close(b)
	ours := newStopwatch()
	stop := x.run(x.session(b, func(records []fsm.Record) {
		for _, r := range records {
			for _, f := range r.Facts {
				if f, ok := f.(fsm.ReportAccepted); ok {
					n, _ := strconv.Atoi(f.Ref.ID[strings.LastIndexByte(f.Ref.ID, '/')+1:])
					ours.stop(n)
				}
			}
		}
	}))
	var encoding sync.Mutex
	send := func() (n int, publish func() error) {
		encoding.Lock()
		defer encoding.Unlock()
		n = x.sent
		worker, data := x.report(b)
		return n, func() error { return b.Reports().TakeSpooled(context.Background(), worker, data) }
	}
	paced, full := ours.atPace(t, 4_000, send), ours.inTurns(t, 8_000, send)
	stop()
	rawPaced, rawFull := rawLatency(t, synced, bytes)
	for _, p := range []struct {
		name string
		of   float64
		goal bench.Goal
	}{
		{"p50", 0.5, bench.Goal{}},
		{"p99", 0.99, bench.Goal{AtMost: 3, Ratio: true, Limit: latencyLimit}},
		{"p99.9", 0.999, bench.Goal{}},
	} {
		record := func(load string, all, raw []time.Duration, goal bench.Goal) {
			bench.Record(t, bench.Figure{
				Section: "decisions", What: what + ": published → durable, " + load + ", " + p.name,
				Value: quantile(all, p.of), Unit: "ms",
				Beside: quantile(raw, p.of), Of: "raw bus", Goal: goal,
			})
		}
		record("1,000/s", paced, rawPaced, p.goal)
		record(fmt.Sprintf("%d at once", inTurns), full, rawFull, bench.Goal{})
	}
}

// quantile returns a quantile of durations, in milliseconds.
func quantile(all []time.Duration, q float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return float64(all[int(q*float64(len(all)-1))]) / float64(time.Millisecond)
}

// stopwatch measures operations that begin and end in different goroutines, each identified by a number.
type stopwatch struct {
	mu    sync.Mutex
	began map[int]time.Time
	took  []time.Duration
	ended map[int]chan struct{}
}

func newStopwatch() *stopwatch {
	return &stopwatch{began: map[int]time.Time{}, ended: map[int]chan struct{}{}}
}

func (s *stopwatch) start(n int) (ended <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	s.began[n], s.ended[n] = time.Now(), c
	return c
}

func (s *stopwatch) stop(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.ended[n]; c != nil {
		s.took = append(s.took, time.Since(s.began[n]))
		close(c)
		delete(s.began, n)
		delete(s.ended, n)
	}
}

// measured returns the measured durations and forgets them.
func (s *stopwatch) measured() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.took
	s.took = nil
	return all
}

// one publishes message n and waits until its measurement has ended.
func (s *stopwatch) one(t *testing.T, n int, publish func() error) {
	ended := s.start(n)
	if err := publish(); err != nil {
		t.Error(err)
		return
	}
	select {
	case <-ended:
	case <-time.After(patience.For(30 * time.Second)):
		t.Errorf("message %d has not come through", n)
	}
}

// atPace publishes count messages, one per pace, without waiting for earlier ones.
func (s *stopwatch) atPace(t *testing.T, count int, next func() (int, func() error)) []time.Duration {
	var wg sync.WaitGroup
	began := time.Now()
	for i := range count {
		n, publish := next()
		time.Sleep(time.Until(began.Add(time.Duration(i) * pace)))
		wg.Go(func() { s.one(t, n, publish) })
	}
	wg.Wait()
	return s.measured()
}

// inTurns publishes count messages from inTurns concurrent senders.
func (s *stopwatch) inTurns(t *testing.T, count int, next func() (int, func() error)) []time.Duration {
	var wg sync.WaitGroup
	for range inTurns {
		wg.Go(func() {
			for range count / inTurns {
				n, publish := next()
				s.one(t, n, publish)
			}
		})
	}
	wg.Wait()
	return s.measured()
}

// rawLatency measures the same times for the raw server.
func rawLatency(t *testing.T, synced bool, bytes int) (paced, full []time.Duration) {
	t.Helper()
	ctx := t.Context()
	r := openRaw(t, t.TempDir(), synced)
	defer r.close()
	r.streams(t)
	watch := newStopwatch()
	var mu sync.Mutex
	numbers := map[uint64]int{} // by stream sequence; a message that is consumed before its number arrives waits
	known := sync.NewCond(&mu)
	consuming := r.pass(t, func(m jetstream.Msg, appended func() error) {
		if err := appended(); err != nil {
			t.Error(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		for numbers[meta.Sequence.Stream] == 0 {
			known.Wait()
		}
		n := numbers[meta.Sequence.Stream]
		mu.Unlock()
		watch.stop(n)
	})
	defer consuming()
	body, sent := make([]byte, bytes), 0
	next := func() (int, func() error) {
		mu.Lock()
		defer mu.Unlock()
		sent++
		n := sent
		return n, func() error {
			ack, err := r.js.Publish(ctx, "IN", body)
			if err == nil {
				mu.Lock()
				numbers[ack.Sequence] = n
				mu.Unlock()
				known.Broadcast()
			}
			return err
		}
	}
	return watch.atPace(t, 4_000, next), watch.inTurns(t, 8_000, next)
}
