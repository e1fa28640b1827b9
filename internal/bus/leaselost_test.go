package bus

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
)

// A leader that was stopped for longer than its lease wakes anywhere: what it would do to the journal next is not done.
func TestWhoLeadsNoMoreLeavesTheJournalAlone(t *testing.T) {
	asked, most := 0, 0
	o := Options{
		Archive: Archive{Dir: filepath.Join(t.TempDir(), "journal")},
		Leads:   func() bool { asked++; return asked <= most },
	}
	b := openBus(t, o)
	j := b.Journal()
	ctx := ctxFor(t)
	save := func(allowed int) error {
		appendBatches(t, j, 1)
		asked, most = 0, allowed
		return j.SaveSnapshot(ctx, j.Head(), []byte("{}"))
	}
	for range 3 {
		mustDo(t, save(10))
	}
	there := func() []uint64 {
		t.Helper()
		all, err := j.snapshots(ctx)
		mustDo(t, err)
		return all
	}
	if err := save(0); !errors.Is(err, ErrNotLeading) || !slices.Equal(there(), []uint64{3, 2}) {
		t.Errorf("%v, snapshots %d", err, there())
	}
	if err := save(1); !errors.Is(err, ErrNotLeading) || !slices.Equal(there(), []uint64{5, 3, 2}) {
		t.Errorf("it was stopped when it had saved: %v, snapshots %d", err, there())
	}
	asked, most = 0, 0
	if err := b.ReplaceJournal(ctx, filepath.Join(t.TempDir(), "aside.jsonl.zst")); !errors.Is(err, ErrNotLeading) ||
		len(there()) != 3 {
		t.Errorf("replace: %v, snapshots %d", err, there())
	}
	if _, last, err := j.bounds(ctx); err != nil || last != 5 {
		t.Errorf("the journal ends at %d, %v", last, err)
	}
	tomorrow := time.Now().Add(2 * segmentAfter)
	for allowed := range 2 { // it was stopped before, or when it had written the segment
		asked, most = 0, allowed
		if err := j.Retire(ctx, tomorrow); !errors.Is(err, ErrNotLeading) {
			t.Errorf("retire: %v", err)
		}
		if first, _, err := j.bounds(ctx); err != nil || first != 1 {
			t.Errorf("the journal begins at %d, %v", first, err)
		}
	}
	asked, most = 0, 10
	mustDo(t, j.Retire(ctx, tomorrow))
	if segments, err := chain.Segments(o.Archive.Dir); err != nil || len(segments) != 1 || segments[0].Last != 3 {
		t.Errorf("%+v, %v", segments, err)
	}
}

// Nor does it do anything to the journal that another director has begun meanwhile, even if nothing told it
// that its lease is over.
func TestWhatComesLateIsOfTheJournalBefore(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	late, one := out.joiner(), out.joiner()
	appendBatches(t, late.Journal(), 9)
	for _, at := range []uint64{7, 8} {
		mustDo(t, late.Journal().SaveSnapshot(ctxFor(t), headOf(t, late.Journal(), at), []byte("{}")))
	}
	one.mustRead(Head{}, 9)
	one.replace()
	for range 3 {
		_, err := one.Journal().Append(ctxFor(t), newID(), one.Journal().Head().Seq, nil)
		mustDo(t, err)
	}
	_ = late.Journal().SaveSnapshot(ctxFor(t), late.Journal().Head(), []byte("{}"))
	_ = late.Journal().Retire(ctxFor(t), time.Now().Add(2*segmentAfter))
	one.reopen()
	at, _, err := lastState(t, one.Journal())
	if err != nil || at != (Head{}) {
		t.Errorf("the snapshot of another journal is taken: %v, %v", at, err)
	}
	one.mustRead(at, 3)
}

// headOf is the head of a journal at a sequence.
func headOf(t *testing.T, j *Journal, at uint64) (h Head) {
	t.Helper()
	for seq := range at {
		m, err := j.stream.GetMsg(ctxFor(t), seq+1)
		mustDo(t, err)
		h = h.Next(m.Header.Get(jetstream.MsgIDHeader), m.Data)
	}
	return h
}
