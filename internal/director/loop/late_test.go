package loop_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/fsm"
)

const lateTTL = 3 * time.Second

// silent is a running owner with one worker, which fell silent at the end of the initial grace.
type silent struct {
	*loop.Owner

	t       *testing.T
	journal *looptest.Journal
	worker  string
	since   time.Time    // when the silence began to count
	lost    atomic.Int64 // total throttled time, in nanoseconds
}

// whileSilent runs a test with a silent worker. The journal accepts each append at once. If slow is set, it accepts an
// append only when the test sends an answer.
func whileSilent(t *testing.T, slow bool, test func(s *silent)) {
	synctest.Test(t, func(t *testing.T) {
		m, worker := running(t, func(c *fsm.Config) { c.HeartbeatTTL = lateTTL })
		s := &silent{t: t, journal: looptest.NewJournal(), worker: worker}
		s.Owner = loop.New(fsm.NewDriver(m, 0, "test"), s.journal, zaptest.NewLogger(t))
		s.Throttled = func() (time.Duration, bool) { return time.Duration(s.lost.Load()), true }
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		parts.Go(func() { _ = s.Run(ctx) })
		parts.Go(func() { _ = s.HandOver(ctx) })
		answer := func() {
			for ctx.Err() == nil {
				select {
				case s.journal.Answers <- nil:
				case <-ctx.Done():
				}
			}
		}
		if !slow {
			parts.Go(answer)
		}
		time.Sleep(2*lateTTL + 100*time.Millisecond)
		s.Seen(fsm.Sign{WorkerSeen: fsm.WorkerSeen{Worker: worker}, At: s.Clock.Now()})
		s.since = time.Now()
		time.Sleep(100 * time.Millisecond)
		test(s)
		cancel()
		parts.Wait()
	})
}

// after waits until a time of silence, and returns the worker's state.
func (s *silent) after(silence time.Duration) fsm.State {
	s.t.Helper()
	time.Sleep(silence - time.Since(s.since))
	state, err := loop.Look(s.t.Context(), s.Owner, func(d *fsm.Driver) fsm.State {
		return d.Machine().Task("acme/widgets#1").State
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// A silent worker is noticed in time by a director that is on time.
func TestSilenceIsNoticedOnTime(t *testing.T) {
	whileSilent(t, false, func(s *silent) {
		if got := s.Late(); got != (loop.Lateness{}) {
			s.t.Errorf("%+v on an idle machine", got)
		}
		if got := s.after(lateTTL - time.Second); got != fsm.Running {
			s.t.Errorf("%s before the deadline", got)
		}
		if got := s.after(lateTTL + time.Second/2); got != fsm.Suspect {
			s.t.Errorf("%s after the deadline", got)
		}
	})
}

// While an append takes long, workers wait for their welcome and the director's facts. They get that much more time, so
// the director notices a truly silent worker later.
func TestASlowAppendGivesWorkersTime(t *testing.T) {
	whileSilent(t, true, func(s *silent) {
		s.Send(s.t.Context(), looptest.Eligible(2), nil) // its append takes two seconds
		time.Sleep(2 * time.Second)
		if got := s.Late(); got.By < 2*time.Second || got.Cause != loop.DelayJournal {
			s.t.Errorf("%+v during an append of two seconds", got)
		}
		for range 10 {
			s.journal.Answers <- nil
		}
		if got := s.after(lateTTL + time.Second); got != fsm.Running {
			s.t.Errorf("%s, although the director was late by two seconds", got)
		}
		if got := s.after(2*lateTTL + 3*time.Second); got != fsm.Suspect {
			s.t.Errorf("%s: the director does not notice a silent worker", got)
		}
		if got := s.Late(); got.By != 0 {
			s.t.Errorf("%+v long after the append", got)
		}
	})
}

// A process without processor time does not read heartbeats, and its timers may even be on time.
func TestAThrottledDirectorGivesWorkersTime(t *testing.T) {
	whileSilent(t, false, func(s *silent) {
		for range 10 {
			s.lost.Add(int64(180 * time.Millisecond))
			time.Sleep(200 * time.Millisecond)
		}
		if got := s.Late(); got.By < time.Second || got.By > 2*time.Second || got.Cause != loop.DelayThrottled {
			s.t.Errorf("%+v after two seconds with a tenth of the processor", got)
		}
		if got := s.after(lateTTL + 500*time.Millisecond); got != fsm.Running {
			s.t.Errorf("%s, although the director was throttled for more than a second", got)
		}
		if got := s.after(2*lateTTL + 3*time.Second); got != fsm.Suspect {
			s.t.Errorf("%s: the director does not notice a silent worker", got)
		}
	})
}

// A director that did not run for a while, too short for a gap, is late by that time.
func TestAShortSuspensionGivesWorkersTime(t *testing.T) {
	whileSilent(t, false, func(s *silent) {
		time.Sleep(1700 * time.Millisecond)
		_, _ = loop.Look(s.t.Context(), s.Owner, func(*fsm.Driver) bool {
			time.Sleep(1200 * time.Millisecond)
			return true
		})
		if got := s.after(lateTTL + 500*time.Millisecond); got != fsm.Running {
			s.t.Errorf("%s, although the director did not run for 1.2 s", got)
		}
		if got := s.Late(); got.By < 1200*time.Millisecond {
			s.t.Errorf("%+v after 1.2 s without a turn", got)
		}
		if got := s.after(2*lateTTL + 3*time.Second); got != fsm.Suspect {
			s.t.Errorf("%s: the director does not notice a silent worker", got)
		}
	})
}
