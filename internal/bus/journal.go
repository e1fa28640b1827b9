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

// Bounds of one try to append. The caller of Append bounds the whole.
const (
	publishTimeout = 3 * time.Second // of one publish, and of one read-back
	appendAttempts = 3
)

// Journal is the director's journal. Its batches are in one stream, and each names the digest of all batches
// before it (package chain). It also keeps snapshots of the state that the batches lead to.
type Journal struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	store   jetstream.ObjectStore
	subject string
	fleet   string
	log     *zap.Logger

	archive  Archive
	shared   bool          // the server was joined, so other directors may have archived parts of the journal
	leads    func() bool   // see Options.Leads
	mirror   *chain.Mirror // copy of the head outside the stream, or nil
	readOnly bool          // changes nothing on this machine, because another process may be changing it
	aheads   chan struct{} // semaphore of the requests that read ahead

	mu       sync.Mutex
	identity identity // of the current journal
	head     Head     // up to here this process has read or written
	// the furthest known end of a journal, seen by this process or found in the mirror when the bus was opened
	known chain.Mark
}

func (j *Journal) close() error {
	if j == nil || j.mirror == nil {
		return nil
	}
	return j.mirror.Close()
}

// Head returns the position up to which this process has read or written the journal.
func (j *Journal) Head() Head {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head
}

// ID returns the id of the journal seen last. A replacement has another id.
func (j *Journal) ID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.identity.id
}

// mark returns the furthest known end of the journal. A journal that ends before it was truncated.
func (j *Journal) mark() chain.Mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.known
}

// of identifies the journal whose batches a file contains.
func (j *Journal) of() chain.Source {
	j.mu.Lock()
	defer j.mu.Unlock()
	return chain.Source{Fleet: j.fleet, Journal: j.identity.id}
}

// reached moves the head, and the mirror with it. A failing mirror is logged only.
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

// mayChange must be called immediately before overwriting or deleting anything, which the compare-and-set of an
// append does not protect.
func (j *Journal) mayChange() error {
	if j.leads != nil && !j.leads() {
		return ErrNotLeading
	}
	return nil
}

// Append writes one batch after the sequence expectLast (0 for an empty journal) and returns the batch's
// sequence. The batch is as durable as the server's SyncAlways setting makes it. The caller must have read the
// journal up to expectLast (Replay), and batchID must be globally unique.
//
// ErrRefused means that another process wrote first. ErrUnsure means that the batch may or may not be stored.
// After any other error, the batch is not in the journal as far as the server knows, or ctx has ended. The
// caller must then discard its state and reload.
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
		// A refusal may be caused by our earlier try, if that was stored. After a timeout, anything is
		// possible. The next message in the stream decides.
		switch found, err := j.BatchID(ctx, expectLast+1); {
		case err == nil && found == batchID:
			return expectLast + 1, nil
		case err == nil:
			return 0, fmt.Errorf("%w: expected last sequence %d", ErrRefused, expectLast)
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			last = errors.Join(last, err)
		case refused(last): // the journal is shorter than expected, so it is not the one we wrote
			return 0, fmt.Errorf("%w: the journal ends before sequence %d", ErrRefused, expectLast)
		}
		// Nothing is stored yet, but our message may be in transit. Publishing again with the same id and the
		// same expectation stores the batch once.
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

// definite reports whether the server itself answered.
func definite(err error) bool {
	_, answered := errors.AsType[*jetstream.APIError](err)
	return answered || !temporary(err)
}

// temporary reports whether an error is a missing answer, or one that leaves open whether the message was
// stored.
func temporary(err error) bool {
	return slices.ContainsFunc(noAnswerErrors, func(known error) bool { return errors.Is(err, known) })
}

func refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// Check returns an error if the journal on the server is gone or ends before last. It returns nil if the server
// does not answer.
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

// BatchID returns the id of the batch at a sequence.
func (j *Journal) BatchID(ctx context.Context, seq uint64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	m, err := j.stream.GetMsg(ctx, seq)
	if err != nil {
		return "", fmt.Errorf("bus: batch at %d: %w", seq, err)
	}
	return m.Header.Get(jetstream.MsgIDHeader), nil
}
