package loop_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/fsm"
)

// running returns a machine with one running worker, and the worker's id.
func running(t *testing.T, change ...func(*fsm.Config)) (m *fsm.Machine, worker string) {
	t.Helper()
	config := looptest.Config()
	for _, c := range change {
		c(&config)
	}
	m = fsm.New(config)
	step := func(body fsm.EventBody) (effects []fsm.Effect) {
		_, effects = m.Step(fsm.Event{At: time.Now(), Body: body})
		return effects
	}
	step(fsm.Booted{RunID: "test"})
	claim := step(looptest.Eligible(1))
	start := step(fsm.EffectEnded{Task: claim[0].Task, Effect: claim[0].ID, Claim: &fsm.ClaimResult{Ours: true}})
	worker = start[len(start)-1].Worker
	step(fsm.EffectEnded{Task: claim[0].Task, Effect: start[len(start)-1].ID})
	step(fsm.Hello{Worker: worker})
	if got, current := m.Worker(worker); !current || got.State != fsm.Running {
		t.Fatalf("%+v does not run", got)
	}
	return m, worker
}

// A heartbeat that arrived in time counts, even if the owner would have taken it only after the deadline.
func TestSignsThatWaitAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, worker := running(t)
		o := loop.New(fsm.NewDriver(m, 0, "test"), looptest.NewJournal(), zaptest.NewLogger(t))
		task, _ := m.Worker(worker)
		pass := func(d time.Duration) {
			for end := o.Clock.Now().Add(d); ; time.Sleep(time.Second) {
				if err := o.Offer(fsm.Tick{}); err != nil {
					t.Fatal(err)
				}
				if !o.Clock.Now().Before(end) {
					return
				}
			}
		}
		ttl := looptest.Config().HeartbeatTTL
		grace := 2 * ttl
		pass(grace - time.Second)
		time.Sleep(500 * time.Millisecond)
		pass(0)
		o.Seen(fsm.Sign{
			WorkerSeen: fsm.WorkerSeen{Worker: worker, Activity: fsm.Activity{Stage: "CODE"}},
			At:         o.Clock.Now(),
		})
		pass(ttl - time.Second)
		if a, at := task.Activity(); task.State != fsm.Running || a.Stage != "CODE" ||
			o.Clock.Now().Sub(at) != ttl-time.Second {
			t.Errorf("%s, %+v at %s: a queued sign of life did not count from its arrival", task.State, a,
				at)
		}
		pass(3 * time.Second) // longer than the TTL, because the owner took the heartbeat late
		if task.State != fsm.Suspect {
			t.Errorf("%s: the director does not notice the silence", task.State)
		}
	})
}

// A probe starts after the append of the worker's suspicion. If the append takes longer than the second deadline, the
// worker still gets its full time to answer.
func TestASlowAppendGivesUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		m, worker := running(t, func(c *fsm.Config) { c.HeartbeatTTL = ttl })
		journal, effects := looptest.NewJournal(), make(chan fsm.Effect, 16)
		o := loop.New(fsm.NewDriver(m, 0, "test"), journal, zaptest.NewLogger(t))
		o.Effects = func(e fsm.Effect) { effects <- e }
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		parts.Go(func() { _ = o.Run(ctx) })
		parts.Go(func() { _ = o.HandOver(ctx) })
		time.Sleep(3*ttl + 500*time.Millisecond) // the grace after the start, and the silence
		o.Send(ctx, fsm.ContainersListed{
			TakenAt: o.Clock.Now(), Containers: []fsm.Container{{Attempt: worker, Running: true}},
		}, nil)
		time.Sleep(ttl)
		for range 10 {
			journal.Answers <- nil
		}
		if e := <-effects; e.Kind != fsm.DoProbe {
			t.Errorf("the owner begins with %s", e.Kind)
		}
		time.Sleep(time.Second)
		state := func() fsm.State {
			s, err := loop.Look(ctx, o, func(d *fsm.Driver) fsm.State {
				return d.Machine().Task("acme/widgets#1").State
			})
			if err != nil {
				t.Error(err)
			}
			return s
		}
		if got := state(); got != fsm.Suspect {
			t.Errorf("%s, although the worker could not have answered", got)
		}
		o.Seen(fsm.Sign{WorkerSeen: fsm.WorkerSeen{Worker: worker}, At: o.Clock.Now()})
		time.Sleep(time.Second)
		if got := state(); got != fsm.Running {
			t.Errorf("%s after the answer", got)
		}
		cancel()
		parts.Wait()
	})
}

// Heartbeats do not wait for a deadline. The owner takes them soon, and views of the machine include them.
func TestSignsAreTakenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, worker := running(t)
		o := loop.New(fsm.NewDriver(m, 0, "test"), looptest.NewJournal(), zaptest.NewLogger(t))
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() { _ = o.Run(ctx) })
		both.Go(func() { _ = o.HandOver(ctx) })
		put := func(step string) {
			o.Seen(fsm.Sign{
				WorkerSeen: fsm.WorkerSeen{Worker: worker, Activity: fsm.Activity{Step: step}},
				At:         o.Clock.Now(),
			})
		}
		stepOf := func() string {
			step, err := loop.Look(ctx, o, func(d *fsm.Driver) string {
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
		time.Sleep(2 * loop.HeartbeatBatch)
		synctest.Wait()
		if n := o.TakeHeartbeats(); n != 0 {
			t.Errorf("%d heartbeats are still waiting", n)
		}
		if got := stepOf(); got != "two" {
			t.Errorf("taken: %q", got)
		}
		cancel()
		both.Wait()
	})
}
