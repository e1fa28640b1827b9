package loop

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"retake/internal/fsm"
)

// effectLog runs each effect for a second and records its start and end.
type effectLog struct {
	mu  sync.Mutex
	log []string
}

func (s *effectLog) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line)
}

func (s *effectLog) execute(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.note("begin " + e.ID)
	select {
	case <-time.After(time.Second):
		s.note("end " + e.ID)
	case <-ctx.Done():
		s.note("cut " + e.ID)
	}
	return fsm.EffectEnded{}
}

func (s *effectLog) runner(t *testing.T, ctx context.Context) *Runner {
	executors := map[fsm.EffectKind]Executor{}
	for _, k := range []fsm.EffectKind{
		fsm.DoClaim, fsm.DoStop, fsm.DoDeliver, fsm.DoProgress, fsm.DoProbe, fsm.DoFence,
	} {
		executors[k] = s.execute
	}
	return NewRunner(ctx, executors, func(e fsm.EffectEnded) { s.note("told " + e.Effect) },
		func() bool { return true }, zaptest.NewLogger(t))
}

func run(t *testing.T, script func(r *Runner), want ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var s effectLog
		r := s.runner(t, ctx)
		script(r)
		time.Sleep(10 * time.Second)
		cancel()
		r.Wait()
		if !slices.Equal(s.log, want) {
			t.Errorf("got  %q\nwant %q", s.log, want)
		}
	})
}

func TestDurableEffectsOfATaskRunInOrder(t *testing.T) {
	run(t, func(r *Runner) {
		r.Submit(fsm.Effect{ID: "1", Kind: fsm.DoClaim, Task: "a/b#1"})
		r.Submit(fsm.Effect{ID: "2", Kind: fsm.DoStop, Task: "a/b#1"})
	}, "begin 1", "end 1", "told 1", "begin 2", "end 2", "told 2")
}

func TestTasksDoNotWaitForEachOther(t *testing.T) {
	run(t, func(r *Runner) {
		r.Submit(fsm.Effect{ID: "1", Kind: fsm.DoClaim, Task: "a/b#1"})
		time.Sleep(500 * time.Millisecond)
		r.Submit(fsm.Effect{ID: "2", Kind: fsm.DoClaim, Task: "a/b#2"})
	}, "begin 1", "begin 2", "end 1", "told 1", "end 2", "told 2")
}

func TestSoftEffectUnderWayIsNotDoubled(t *testing.T) {
	run(t, func(r *Runner) {
		for range 3 {
			r.Submit(fsm.Effect{ID: "probe/x", Kind: fsm.DoProbe})
			time.Sleep(100 * time.Millisecond)
		}
	}, "begin probe/x", "end probe/x")
}

// Each report about a worker without an attempt gets its answer, even while an earlier report is being answered.
func TestAnswersToReportsRunSideBySide(t *testing.T) {
	run(t, func(r *Runner) {
		r.Submit(fsm.Effect{ID: "w/fence", Kind: fsm.DoFence, Unheard: 7})
		time.Sleep(time.Millisecond)
		r.Submit(fsm.Effect{ID: "w/fence", Kind: fsm.DoFence, Unheard: 8})
	}, "begin w/fence", "begin w/fence", "end w/fence", "end w/fence")
}

func TestNewestCommentWins(t *testing.T) {
	run(t, func(r *Runner) {
		for _, id := range []string{"running", "backoff", "again"} {
			r.Submit(fsm.Effect{ID: id, Kind: fsm.DoProgress, Task: "a/b#1"})
			time.Sleep(100 * time.Millisecond)
		}
	}, "begin running", "cut running", "begin backoff", "cut backoff", "begin again", "end again", "told again")
}

func TestDeliveryHasTheLastWordOnTheComment(t *testing.T) {
	run(t, func(r *Runner) {
		r.Submit(fsm.Effect{ID: "running", Kind: fsm.DoProgress, Task: "a/b#1"})
		time.Sleep(100 * time.Millisecond)
		r.Submit(fsm.Effect{ID: "d", Kind: fsm.DoDeliver, Task: "a/b#1"})
	}, "begin running", "cut running", "begin d", "end d", "told d")
}

func TestInterruptedEffectIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var s effectLog
		r := s.runner(t, ctx)
		r.Submit(fsm.Effect{ID: "1", Kind: fsm.DoClaim, Task: "a/b#1"})
		r.Submit(fsm.Effect{ID: "2", Kind: fsm.DoStop, Task: "a/b#1"})
		time.Sleep(100 * time.Millisecond)
		cancel()
		r.Wait()
		r.Submit(fsm.Effect{ID: "3", Kind: fsm.DoStop, Task: "a/b#1"})
		if want := []string{"begin 1", "cut 1"}; !slices.Equal(s.log, want) {
			t.Errorf("got %q, want %q", s.log, want)
		}
	})
}

// A late renewal can restore a lapsed lease within the same term. Effects and outcomes of the meantime are not lost.
func TestEffectsOutlastALapsedLease(t *testing.T) {
	run(t, func(r *Runner) {
		var leads atomic.Bool
		leads.Store(true)
		r.may = leads.Load
		r.Submit(fsm.Effect{ID: "1", Kind: fsm.DoClaim, Task: "a/b#1"})
		time.Sleep(500 * time.Millisecond)
		leads.Store(false)
		r.Submit(fsm.Effect{ID: "2", Kind: fsm.DoDeliver, Task: "a/b#1"})
		time.Sleep(2 * time.Second)
		r.Submit(fsm.Effect{ID: "3", Kind: fsm.DoStop, Task: "a/b#1"})
		leads.Store(true)
	}, "begin 1", "end 1", "told 1", "begin 2", "end 2", "told 2", "begin 3", "end 3", "told 3")
}

// Without the lease, effects do not start, and the outcomes of running effects wait. A new leader repeats them.
func TestNothingBeginsOutsideOfTheLease(t *testing.T) {
	run(t, func(r *Runner) {
		var leads atomic.Bool
		leads.Store(true)
		r.may = leads.Load
		r.Submit(fsm.Effect{ID: "1", Kind: fsm.DoClaim, Task: "a/b#1"})
		r.Submit(fsm.Effect{ID: "2", Kind: fsm.DoStop, Task: "a/b#1"}) // effect 1 ends when the lease is already lost
		time.Sleep(500 * time.Millisecond)
		leads.Store(false)
		r.Submit(fsm.Effect{ID: "3", Kind: fsm.DoClaim, Task: "a/b#2"})
		r.Submit(fsm.Effect{ID: "4", Kind: fsm.DoProbe, Task: "a/b#3"})
	}, "begin 1", "end 1")
}
