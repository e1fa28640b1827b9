package director

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// running is a machine with one running worker, and the worker's id.
func running(t *testing.T) (m *fsm.Machine, worker string) {
	t.Helper()
	m = fsm.New(testConfig())
	step := func(body fsm.EventBody) (effects []fsm.Effect) {
		_, effects = m.Step(fsm.Event{At: time.Now(), Body: body})
		return effects
	}
	step(fsm.Booted{RunID: "test"})
	claim := step(eligible(1))
	start := step(fsm.EffectEnded{Task: claim[0].Task, Effect: claim[0].ID, Claim: &fsm.ClaimResult{Ours: true}})
	worker = start[len(start)-1].Worker
	step(fsm.EffectEnded{Task: claim[0].Task, Effect: start[len(start)-1].ID})
	step(fsm.Hello{Worker: worker})
	if got, current := m.Worker(worker); !current || got.State != fsm.Running {
		t.Fatalf("%+v does not run", got)
	}
	return m, worker
}

// A heartbeat that came in time counts, although the owner would have been asked to take it only after the deadline.
func TestSignsThatWaitAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, worker := running(t)
		o := newOwner(fsm.NewDriver(m, 0, "test"), &fakeJournal{}, zaptest.NewLogger(t))
		task, _ := m.Worker(worker)
		pass := func(d time.Duration) {
			for range d / time.Second {
				time.Sleep(time.Second)
				if err := o.handle(input{body: fsm.Tick{}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		ttl := testConfig().HeartbeatTTL
		grace := 2 * ttl
		pass(grace - time.Second)
		time.Sleep(500 * time.Millisecond)
		o.signs.put(fsm.Sign{
			WorkerSeen: fsm.WorkerSeen{Worker: worker, Activity: fsm.Activity{Stage: "CODE"}},
			At:         o.clock.peek(),
		})
		pass(ttl - time.Second)
		if a, at := task.Activity(); task.State != fsm.Running || a.Stage != "CODE" ||
			o.clock.peek().Sub(at) != ttl-time.Second {
			t.Errorf("%s, %+v at %s: a sign of life that waited did not count, or not from when it came", task.State, a,
				at)
		}
		pass(2 * time.Second)
		if task.State != fsm.Suspect {
			t.Errorf("%s: silence is not seen", task.State)
		}
	})
}

// Nobody has to wait for a deadline: what is put in is taken soon, and what is shown of the machine has it.
func TestSignsAreTakenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, worker := running(t)
		o := newOwner(fsm.NewDriver(m, 0, "test"), &fakeJournal{}, zaptest.NewLogger(t))
		o.effects = func(fsm.Effect) {}
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() { _ = o.run(ctx) })
		both.Go(func() { _ = o.handOver(ctx) })
		put := func(step string) {
			o.signs.put(fsm.Sign{
				WorkerSeen: fsm.WorkerSeen{Worker: worker, Activity: fsm.Activity{Step: step}},
				At:         o.clock.peek(),
			})
		}
		stepOf := func() string {
			step, err := look(ctx, o, func(d *fsm.Driver) string {
				task, _ := d.Machine().Worker(worker)
				a, _ := task.Activity()
				return a.Step
			})
			if err != nil {
				t.Fatal(err)
			}
			return step
		}
		put("one")
		if got := stepOf(); got != "one" {
			t.Errorf("shown at once: %q", got)
		}
		put("two")
		time.Sleep(2 * signsTogether)
		synctest.Wait()
		if n := len(o.signs.take()); n != 0 {
			t.Errorf("%d signs of life wait still", n)
		}
		if got := stepOf(); got != "two" {
			t.Errorf("taken: %q", got)
		}
		cancel()
		both.Wait()
	})
}

// Of each worker the newest waits; what it has used is not forgotten with what is not the newest any more.
func TestSignsOfOneWorkerAreOne(t *testing.T) {
	s := newSigns()
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
