package director

import (
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/zap/zaptest"

	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/fsm"
)

func TestNothingIsSavedBeforeItIsInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := looptest.Start(ctx, t)
		s := &session{daemon: &daemon{log: zaptest.NewLogger(t)}, owner: b.Owner}
		save := func() savedState {
			state, err := loop.Look(ctx, b.Owner, func(d *fsm.Driver) savedState { return s.stateToSave(d, true) })
			if err != nil {
				t.Error(err)
			}
			return state
		}
		b.Send(ctx, looptest.Eligible(1), nil)
		synctest.Wait()
		b.Journal.Answers <- nil
		synctest.Wait()
		if state := save(); state.head.Seq != 1 || state.data == nil {
			t.Errorf("after the append: got %d bytes at %d", len(state.data), state.head.Seq)
		}
		b.Send(ctx, looptest.Eligible(2), nil)
		synctest.Wait()
		if state := save(); state.data != nil {
			t.Errorf("during an append: got %d bytes at %d", len(state.data), state.head.Seq)
		}
		b.Journal.Answers <- nil
		b.Journal.Answers <- nil
		cancel()
		<-b.Ended
	})
}
