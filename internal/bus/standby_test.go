package bus

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"retake/internal/bus/chain"
)

// cutTo leaves the first batches of a journal, as a server does that comes back with an old copy of its files.
func cutTo(t *testing.T, b *Bus, last uint64) {
	t.Helper()
	ctx := ctxFor(t)
	var all []chain.Record
	_, err := b.journal.Records(ctx, Head{}, func(r chain.Record) error { all = append(all, r); return nil })
	mustDo(t, err)
	info, err := b.journal.stream.Info(ctx)
	mustDo(t, err)
	mustDo(t, b.ownJS.DeleteStream(ctx, b.journalStream()))
	_, err = b.ownJS.CreateStream(ctx, info.Config)
	mustDo(t, err)
	for _, r := range all[:last] {
		mustDo(t, b.journal.restore(ctx, r))
	}
}

func appendBatches(t *testing.T, j *Journal, n int) {
	t.Helper()
	for range n {
		at := j.Head().Seq
		if _, err := j.Append(ctxFor(t), fmt.Sprintf("w/%d", at+1), at,
			fmt.Appendf(nil, "batch %d", at+1)); err != nil {
			t.Fatal(err)
		}
	}
}

// A standby has read batches that the server loses before it takes over. It may have read them when it began,
// or since. It reports the loss until they are back.
func TestAStandbyKnowsWhatItHasRead(t *testing.T) {
	out := startOutside(t)
	leader := openBus(t, out.join())
	follows := out.join()
	follows.Mirror = filepath.Join(t.TempDir(), "journal.head")
	standby := openBus(t, follows)
	replay := func(after Head) (Head, error) {
		return standby.Journal().Replay(ctxFor(t), after, func(uint64, []byte) error { return nil })
	}
	appendBatches(t, leader.Journal(), 3)
	hot, err := replay(Head{})
	mustDo(t, err)
	appendBatches(t, leader.Journal(), 3)
	if hot, err = replay(hot); err != nil || hot.Seq != 6 {
		t.Fatal(hot, err)
	}
	cutTo(t, leader, 4)
	for name, after := range map[string]Head{"what it follows": hot, "what a takeover reads": {}, "and again": {}} {
		_, err := replay(after)
		damage, ok := errors.AsType[*Damage](err)
		if !ok || damage.Kind != chain.Cut || damage.Seq < 5 {
			t.Errorf("%s: %v, want a journal that was cut", name, err)
		}
	}
	mustDo(t, standby.Ensure(ctxFor(t)))
	if _, err := replay(Head{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("after its streams were made sure of: %v", err)
	}
}
