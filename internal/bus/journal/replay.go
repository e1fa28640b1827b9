package journal

import (
	"context"
	"fmt"

	"retake/internal/bus/chain"
)

// Replay calls fn for every batch after the given head, in order, and returns the journal's last head. It checks the
// batches against the starting head, the snapshot names, and the mirror. If the journal is damaged, the error is a
// *chain.Damage for the first damaged batch, and fn has received all earlier batches. Replay stops when fn fails.
func (j *Journal) Replay(ctx context.Context, after chain.Head,
	fn func(seq uint64, data []byte) error,
) (chain.Head, error) {
	first, last, err := j.live.bounds(ctx)
	if err != nil {
		return chain.Head{}, err
	}
	if err := j.live.checkJoint(ctx, after, "the snapshot", first, last); err != nil {
		return chain.Head{}, err
	}
	// If the mark is later than after, Records compares it while reading.
	if known := j.position.mark(); known.Journal != "" && known.Head.Seq < after.Seq {
		if err := j.live.checkJoint(ctx, known.Head, "journal.head", first, last); err != nil {
			return chain.Head{}, err
		}
	}
	from := after
	if !after.Known() && first <= after.Seq { // the head of an old snapshot has no digest, so read from the first batch
		from = chain.Head{Seq: max(first, 1) - 1}
	}
	head, err := j.Records(ctx, from, func(r chain.Record) error {
		if r.Seq <= after.Seq {
			return nil
		}
		return fn(r.Seq, r.Data)
	})
	if err != nil {
		return chain.Head{}, err
	}
	if head.Seq == after.Seq { // fn got no batch, so the journal may even end before the snapshot
		head.Seq = last
	}
	if err := j.ended(ctx, head.Seq, after.Seq); err != nil {
		return chain.Head{}, err
	}
	j.position.reached(head)
	return head, nil
}

// ended returns a *chain.Damage if batches known to have existed are missing at the end. It reports missing batches
// only from known+1, because a snapshot covers the earlier ones.
func (j *Journal) ended(ctx context.Context, last, known uint64) error {
	seq, by, until := j.position.mark().Head.Seq, "journal.head", j.position.current().until
	if until > seq {
		seq, by = until, "an unfinished import"
	}
	snapshots, err := j.snapshots.list(ctx)
	if known > seq {
		seq, by = known, "the snapshot"
	}
	if err == nil && len(snapshots) > 0 && snapshots[0] > seq { // the snapshot's name proves that its batches existed
		seq, by = snapshots[0], "a snapshot"
	}
	if err == nil && last < seq {
		err = &chain.Damage{
			Kind: chain.Cut, Seq: max(last, known) + 1,
			Want: fmt.Sprintf("batches up to %d, according to %s", seq, by), Got: fmt.Sprintf("batches only up to %d",
				last),
		}
	}
	return err
}
