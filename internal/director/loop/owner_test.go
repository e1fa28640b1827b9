package loop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"retake/internal/bus"
	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/fsm"
)

func TestAcksAndEffectsWaitForTheAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := looptest.Start(ctx, t)
		acked := make(chan struct{})
		b.Send(ctx, looptest.Eligible(1), func() { close(acked) })
		synctest.Wait()
		select {
		case <-acked:
			t.Error("acknowledged before the append")
		case e := <-b.Effects:
			t.Errorf("%s before the append", e.ID)
		default:
		}
		b.Journal.Answers <- nil
		<-acked
		if e := <-b.Effects; e.Kind != fsm.DoClaim {
			t.Errorf("got %s, want a claim", e.Kind)
		}
		b.Journal.Answers <- nil // the signal's own record
		cancel()
		if err := <-b.Ended; err != nil {
			t.Error(err)
		}
	})
}

func TestJournalThatRefusesEndsTheOwner(t *testing.T) {
	for _, c := range []struct{ answer, want error }{
		{bus.ErrRefused, loop.ErrAnotherDirector},
		{bus.ErrUnsure, loop.ErrReload},
		{errors.New("disk"), loop.ErrReload},
	} {
		t.Run(c.answer.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := looptest.Start(t.Context(), t)
				b.Send(t.Context(), looptest.Eligible(1),
					func() { t.Error("acknowledged, although nothing was appended") })
				b.Journal.Answers <- c.answer
				if err := <-b.Ended; !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				select {
				case e := <-b.Effects:
					t.Errorf("%s started, although its fact is not in the journal", e.ID)
				default:
				}
				b.Send(t.Context(), looptest.Eligible(2), nil) // must not block forever
				if _, err := loop.Look(t.Context(), b.Owner, (*fsm.Driver).Idle); !errors.Is(err, c.want) {
					t.Errorf("read after the end: got %v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestEndWaitsForTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := looptest.Start(ctx, t)
		acked := false
		b.Send(ctx, looptest.Eligible(1), func() { acked = true })
		synctest.Wait()
		cancel(errors.New("terminated"))
		b.Journal.Answers <- nil
		b.Journal.Answers <- nil
		if err := <-b.Ended; err != nil || !acked {
			t.Errorf("ended with %v, acknowledged: %v; want the decisions before the signal to be durable", err,
				acked)
		}
		if p := b.Driver().Machine().Phase(); p != fsm.PhaseShutdown {
			t.Errorf("phase %s, want %s", p, fsm.PhaseShutdown)
		}
	})
}

func TestEndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := looptest.Start(ctx, t)
		b.Send(ctx, looptest.Eligible(1), nil)
		synctest.Wait()
		cancel() // and the journal never answers
		if err := <-b.Ended; err == nil {
			t.Error("no error, although nothing reached the journal")
		}
	})
}

// A caller that gives up does not get an answer, even if the owner has started to read. The owner continues.
func TestLookThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := looptest.Start(ctx, t)
		asking, abandon := context.WithCancel(t.Context())
		looking, goOn, returned := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := loop.Look(asking, b.Owner, func(*fsm.Driver) bool { close(looking); <-goOn; return true })
			returned <- err
		}()
		<-looking
		abandon()
		if err := <-returned; !errors.Is(err, context.Canceled) {
			t.Errorf("returned %v", err)
		}
		close(goOn)
		if _, err := loop.Look(ctx, b.Owner, (*fsm.Driver).Idle); err != nil {
			t.Error(err)
		}
		b.Journal.Answers <- nil
		cancel()
		<-b.Ended
	})
}
