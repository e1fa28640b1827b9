package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/chain"
)

// Bounds of one append. Who appends bounds the whole.
const (
	publishTimeout = 3 * time.Second // of one publish, and of one read-back
	appendAttempts = 3
)

// Journal is the director's journal: batches in one stream, each of which names the digest of those before it
// (package chain), and snapshots of the state that they lead to.
type Journal struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	store   jetstream.ObjectStore
	subject string
	fleet   string
	log     *zap.Logger

	archive  Archive
	shared   bool          // its server was joined: other directors may have archived parts of it
	leads    func() bool   // see Options.Leads
	mirror   *chain.Mirror // of the head, outside of the stream; nil: none
	readOnly bool          // nothing on this machine is changed: somebody else may be doing that
	aheads   chan struct{} // a token for each request of those who read ahead

	mu       sync.Mutex
	identity identity // of the journal that is there
	head     Head     // up to which this process has read or written
	// the furthest that a journal is known to have gone: by this process, or by the mirror when the bus was opened
	known chain.Mark
}

func (j *Journal) close() error {
	if j == nil || j.mirror == nil {
		return nil
	}
	return j.mirror.Close()
}

// Head is the place in the journal up to which this process has read or written it.
func (j *Journal) Head() Head {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head
}

// ID names the journal that was there at the last look: one that replaces another has an id of its own.
func (j *Journal) ID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.identity.id
}

// mark is the furthest that the journal is known to have gone. One that ends before it was cut.
func (j *Journal) mark() chain.Mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.known
}

// of says whose batches a file has.
func (j *Journal) of() chain.Source {
	j.mu.Lock()
	defer j.mu.Unlock()
	return chain.Source{Fleet: j.fleet, Journal: j.identity.id}
}

// reached moves the head.
func (j *Journal) reached(h Head) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.head = h
	now := chain.Mark{Journal: j.identity.id, Head: h}
	if h.Seq >= j.known.Head.Seq {
		j.known = now
	}
	if j.mirror == nil {
		return
	}
	if err := j.mirror.Write(now); err != nil {
		j.log.Warn("journal.head is behind: it cannot be written", zap.Error(err))
	}
}

// mayChange is asked right before anything that writes over, or takes away: what the compare-and-set of an
// append does not guard.
func (j *Journal) mayChange() error {
	if j.leads != nil && !j.leads() {
		return ErrNotLeading
	}
	return nil
}

// Append writes one batch behind the sequence expectLast (0: an empty journal) and returns its own, which is
// durable as far as the server's SyncAlways goes. The journal must have been read up to there (Replay). batchID
// is unique for ever. ErrRefused: somebody else wrote. ErrUnsure: unknown, see there. Any other error: the
// batch is not in the journal as far as the server knows, or ctx ended; discard and reload.
func (j *Journal) Append(ctx context.Context, batchID string, expectLast uint64, data []byte) (uint64, error) {
	prev := j.Head()
	if prev.Seq != expectLast {
		if found, err := j.BatchID(ctx, expectLast+1); err == nil && found == batchID {
			return expectLast + 1, nil
		}
		return 0, fmt.Errorf("%w: expected last sequence %d, and it was read to %d", ErrRefused, expectLast, prev.Seq)
	}
	seq, err := j.append(ctx, batchID, prev, data)
	if err == nil {
		j.reached(prev.Next(batchID, data))
	}
	return seq, err
}

func (j *Journal) append(ctx context.Context, batchID string, prev Head, data []byte) (uint64, error) {
	expectLast := prev.Seq
	var last error
	for try := range appendAttempts {
		if try > 0 && !pause(ctx, backoff(try)) {
			break
		}
		seq, err := j.publish(ctx, batchID, prev, data)
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

func (j *Journal) publish(ctx context.Context, batchID string, prev Head, data []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	m := &nats.Msg{Subject: j.subject, Data: data, Header: nats.Header{chain.HeaderPrev: {prev.Digest.String()}}}
	ack, err := j.js.PublishMsg(ctx, m, jetstream.WithMsgID(batchID), jetstream.WithExpectLastSequence(prev.Seq))
	if err != nil {
		return 0, err
	}
	if ack.Sequence != prev.Seq+1 {
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
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// Check reports whether the server still has a journal that goes to a sequence. nil: it has, or does not answer.
func (j *Journal) Check(ctx context.Context, last uint64) error {
	info, err := j.stream.Info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("bus: the journal is gone from the server: %w", err)
	case err == nil && info.State.LastSeq < last:
		return fmt.Errorf("bus: the journal ends at %d, and %d were appended", info.State.LastSeq, last)
	}
	return nil
}

// BatchID returns the id that the batch at a sequence was appended with.
func (j *Journal) BatchID(ctx context.Context, seq uint64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	m, err := j.stream.GetMsg(ctx, seq)
	if err != nil {
		return "", fmt.Errorf("bus: batch at %d: %w", seq, err)
	}
	return m.Header.Get(jetstream.MsgIDHeader), nil
}
