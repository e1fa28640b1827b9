package upkeep

import (
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/zap/zaptest"

	"retake/internal/bus"
	"retake/internal/bus/server"
	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/fsm"
)

func TestNothingIsSavedBeforeItIsInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := looptest.Start(ctx, t)
		s := &Upkeep{Log: zaptest.NewLogger(t), Owner: b.Owner}
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

// A process that has lost its lease does not replace a snapshot.
func TestOnlyTheLeaderSavesSnapshots(t *testing.T) {
	leads := true
	srv, err := server.Start(t.Context(), server.Options{Dir: t.TempDir()})
	must(t, err)
	b, err := bus.Open(t.Context(), bus.Options{Server: srv, Leads: func() bool { return leads }})
	must(t, err)
	defer func() { must(t, b.Close(context.Background())) }()
	j := b.Journal()
	s := &Upkeep{Log: zaptest.NewLogger(t), Journal: j}
	for _, leads = range []bool{true, false} {
		_, err := j.Append(t.Context(), "w/"+loop.NewNonce(), j.Head().Seq, []byte("{}"))
		must(t, err)
		s.save(t.Context(), savedState{j.Head(), []byte("{}")})
		if saved := s.saved == j.Head().Seq; saved != leads {
			t.Errorf("leads: %t, saved: %t", leads, saved)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
