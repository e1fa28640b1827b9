package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
)

// Replay passes every batch after a head to fn, in order, and returns the journal's last head. It checks the
// batches against everything else that is known of the journal: the starting head, the names of the snapshots,
// and the mirror. A *Damage tells where the journal differs from what was written. All batches before that
// place have been passed to fn. An error of fn ends the replay.
func (j *Journal) Replay(ctx context.Context, after Head, fn func(seq uint64, data []byte) error) (Head, error) {
	first, last, err := j.bounds(ctx)
	if err != nil {
		return Head{}, err
	}
	if err := j.checkJoint(ctx, after, "the snapshot", first, last); err != nil {
		return Head{}, err
	}
	if known := j.mark(); known.Journal != "" && known.Head.Seq < after.Seq { // else it is compared during reading
		if err := j.checkJoint(ctx, known.Head, "journal.head", first, last); err != nil {
			return Head{}, err
		}
	}
	from := after
	if !after.Known() && first <= after.Seq { // older than the chain, so the journal determines the start
		from = Head{Seq: max(first, 1) - 1}
	}
	head, err := j.Records(ctx, from, func(r chain.Record) error {
		if r.Seq <= after.Seq {
			return nil
		}
		return fn(r.Seq, r.Data)
	})
	if err != nil {
		return Head{}, err
	}
	if head.Seq == after.Seq { // nothing was read, and the journal may end before the snapshot
		head.Seq = last
	}
	if err := j.ended(ctx, head.Seq, after.Seq); err != nil {
		return Head{}, err
	}
	j.reached(head)
	return head, nil
}

// ended checks that no known batch is missing after the last one. Batches up to known are not missing, because
// a snapshot covers them.
func (j *Journal) ended(ctx context.Context, last, known uint64) error {
	j.mu.Lock()
	seq, by, until := j.known.Head.Seq, "journal.head", j.identity.until
	j.mu.Unlock()
	if until > seq {
		seq, by = until, "its import, which was not finished,"
	}
	snapshots, err := j.snapshots(ctx)
	if known > seq {
		seq, by = known, "the snapshot"
	}
	if err == nil && len(snapshots) > 0 && snapshots[0] > seq { // an unreadable snapshot still has a name
		seq, by = snapshots[0], "a snapshot"
	}
	if err == nil && last < seq {
		err = &Damage{Kind: chain.Cut, Seq: max(last, known) + 1, Want: fmt.Sprintf("batches to %d, as %s says", seq,
			by), Got: fmt.Sprintf("%d as the last", last)}
	}
	return err
}

// bounds returns the first and the last sequence of the stream. In an empty stream, first is last+1.
func (j *Journal) bounds(ctx context.Context) (first, last uint64, err error) {
	info, err := j.info(ctx)
	if err != nil {
		return 0, 0, err
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

// info returns the state of the stream. It returns an error if another journal is there by now.
func (j *Journal) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	info, err := answered(ctx, readTimeout, func(ctx context.Context) (*jetstream.StreamInfo,
		error,
	) {
		return j.stream.Info(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("bus: replay: %w", err)
	}
	if another, err := j.recognise(identityIn(info.Config)); err != nil || another {
		return nil, cmp.Or(err, ErrReplaced)
	}
	return info, nil
}

// checkJoint checks that the batch at a head is the one that the head describes. Batches after it would show a
// difference through their digests, but there may be none.
func (j *Journal) checkJoint(ctx context.Context, at Head, by string, first, last uint64) error {
	if at.Seq == 0 || !at.Known() || at.Seq < first || at.Seq > last {
		return nil
	}
	r, err := j.record(ctx, at.Seq)
	if _, damaged := errors.AsType[*Damage](err); damaged {
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

// joint compares a batch with a known head at its sequence. It returns nil if they agree or cannot be compared.
func joint(r chain.Record, at Head, by string) *Damage {
	var prev chain.Digest
	if r.Prev == "" || prev.UnmarshalText([]byte(r.Prev)) != nil {
		return nil //nolint:nilerr // a digest that cannot be read is compared with nothing
	}
	if got := (Head{Seq: at.Seq - 1, Digest: prev}).Next(r.ID, r.Data); got != at {
		return &Damage{
			Kind: chain.Fork, Seq: at.Seq, Want: at.Digest.String() + " as " + by + " says",
			Got: got.Digest.String(),
		}
	}
	return nil
}

// record reads one batch. A *Damage means that the server does not have the batch. All other errors are about
// the server.
func (j *Journal) record(ctx context.Context, seq uint64) (chain.Record, error) {
	m, err := answered(ctx, readTimeout, func(ctx context.Context) (*jetstream.RawStreamMsg,
		error,
	) {
		return j.stream.GetMsg(ctx, seq)
	})
	switch {
	case err == nil:
		return chain.Record{
			Seq: seq, ID: m.Header.Get(jetstream.MsgIDHeader), Prev: m.Header.Get(chain.HeaderPrev),
			At: m.Time, Data: m.Data,
		}, nil
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return chain.Record{}, &Damage{Kind: chain.Gap, Seq: seq, Want: fmt.Sprintf("batch %d", seq), Got: "none"}
	default:
		return chain.Record{}, fmt.Errorf("bus: batch %d: %w", seq, err)
	}
}

// Bounds of reading from the server.
const (
	readTimeout = 3 * time.Second  // for one short answer
	readFor     = 10 * time.Second // no further retry after this time
)

// answered retries a request while the server does not answer, because its connection may come back or its
// cluster may be electing a leader. The final lack of an answer says nothing about the journal.
func answered[T any](ctx context.Context, timeout time.Duration, ask func(context.Context) (T, error)) (T, error) {
	for began, failures := time.Now(), 0; ; failures++ {
		try, cancel := context.WithTimeout(ctx, timeout)
		answer, err := ask(try)
		cancel()
		if !outage(err) || time.Since(began) > readFor || !pause(ctx, backoff(failures)) {
			return answer, err
		}
	}
}

// outage reports whether the server did not answer, or answered that it is unavailable.
func outage(err error) bool {
	if temporary(err) {
		return true
	}
	e, ok := errors.AsType[jetstream.JetStreamError](err)
	return ok && e.APIError() != nil && e.APIError().Code >= http.StatusInternalServerError
}
