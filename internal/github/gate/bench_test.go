package gate

import (
	"context"
	"testing"
	"time"
)

// BenchmarkManyWaiting measures the admission of writes while 3,000 requests wait.
func BenchmarkManyWaiting(b *testing.B) {
	const waiting, writes = 3000, 100 // below the limit on points per minute
	for b.Loop() {
		b.StopTimer()
		ctx, stop := context.WithCancel(context.Background())
		g := New(Options{Between: time.Nanosecond})
		first := &Request{Lane: Completion, Write: true, Changes: 1}
		if err := g.Enter(ctx, first); err != nil {
			b.Fatal(err)
		}
		turn, ended := make(chan *Request), make(chan struct{}, waiting)
		for range waiting {
			go func() {
				defer func() { ended <- struct{}{} }()
				r := &Request{Lane: Completion, Write: true, Changes: 1}
				if g.Enter(ctx, r) == nil {
					turn <- r
				}
			}()
		}
		for g.Pace().Waiting < waiting {
			time.Sleep(time.Millisecond)
		}
		r, began := first, time.Now()
		b.StartTimer()
		for range writes {
			g.Leave(r, time.Now(), Result{OK: true})
			r = <-turn
		}
		b.StopTimer()
		b.ReportMetric(float64(time.Since(began).Microseconds())/writes, "µs/write")
		stop()
		g.Leave(r, time.Now(), Result{OK: true})
		for n := 0; n < waiting; {
			select {
			case <-ended:
				n++
			case r := <-turn:
				g.Leave(r, time.Now(), Result{OK: true})
			}
		}
		b.StartTimer()
	}
}
