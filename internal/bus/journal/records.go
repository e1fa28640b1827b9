package journal

import (
	"context"
	"errors"
	"fmt"

	"retake/internal/bus/chain"
)

// Records calls fn for every batch after the given head, in order, first from the archive and then from the live
// journal. It returns the last head. If the journal is damaged, the error is a *chain.Damage for the first damaged
// batch, and fn has received all earlier batches. Records stops when fn fails.
func (j *Journal) Records(ctx context.Context, after chain.Head, fn func(chain.Record) error) (chain.Head, error) {
	first, last, err := j.live.bounds(ctx)
	if err != nil {
		return chain.Head{}, err
	}
	c, known := chain.Follow(after), j.position.mark().Head
	take := func(r chain.Record) error {
		err := c.Add(r)
		if err == nil && r.Seq == known.Seq && known.Known() && c.Sure() && c.Head() != known {
			err = &chain.Damage{
				Kind: chain.Fork, Seq: r.Seq, Want: known.Digest.String() + " according to journal.head",
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
			return c.Head(), fmt.Errorf("%w: batch %d is not in the local archive", errLeft, next)
		default:
			return c.Head(), &chain.Damage{
				Kind: chain.Gap, Seq: next, Want: fmt.Sprintf("batch %d", next),
				Got: fmt.Sprintf("a journal that begins at batch %d", first),
			}
		}
		err := j.live.read(ctx, c.Head().Seq+1, last, take)
		if !errors.Is(err, errLeft) {
			return c.Head(), err
		}
		if first, _, err = j.live.bounds(ctx); err != nil {
			return c.Head(), err
		}
	}
}

// archived calls take for the archived batches after the chain's head, up to the first live batch.
func (j *Journal) archived(c *chain.Chain, first uint64, take func(chain.Record) error) error {
	if c.Head().Seq+1 >= first {
		return nil
	}
	segments, err := j.position.segments()
	if err != nil {
		return err
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

// Begin returns the head before the first existing batch, archived or live. Its digest is unknown unless this is the
// start of the journal.
func (j *Journal) Begin(ctx context.Context) (chain.Head, error) {
	first, _, err := j.live.bounds(ctx)
	if err != nil {
		return chain.Head{}, err
	}
	segments, err := j.position.segments()
	if err != nil {
		return chain.Head{}, err
	}
	begin := chain.Head{Seq: max(first, 1) - 1}
	for i := len(segments) - 1; i >= 0; i-- { // walk back from the newest while they are contiguous
		if s := segments[i]; s.Last >= begin.Seq && s.First <= begin.Seq {
			begin = chain.Head{Seq: s.First - 1}
		}
	}
	return begin, nil
}
