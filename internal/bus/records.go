package bus

import (
	"context"
	"errors"
	"fmt"

	"retake/internal/bus/chain"
)

// Records passes every batch after a head to fn, in order, first from the archive and then from the live
// journal. It returns the last head. A *Damage tells where the journal differs from what was written. All
// batches before that place have been passed to fn. An error of fn ends the reading.
func (j *Journal) Records(ctx context.Context, after Head, fn func(chain.Record) error) (Head, error) {
	first, last, err := j.bounds(ctx)
	if err != nil {
		return Head{}, err
	}
	c, known := chain.Follow(after), j.mark().Head
	take := func(r chain.Record) error {
		err := c.Add(r)
		if err == nil && r.Seq == known.Seq && known.Known() && c.Sure() && c.Head() != known {
			err = &Damage{
				Kind: chain.Fork, Seq: r.Seq, Want: known.Digest.String() + " as journal.head says",
				Got: c.Head().Digest.String(),
			}
		}
		if err == nil {
			err = fn(r)
		}
		return err
	}
	for again := false; ; again = true {
		if err := j.archived(c, first, take); err != nil {
			return c.Head(), err
		}
		switch next := c.Head().Seq + 1; {
		case next >= first || next > last:
		case again:
			return c.Head(), fmt.Errorf("%w: batch %d, and it is not in the archive that is here", errLeft, next)
		default:
			return c.Head(), &Damage{
				Kind: chain.Gap, Seq: next, Want: fmt.Sprintf("batch %d", next),
				Got: fmt.Sprintf("batch %d as the first", first),
			}
		}
		err := j.live(ctx, c.Head().Seq+1, last, take)
		if !errors.Is(err, errLeft) {
			return c.Head(), err
		}
		if first, _, err = j.bounds(ctx); err != nil {
			return c.Head(), err
		}
	}
}

// live reads live batches.
func (j *Journal) live(ctx context.Context, next, last uint64, take func(chain.Record) error) error {
	a := &ahead{j: j, last: last}
	defer a.end()
	for seq := next; seq <= last; seq++ {
		var err error
		r, ok := a.batch(ctx, seq)
		if !ok {
			if r, err = j.record(ctx, seq); errors.Is(err, ErrDamaged) {
				r, err = j.missed(ctx, seq)
			}
		}
		if err == nil {
			err = take(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errLeft reports that a batch was archived while the journal was read. A second reading finds it in the
// archive, or finds that the journal now begins after it.
var errLeft = errors.New("bus: the live journal was shortened while it was read: read it again")

// missed reads a missing batch again. Another process may just have archived it, and a server that is shutting
// down reports existing batches as missing.
func (j *Journal) missed(ctx context.Context, seq uint64) (chain.Record, error) {
	pause(ctx, backoff(0))
	switch first, _, err := j.bounds(ctx); {
	case err != nil:
		return chain.Record{}, err
	case seq < first:
		return chain.Record{}, errLeft
	}
	return j.record(ctx, seq)
}

// archived reads the batches between the chain's head and the first live batch.
func (j *Journal) archived(c *chain.Chain, first uint64, take func(chain.Record) error) error {
	if c.Head().Seq+1 >= first {
		return nil
	}
	segments, err := chain.Segments(j.archive.Dir)
	if err != nil {
		return fmt.Errorf("bus: archive: %w", err)
	}
	for _, s := range segments {
		if s.Last <= c.Head().Seq || s.First >= first {
			continue
		}
		_, err := chain.Read(s.Path, func(r chain.Record) error {
			if r.Seq <= c.Head().Seq || r.Seq >= first {
				return nil
			}
			return take(r)
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// Begin returns the head before the first existing batch, archived or live. Its digest is unknown if the
// journal is older than the chain and its beginning is gone.
func (j *Journal) Begin(ctx context.Context) (Head, error) {
	first, _, err := j.bounds(ctx)
	if err != nil {
		return Head{}, err
	}
	segments, err := chain.Segments(j.archive.Dir)
	if err != nil {
		return Head{}, fmt.Errorf("bus: archive: %w", err)
	}
	begin := Head{Seq: max(first, 1) - 1}
	for i := len(segments) - 1; i >= 0; i-- { // newest first, while they are contiguous
		if s := segments[i]; s.Last >= begin.Seq && s.First <= begin.Seq {
			begin = Head{Seq: s.First - 1}
		}
	}
	return begin, nil
}
