package director

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"retake/internal/bus"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// fakeJournal is a journal that answers when it is told to.
type fakeJournal struct {
	mu      sync.Mutex
	seq     uint64
	answers chan error // one for each append
}

func (p *fakeJournal) Append(ctx context.Context, _ string, after uint64, _ []byte) (uint64, error) {
	select {
	case err := <-p.answers:
		if err != nil {
			return 0, err
		}
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if after != p.seq {
		return 0, bus.ErrRefused
	}
	p.seq++
	return p.seq, nil
}

func (p *fakeJournal) Head() bus.Head {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bus.Head{Seq: p.seq}
}

func testConfig() fsm.Config {
	policy, err := policy.Preset("director")
	if err != nil {
		panic(err)
	}
	return fsm.Config{
		MaxWorkers: 2, HeartbeatTTL: 90 * time.Second, Watchdog: time.Hour, StartTimeout: time.Minute,
		StopGrace: time.Second,
		Policy:    policy,
		Classify:  func(e recovery.Evidence) recovery.Finding { return recovery.Finding{Reason: e.Known} },
		Retry:     recovery.DefaultBackoff,
	}
}

// ownerHarness is an owner with a fakeJournal, and what it let out.
type ownerHarness struct {
	*owner
	fakeJournal *fakeJournal
	effects     chan fsm.Effect
	ended       chan error
}

func newOwnerHarness(t *testing.T, ctx context.Context) *ownerHarness {
	b := &ownerHarness{
		fakeJournal: &fakeJournal{answers: make(chan error, 16)}, effects: make(chan fsm.Effect, 16),
		ended: make(chan error, 1),
	}
	m := fsm.New(testConfig())
	m.Step(fsm.Event{At: time.Now(), Body: fsm.Booted{RunID: "test"}}) // before it has begun, it decides nothing
	b.owner = newOwner(fsm.NewDriver(m, 0, "test"), b.fakeJournal, zaptest.NewLogger(t))
	b.owner.effects = func(e fsm.Effect) { b.effects <- e }
	b.onDurable = func(fsm.Record) {}
	go func() { b.ended <- b.run(ctx) }()
	return b
}

func eligible(n int) fsm.IssuesSeen {
	return fsm.IssuesSeen{Repo: "acme/widgets", Issues: []fsm.IssueView{{
		Key: fsm.IssueKey(fmt.Sprintf("acme/widgets#%d", n)), Open: true, Labels: []fsm.Label{fsm.LabelTask},
		Nonce: newNonce(),
	}}}
}

func TestAcksAndEffectsWaitForTheAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newOwnerHarness(t, ctx)
		acked := make(chan struct{})
		b.send(ctx, eligible(1), func() { close(acked) })
		synctest.Wait()
		select {
		case <-acked:
			t.Error("acknowledged before the append")
		case e := <-b.effects:
			t.Errorf("%s before the append", e.ID)
		default:
		}
		b.fakeJournal.answers <- nil
		<-acked
		if e := <-b.effects; e.Kind != fsm.DoClaim {
			t.Errorf("got %s, want a claim", e.Kind)
		}
		b.fakeJournal.answers <- nil // the signal's own record
		cancel()
		if err := <-b.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestJournalThatRefusesEndsTheOwner(t *testing.T) {
	for _, c := range []struct{ answer, want error }{
		{bus.ErrRefused, ErrAnotherDirector},
		{bus.ErrUnsure, errReload},
		{errors.New("disk"), errReload},
	} {
		t.Run(c.answer.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newOwnerHarness(t, t.Context())
				b.send(t.Context(), eligible(1), func() { t.Error("acknowledged, though nothing was appended") })
				b.fakeJournal.answers <- c.answer
				if err := <-b.ended; !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				select {
				case e := <-b.effects:
					t.Errorf("%s was let out, though its fact is not in the journal", e.ID)
				default:
				}
				b.send(t.Context(), eligible(2), nil) // must not block for ever
				if _, err := look(t.Context(), b.owner, (*fsm.Driver).Idle); !errors.Is(err, errReload) {
					t.Errorf("read after the end: got %v, want %v", err, errReload)
				}
			})
		})
	}
}

func TestEndWaitsForTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := newOwnerHarness(t, ctx)
		acked := false
		b.send(ctx, eligible(1), func() { acked = true })
		synctest.Wait()
		cancel(errors.New("terminated"))
		b.fakeJournal.answers <- nil
		b.fakeJournal.answers <- nil
		if err := <-b.ended; err != nil || !acked {
			t.Errorf("ended with %v, acknowledged: %v; want what was decided before the signal to be durable", err,
				acked)
		}
		if p := b.driver.Machine().Phase(); p != fsm.PhaseShutdown {
			t.Errorf("phase %s, want %s", p, fsm.PhaseShutdown)
		}
	})
}

func TestEndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newOwnerHarness(t, ctx)
		b.send(ctx, eligible(1), nil)
		synctest.Wait()
		cancel() // and the journal never answers
		if err := <-b.ended; err == nil {
			t.Error("no error, though nothing reached the journal")
		}
	})
}

func TestNothingIsSavedBeforeItIsInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newOwnerHarness(t, ctx)
		s := &session{daemon: &daemon{log: zaptest.NewLogger(t)}, owner: b.owner}
		save := func() savedState {
			state, err := look(ctx, b.owner, func(d *fsm.Driver) savedState { return s.stateToSave(d, true) })
			if err != nil {
				t.Error(err)
			}
			return state
		}
		b.send(ctx, eligible(1), nil)
		synctest.Wait()
		b.fakeJournal.answers <- nil
		synctest.Wait()
		if state := save(); state.head.Seq != 1 || state.data == nil {
			t.Errorf("after the append: got %d bytes at %d", len(state.data), state.head.Seq)
		}
		b.send(ctx, eligible(2), nil)
		synctest.Wait()
		if state := save(); state.data != nil {
			t.Errorf("during an append: got %d bytes at %d", len(state.data), state.head.Seq)
		}
		b.fakeJournal.answers <- nil
		b.fakeJournal.answers <- nil
		cancel()
		<-b.ended
	})
}

// Whoever gives up gets no answer, even if the owner has begun to look; the owner goes on.
func TestLookThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newOwnerHarness(t, ctx)
		asking, abandon := context.WithCancel(t.Context())
		looking, goOn, returned := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := look(asking, b.owner, func(*fsm.Driver) bool { close(looking); <-goOn; return true })
			returned <- err
		}()
		<-looking
		abandon()
		if err := <-returned; !errors.Is(err, context.Canceled) {
			t.Errorf("returned %v", err)
		}
		close(goOn)
		if _, err := look(ctx, b.owner, (*fsm.Driver).Idle); err != nil {
			t.Error(err)
		}
		b.fakeJournal.answers <- nil
		cancel()
		<-b.ended
	})
}

func TestClockTellsWhenTheOwnerWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(time.Now())
		before, _ := c.now()
		time.Sleep(time.Second)
		at, gap := c.now()
		if gap != 0 || at.Sub(before) != time.Second {
			t.Errorf("a second later: %s on, gap %s; want 1s and no gap", at.Sub(before), gap)
		}
		time.Sleep(time.Minute)
		if _, gap := c.now(); gap != time.Minute {
			t.Errorf("a minute away: gap %s, want 1m", gap)
		}
	})
}

// The machine's time goes on where it was, whatever the wall clock of this process says: it neither stands
// still nor jumps.
func TestClockGoesOnFromTheTimeBefore(t *testing.T) {
	for name, skew := range map[string]time.Duration{"behind": -5 * time.Minute, "ahead": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := time.Now().Add(-skew)
				c := newClock(before)
				time.Sleep(time.Second)
				if at, gap := c.now(); gap != 0 || at.Sub(before) != time.Second {
					t.Errorf("a second later: %s on, gap %s", at.Sub(before), gap)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := newClock(time.Now())
		decided := time.Now().Add(5 * time.Minute) // by a director whose clock was ahead
		c.atLeast(decided)
		time.Sleep(time.Second)
		if at, gap := c.now(); gap != 0 || at.Sub(decided) != time.Second {
			t.Errorf("a second later: %s on, gap %s: it stands still", at.Sub(decided), gap)
		}
	})
}
