package bus

import (
	"context"
	"fmt"
	"testing"
	"time"

	"retake/internal/bus/chain"
)

func TestFleetsShareAServer(t *testing.T) {
	out := startOutside(t)
	one, blue := openBus(t, out.join()), out.join()
	blue.Fleet, blue.Prefix = "blue", "blue.v1"
	two := openBus(t, blue)
	for _, b := range []*Bus{one, two} {
		if seq, err := b.Journal().Append(ctxFor(t), "first", 0, nil); err != nil || seq != 1 {
			t.Errorf("%s: %d, %v", b.options.Fleet, seq, err)
		}
	}
	if _, err := two.ownJS.Stream(ctxFor(t), "RETAKE_JOURNAL_blue"); err != nil {
		t.Error(err)
	}
}

func TestAppendWaitsForAServerThatComesBack(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	b := openBus(t, out.join())
	out.restart(b)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if seq, err := b.Journal().Append(ctx, "after", 0, nil); err != nil || seq != 1 {
		t.Errorf("%d, %v", seq, err)
	}
}

// TestReadAheadOutlivesItsServer restarts a server while the journal is read. The server then no longer knows
// the consumer, but every batch must still be read once, in order.
func TestReadAheadOutlivesItsServer(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	b := openBus(t, out.join())
	j := b.Journal()
	const last = 200
	for n := uint64(0); n < last; n++ { // several requests' worth
		_, err := j.Append(ctxFor(t), fmt.Sprintf("w/%d", n+1), n, make([]byte, 48<<10))
		mustDo(t, err)
	}
	next := uint64(0)
	head, err := j.Records(ctxFor(t), Head{}, func(r chain.Record) error {
		if next++; r.Seq != next {
			t.Errorf("batch %d comes when %d is due", r.Seq, next)
		}
		if r.Seq == 20 {
			out.restart(b)
		}
		return nil
	})
	if err != nil || head != j.Head() || next != last {
		t.Errorf("%d of %d batches, to %v: %v", next, last, head, err)
	}
}
