package journal

import (
	"context"
	"fmt"

	"retake/internal/bus/chain"
)

// Replay passes every batch after a head to fn, in order, and returns the journal's last head. It checks the batches
// against the starting head, the names of the snapshots, and the mirror. If the journal is damaged, the error is a
// *chain.Damage with the location, and fn has received all earlier batches. An error of fn ends the replay.
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
	// a mark at or after the start is compared during the reading
	if known := j.position.mark(); known.Journal != "" && known.Head.Seq < after.Seq {
		if err := j.live.checkJoint(ctx, known.Head, "journal.head", first, last); err != nil {
			return chain.Head{}, err
		}
	}
	from := after
	if !after.Known() && first <= after.Seq { // older than the chain, so the journal determines the start
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
	if head.Seq == after.Seq { // nothing was read, and the journal may end before the snapshot
		head.Seq = last
	}
	if err := j.ended(ctx, head.Seq, after.Seq); err != nil {
		return chain.Head{}, err
	}
	j.position.reached(head)
	return head, nil
}

// ended checks that no known batch is missing after the last one. Batches up to known do not count as missing, because
// a snapshot covers them.
func (j *Journal) ended(ctx context.Context, last, known uint64) error {
	seq, by, until := j.position.mark().Head.Seq, "journal.head", j.position.current().until
	if until > seq {
		seq, by = until, "an unfinished import"
	}
	snapshots, err := j.snapshots.list(ctx)
	if known > seq {
		seq, by = known, "the snapshot"
	}
	if err == nil && len(snapshots) > 0 && snapshots[0] > seq { // an unreadable snapshot still has a name
		seq, by = snapshots[0], "a snapshot"
	}
	if err == nil && last < seq {
		err = &chain.Damage{
			Kind: chain.Cut, Seq: max(last, known) + 1,
			Want: fmt.Sprintf("batches up to %d, according to %s", seq, by), Got: fmt.Sprintf("%d as the last", last),
		}
	}
	return err
}
