package loop

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// The newest heartbeat of each worker waits. It keeps the usage that earlier heartbeats reported.
func TestSignsOfOneWorkerAreOne(t *testing.T) {
	s := newHeartbeats()
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			for i := range 10 {
				a := fsm.Activity{Stage: "CODE", Step: fmt.Sprint(i)}
				if i == 3 {
					a.Usage, a.ErrorID = &recovery.Usage{PaidCalls: 7}, "e1"
				}
				s.put(fsm.Sign{
					WorkerSeen: fsm.WorkerSeen{Worker: fmt.Sprintf("k%d-1", n), Activity: a},
					At:         time.Unix(int64(i), 0),
				})
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, n := range s.take() {
		if a := n.Activity; seen[n.Worker] || a.Step != "9" || a.ErrorID != "e1" || a.Usage == nil ||
			a.Usage.PaidCalls != 7 || n.At.Unix() != 9 {
			t.Fatalf("%+v, seen before: %v", n, seen[n.Worker])
		}
		seen[n.Worker] = true
	}
	if again := s.take(); len(seen) != 100 || len(again) != 0 {
		t.Errorf("%d workers were seen, and %d again", len(seen), len(again))
	}
}
