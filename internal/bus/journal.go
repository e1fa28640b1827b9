package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Bounds of one append. The whole stays below the lease of a leader, who must know soon whether it still writes.
const (
	appendTimeout  = 3 * time.Second // of one publish, and of one read-back
	appendAttempts = 3
)

// Journal is the director's journal: batches in one stream, and snapshots of the state that they lead to.
type Journal struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	store   jetstream.ObjectStore
	subject string
	log     *zap.Logger
}

// Append writes one batch behind the sequence expectLast (0: an empty journal) and returns its own, which is durable as
// far as the server's SyncAlways goes. batchID is unique for ever. ErrRefused: somebody else wrote. ErrUnsure: unknown, see
// there. Any other error: the batch is not in the journal as far as the server knows, or ctx ended; discard and reload.
func (j *Journal) Append(ctx context.Context, batchID string, expectLast uint64, data []byte) (uint64, error) {
	var last error
	for try := range appendAttempts {
		if try > 0 && !pause(ctx, backoff(try)) {
			break
		}
		seq, err := j.publish(ctx, batchID, expectLast, data)
		if err == nil {
			return seq, nil
		}
		last = err
		if definite(err) && !refused(err) {
			return 0, fmt.Errorf("bus: append: %w", err)
		}
		// Refused may mean that our own earlier try was stored; a timeout may mean anything. The next message decides.
		switch found, err := j.BatchID(ctx, expectLast+1); {
		case err == nil && found == batchID:
			return expectLast + 1, nil
		case err == nil:
			return 0, fmt.Errorf("%w: expected last sequence %d", ErrRefused, expectLast)
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			last = errors.Join(last, err)
		case refused(last): // a shorter journal than expected: it is not the one that we wrote
			return 0, fmt.Errorf("%w: the journal ends before sequence %d", ErrRefused, expectLast)
		}
		// Nothing stored yet, perhaps still on its way: publishing again with the same id and the same expectation
		// stores it once.
	}
	return 0, fmt.Errorf("%w: batch %s: %w", ErrUnsure, batchID, errors.Join(last, ctx.Err()))
}

func (j *Journal) publish(ctx context.Context, batchID string, expectLast uint64, data []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	ack, err := j.js.Publish(ctx, j.subject, data, jetstream.WithMsgID(batchID), jetstream.WithExpectLastSequence(expectLast))
	if err != nil {
		return 0, err
	}
	if ack.Sequence != expectLast+1 {
		return 0, fmt.Errorf("batch id %s was used before, at sequence %d", batchID, ack.Sequence)
	}
	return ack.Sequence, nil
}

// definite: the server itself answered.
func definite(err error) bool {
	_, answered := errors.AsType[*jetstream.APIError](err)
	return answered || !temporary(err)
}

// temporary: no answer, or one that does not tell what became of the message.
func temporary(err error) bool {
	return slices.ContainsFunc(noAnswerErrors, func(known error) bool { return errors.Is(err, known) })
}

func refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// Replay hands out every batch behind sequence after (0: all), in order, and returns the last sequence of the journal.
// ErrJournalGap: the journal begins too late, ends before after, or misses a batch. An error of fn ends it.
func (j *Journal) Replay(ctx context.Context, after uint64, fn func(seq uint64, data []byte) error) (uint64, error) {
	info, err := j.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("bus: replay: %w", err)
	}
	first, last := info.State.FirstSeq, info.State.LastSeq
	if last < after {
		return 0, fmt.Errorf("%w: it ends at %d, before the snapshot's %d: restore the journal, or remove the snapshots to start from what is there", ErrJournalGap, last, after)
	}
	if first > after+1 && last > after {
		return 0, fmt.Errorf("%w: it begins at %d, but %d is needed: restore an older snapshot", ErrJournalGap, first, after+1)
	}
	for seq := after + 1; seq <= last; seq++ {
		m, err := j.stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, fmt.Errorf("%w: %d is missing", ErrJournalGap, seq)
		}
		if err != nil {
			return 0, fmt.Errorf("bus: replay %d: %w", seq, err)
		}
		if err := fn(seq, m.Data); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// BatchID returns the id that the batch at a sequence was appended with.
func (j *Journal) BatchID(ctx context.Context, seq uint64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	m, err := j.stream.GetMsg(ctx, seq)
	if err != nil {
		return "", fmt.Errorf("bus: batch at %d: %w", seq, err)
	}
	return m.Header.Get(jetstream.MsgIDHeader), nil
}
