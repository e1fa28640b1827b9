package journal

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
)

// A leader may be paused at any point and resume after its lease has ended. It must then not make its next
// change to the journal.
func TestWhoLeadsNoMoreLeavesTheJournalAlone(t *testing.T) {
	asked, most := 0, 0
	j := begun(t)
	j.o.Leads = func() bool { asked++; return asked <= most }
	j.reopen()
	ctx := ctxFor(t)
	save := func(allowed int) error {
		j.more(1)
		asked, most = 0, allowed
		return j.SaveSnapshot(ctx, j.Head(), []byte("{}"))
	}
	for range 3 {
		mustDo(t, save(10))
	}
	there := func() []uint64 {
		t.Helper()
		all, err := j.snapshots.list(ctx)
		mustDo(t, err)
		return all
	}
	if err := save(0); !errors.Is(err, link.ErrNotLeading) || !slices.Equal(there(), []uint64{3, 2}) {
		t.Errorf("%v, snapshots %d", err, there())
	}
	if err := save(1); !errors.Is(err, link.ErrNotLeading) || !slices.Equal(there(), []uint64{5, 3, 2}) {
		t.Errorf("it was stopped only after it had saved: %v, snapshots %d", err, there())
	}
	asked, most = 0, 0
	if err := j.Replace(ctx, filepath.Join(t.TempDir(), "aside.jsonl.zst")); !errors.Is(err, link.ErrNotLeading) ||
		len(there()) != 3 {
		t.Errorf("replace: %v, snapshots %d", err, there())
	}
	if _, last, err := j.live.bounds(ctx); err != nil || last != 5 {
		t.Errorf("the journal ends at %d, %v", last, err)
	}
	tomorrow := time.Now().Add(2 * segmentAfter)
	for allowed := range 2 { // the writer was stopped before or after it wrote the segment
		asked, most = 0, allowed
		if err := j.Retire(ctx, tomorrow); !errors.Is(err, link.ErrNotLeading) {
			t.Errorf("retire: %v", err)
		}
		if first, _, err := j.live.bounds(ctx); err != nil || first != 1 {
			t.Errorf("the journal begins at %d, %v", first, err)
		}
	}
	asked, most = 0, 10
	mustDo(t, j.Retire(ctx, tomorrow))
	if segments, err := chain.Segments(j.o.Archive.Dir); err != nil || len(segments) != 1 || segments[0].Last != 3 {
		t.Errorf("%+v, %v", segments, err)
	}
}

// A leader that does not notice the end of its lease must not change the journal with which another director has
// replaced its journal.
func TestWhatComesLateIsOfTheJournalBefore(t *testing.T) {
	t.Parallel()
	late := begun(t)
	one := late.beside()
	late.more(9)
	for _, at := range []uint64{7, 8} {
		mustDo(t, late.SaveSnapshot(ctxFor(t), headOf(t, late.Journal, at), []byte("{}")))
	}
	one.mustRead(chain.Head{}, 9)
	one.replace()
	for range 3 {
		_, err := one.Append(ctxFor(t), newID(), one.Head().Seq, nil)
		mustDo(t, err)
	}
	_ = late.SaveSnapshot(ctxFor(t), late.Head(), []byte("{}"))
	_ = late.Retire(ctxFor(t), time.Now().Add(2*segmentAfter))
	one.reopen()
	at, _, err := one.lastState()
	if err != nil || at != (chain.Head{}) {
		t.Errorf("the snapshot of another journal is taken: %v, %v", at, err)
	}
	one.mustRead(at, 3)
}

// headOf returns the head of a journal at a sequence.
func headOf(t *testing.T, j *Journal, at uint64) (h chain.Head) {
	t.Helper()
	for seq := range at {
		m, err := j.live.stream.GetMsg(ctxFor(t), seq+1)
		mustDo(t, err)
		h = h.Next(m.Header.Get(jetstream.MsgIDHeader), m.Data)
	}
	return h
}
