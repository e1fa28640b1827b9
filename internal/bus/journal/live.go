package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
)

// live reads the part of the journal that is in the stream.
type live struct {
	stream   jetstream.Stream
	aheads   chan struct{} // semaphore that limits ahead's concurrent requests
	position *position
}

// info returns the state of the stream. It returns an error if another journal has replaced this one.
func (l *live) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	info, err := link.Answered(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return l.stream.Info(ctx)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: read the stream's state: %w", ErrNone, err)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: read the stream's state: %w", err)
	}
	if another, err := l.position.recognise(identityIn(info.Config)); err != nil || another {
		return nil, cmp.Or(err, ErrReplaced)
	}
	return info, nil
}

func crowded(info *jetstream.StreamInfo) bool {
	most := info.Config.MaxBytes
	return most > 0 && info.State.Bytes > uint64(most)/2 //nolint:gosec // it is not negative
}

// bounds returns the first and the last sequence of the stream. If the stream is empty, first is last+1.
func (l *live) bounds(ctx context.Context) (first, last uint64, err error) {
	info, err := l.info(ctx)
	if err != nil {
		return 0, 0, err
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

// beginning returns the later of two heads: at, and the head before the first live batch.
func (l *live) beginning(ctx context.Context, at chain.Head) (chain.Head, error) {
	first, _, err := l.bounds(ctx)
	if err != nil || at.Seq+1 >= first {
		return at, err
	}
	return chain.Head{Seq: first - 1}, nil
}

// record reads one batch. A *chain.Damage means that the server does not have the batch. Any other error means that the
// server could not answer.
func (l *live) record(ctx context.Context, seq uint64) (chain.Record, error) {
	m, err := link.Answered(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return l.stream.GetMsg(ctx, seq)
	})
	switch {
	case err == nil:
		return chain.Record{
			Seq: seq, ID: m.Header.Get(jetstream.MsgIDHeader), Prev: m.Header.Get(chain.HeaderPrev),
			At: m.Time, Data: m.Data,
		}, nil
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return chain.Record{}, &chain.Damage{Kind: chain.Gap, Seq: seq, Want: fmt.Sprintf("batch %d", seq), Got: "none"}
	default:
		return chain.Record{}, fmt.Errorf("journal: batch %d: %w", seq, err)
	}
}

// before returns the head just before a live batch. It reads the digest from the batch's header. The digest is unknown
// if an older version wrote the batch without this header.
func (l *live) before(ctx context.Context, seq uint64) (chain.Head, error) {
	r, err := l.record(ctx, seq)
	if err != nil {
		return chain.Head{}, err
	}
	at := chain.Head{Seq: seq - 1}
	if r.Prev != "" {
		if err := at.Digest.UnmarshalText([]byte(r.Prev)); err != nil {
			return chain.Head{}, &chain.Damage{
				Kind: chain.Broken, Seq: seq, Want: "the previous digest",
				Got: fmt.Sprintf("%.80q", r.Prev),
			}
		}
	}
	return at, nil
}

// checkJoint compares the live journal with a head from another source, such as a snapshot. The argument by is the name
// of that source in errors. The next batch would also reveal a mismatch, but it may not exist.
func (l *live) checkJoint(ctx context.Context, at chain.Head, by string, first, last uint64) error {
	if at.Seq == 0 || !at.Known() || at.Seq < first || at.Seq > last {
		return nil
	}
	r, err := l.record(ctx, at.Seq)
	if errors.Is(err, chain.ErrDamaged) {
		return nil
	}
	if err != nil {
		return err
	}
	if d := joint(r, at, by); d != nil {
		return d
	}
	return nil
}

// joint compares a batch with a known head at the same sequence. It returns nil if they agree, or if a digest is
// missing.
func joint(r chain.Record, at chain.Head, by string) *chain.Damage {
	var prev chain.Digest
	if r.Prev == "" || prev.UnmarshalText([]byte(r.Prev)) != nil {
		return nil //nolint:nilerr // an unreadable digest cannot be compared; Chain.Add rejects it
	}
	if got := (chain.Head{Seq: at.Seq - 1, Digest: prev}).Next(r.ID, r.Data); got != at {
		return &chain.Damage{
			Kind: chain.Fork, Seq: at.Seq, Want: at.Digest.String() + " as " + by + " says",
			Got: got.Digest.String(),
		}
	}
	return nil
}

// read calls take for the live batches next through last, in order.
func (l *live) read(ctx context.Context, next, last uint64, take func(chain.Record) error) error {
	a := &ahead{live: l, last: last}
	defer a.end()
	for seq := next; seq <= last; seq++ {
		var err error
		r, ok := a.batch(ctx, seq)
		if !ok {
			if r, err = l.record(ctx, seq); errors.Is(err, chain.ErrDamaged) {
				r, err = l.missed(ctx, seq)
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

// errLeft reports that another process archived a batch during the read. A retry finds the batch in the archive, or
// finds that the live journal now begins after it.
var errLeft = errors.New("journal: shortened while it was being read: retry the read")

// missed retries reading a missing batch. Another process may have just archived it, and a server that is shutting down
// reports existing batches as missing.
func (l *live) missed(ctx context.Context, seq uint64) (chain.Record, error) {
	link.Pause(ctx, link.Backoff(0))
	switch first, _, err := l.bounds(ctx); {
	case err != nil:
		return chain.Record{}, err
	case seq < first:
		return chain.Record{}, errLeft
	}
	return l.record(ctx, seq)
}
