package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
)

var (
	// ErrRefused means that another process appended to the journal first. It is permanent, so the writer must discard
	// its decisions.
	ErrRefused = errors.New("journal: append refused: another director is writing to this journal")
	// ErrUnsure means that an append was not acknowledged, and that reading it back failed. The batch may be stored.
	ErrUnsure = errors.New("journal: append not confirmed, so the server may or may not have stored the batch")
	// ErrSnapshot means that one of the stored snapshots cannot be read. Batches stay in the live journal until
	// SaveSnapshot has replaced that snapshot.
	ErrSnapshot = errors.New("journal: a snapshot cannot be read")
	// ErrReplaced means that another journal has replaced this journal. The caller can read the new journal from its
	// beginning.
	ErrReplaced = errors.New("journal: replaced by another journal")
	// ErrNone means that the server has no journal: its data is lost, or the journal was removed.
	ErrNone = errors.New("journal: the bus has lost the journal")
	// ErrNotEmpty means that Import was called on a journal that is not empty.
	ErrNotEmpty = errors.New("journal: not empty; set its batches aside first")
)

// Limits for Append, in addition to the caller's context.
const (
	publishTimeout = 3 * time.Second // limit on one publish, and on one read-back
	appendAttempts = 3
)

// Options configure where a journal is stored, and which changes are permitted.
type Options struct {
	JS      jetstream.JetStream
	Suffix  string // suffix of the stream and store names
	Subject string
	Fleet   string

	Archive  Archive
	Mirror   string     // file that records the end of the journal (see chain.Mirror); empty to disable
	Bytes    int64      // capacity of the stream
	Replicas int        // replicas of the stream and the stores
	Shared   bool       // set if other directors may have archived parts of the journal
	Leads    link.Leads // reports whether this process alone may change the journal
	Log      *zap.Logger
}

// Journal is the director's journal. Its methods are safe for concurrent use unless they state otherwise.
type Journal struct {
	site      site
	position  *position
	live      *live
	snapshots *snapshots
	archiver  *archiver
}

// Open opens or creates a journal.
func Open(ctx context.Context, o Options) (*Journal, error) { return open(ctx, o, chain.Mark{}) }

// Reopen opens the journal again, or recreates it if the server has lost it, and then closes j. The result keeps j's
// furthest known position. After an error, j can still be used.
func (j *Journal) Reopen(ctx context.Context, o Options) (*Journal, error) {
	next, err := open(ctx, o, j.position.mark())
	if err != nil {
		return nil, err
	}
	return next, j.Close()
}

func open(ctx context.Context, o Options, known chain.Mark) (*Journal, error) {
	p := newPosition(o)
	if o.Mirror != "" {
		var found bool
		var err error
		if p.mirror, p.known, found, err = chain.OpenMirror(o.Mirror, o.stream()); err != nil {
			return nil, err
		}
		if !found {
			o.Log.Info("created journal.head, because the end of the journal was unknown",
				zap.String("file", o.Mirror))
		}
	}
	if known.Head.Seq > p.known.Head.Seq {
		p.known = known
	}
	stream, store, err := site{o}.findOrBegin(ctx, p)
	if err == nil {
		_, err = p.recognise(p.identity)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return newJournal(o, p, stream, store), nil
}

// Find opens an existing journal for reading. It does not change any file on this machine, because another process may
// be writing to the journal.
func Find(ctx context.Context, o Options) (*Journal, error) {
	p := newPosition(o)
	p.readOnly = true
	stream, err := o.JS.Stream(ctx, o.stream())
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", o.stream(), err)
	}
	store, err := o.JS.ObjectStore(ctx, o.snapshots())
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", o.snapshots(), err)
	}
	if p.known, _, err = chain.ReadMirror(o.Mirror, o.stream()); err != nil {
		return nil, err
	}
	if _, err := p.recognise(identityIn(stream.CachedInfo().Config)); err != nil {
		return nil, err
	}
	return newJournal(o, p, stream, store), nil
}

func newJournal(o Options, p *position, stream jetstream.Stream, store jetstream.ObjectStore) *Journal {
	l := &live{stream: stream, aheads: make(chan struct{}, aheadAtOnce), position: p}
	s := &snapshots{js: o.JS, store: store, position: p, leads: o.Leads, log: o.Log}
	return &Journal{
		site: site{o}, position: p, live: l, snapshots: s,
		archiver: &archiver{live: l, snapshots: s, position: p, keep: o.Archive.Keep, leads: o.Leads, log: o.Log},
	}
}

// Close closes the mirror.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	return j.position.close()
}

// Head returns the head of the last batch that this process has read or written.
func (j *Journal) Head() chain.Head { return j.position.at() }

// ID returns the id of the last known journal. A replacement has a different id.
func (j *Journal) ID() string { return j.position.source().Journal }

// Append writes one batch after the sequence expectLast (0 for an empty journal) and returns the batch's
// sequence. The batch is as durable as the server's SyncAlways setting makes it. The caller must have read the
// journal up to expectLast (Replay), and batchID must be globally unique.
//
// ErrRefused means that another process wrote first. ErrUnsure means that the batch may or may not be stored. Any other
// error means that the server does not have the batch, or that ctx is done. The caller must then discard its state and
// reload.
func (j *Journal) Append(ctx context.Context, batchID string, expectLast uint64, data []byte) (uint64, error) {
	prev := j.Head()
	if prev.Seq != expectLast {
		if found, err := j.BatchID(ctx, expectLast+1); err == nil && found == batchID {
			return expectLast + 1, nil
		}
		return 0, fmt.Errorf("%w: expected last sequence %d, but the read ended at %d", ErrRefused, expectLast,
			prev.Seq)
	}
	seq, err := j.append(ctx, batchID, prev, data)
	if err == nil {
		j.position.reached(prev.Next(batchID, data))
	}
	return seq, err
}

func (j *Journal) append(ctx context.Context, batchID string, prev chain.Head, data []byte) (uint64, error) {
	expectLast := prev.Seq
	var last error
	for try := range appendAttempts {
		if try > 0 && !link.Pause(ctx, link.Backoff(try)) {
			break
		}
		seq, err := j.publish(ctx, batchID, prev, data)
		if err == nil {
			return seq, nil
		}
		last = err
		if definite(err) && !link.Refused(err) {
			return 0, fmt.Errorf("journal: append: %w", err)
		}
		// After a refusal, an earlier attempt may have been stored. After a timeout, this attempt may have been stored.
		// The next message in the stream shows whether the batch was stored.
		switch found, err := j.BatchID(ctx, expectLast+1); {
		case err == nil && found == batchID:
			return expectLast + 1, nil
		case err == nil:
			return 0, fmt.Errorf("%w: expected last sequence %d", ErrRefused, expectLast)
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			last = errors.Join(last, err)
		case link.Refused(last): // the journal is shorter than expected, so this process did not write it
			return 0, fmt.Errorf("%w: the journal ends before sequence %d", ErrRefused, expectLast)
		}
		// The batch is not stored, but our message may be in transit. Publishing it again with the same id and
		// expectation stores the batch only once.
	}
	return 0, fmt.Errorf("%w: batch %s: %w", ErrUnsure, batchID, errors.Join(last, ctx.Err()))
}

func (j *Journal) publish(ctx context.Context, batchID string, prev chain.Head, data []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	m := &nats.Msg{
		Subject: j.site.Subject, Data: data, Header: nats.Header{chain.HeaderPrev: {prev.Digest.String()}},
	}
	ack, err := j.site.JS.PublishMsg(ctx, m, jetstream.WithMsgID(batchID), jetstream.WithExpectLastSequence(prev.Seq))
	if err != nil {
		return 0, err
	}
	if ack.Sequence != prev.Seq+1 {
		return 0, fmt.Errorf("batch id %s was already used at sequence %d", batchID, ack.Sequence)
	}
	return ack.Sequence, nil
}

// definite reports whether a publish has a definite result. The result is unknown after a timeout or a lost connection.
func definite(err error) bool {
	_, answered := errors.AsType[*jetstream.APIError](err)
	return answered || !link.Temporary(err)
}

// Check returns an error if the journal on the server is gone or ends before last. It returns nil if the server
// does not answer.
func (j *Journal) Check(ctx context.Context, last uint64) error {
	info, err := j.live.stream.Info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("journal: missing on the server: %w", err)
	case err == nil && info.State.LastSeq < last:
		return fmt.Errorf("journal: truncated: last sequence %d, want at least %d", info.State.LastSeq, last)
	}
	return nil
}

// BatchID returns the id of the batch at a sequence.
func (j *Journal) BatchID(ctx context.Context, seq uint64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	m, err := j.live.stream.GetMsg(ctx, seq)
	if err != nil {
		return "", fmt.Errorf("journal: batch at %d: %w", seq, err)
	}
	return m.Header.Get(jetstream.MsgIDHeader), nil
}

// Crowded reports whether more than half of the live journal's capacity is used. Retire then archives even a few
// batches, because a full journal rejects appends.
func (j *Journal) Crowded(ctx context.Context) (bool, error) {
	info, err := j.live.info(ctx)
	if err != nil {
		return false, err
	}
	return crowded(info), nil
}

// Retire moves the batches covered by both kept snapshots into the archive, and removes expired segments. It writes and
// syncs a segment before it purges the stream. It does nothing while only a few batches can move. Only one goroutine
// may call it at a time, but Append may run concurrently.
func (j *Journal) Retire(ctx context.Context, now time.Time) error { return j.archiver.run(ctx, now) }

// SaveSnapshot stores the state at the given head, and then removes all snapshots except the two newest readable ones.
// The caller may ignore an error, because the journal stays complete.
func (j *Journal) SaveSnapshot(ctx context.Context, at chain.Head, state []byte) error {
	if err := j.snapshots.put(ctx, at, state); err != nil {
		return fmt.Errorf("journal: save snapshot %d: %w", at.Seq, err)
	}
	if err := j.position.sync(); err != nil {
		return fmt.Errorf("journal: journal.head: %w", err)
	}
	return j.snapshots.prune(ctx)
}

// LoadSnapshot passes the newest snapshot to restore. If that snapshot cannot be read or restore rejects it,
// LoadSnapshot logs the failure and tries the previous snapshot. It returns the head of the restored snapshot. The
// digest of the head is unknown if an older version wrote the snapshot. If all snapshots fail, LoadSnapshot returns the
// zero Head, and the caller must replay the whole journal. An error means that the server did not answer.
func (j *Journal) LoadSnapshot(ctx context.Context, restore func(state []byte) error) (chain.Head, error) {
	return j.snapshots.load(ctx, restore)
}

// Snapshot returns the snapshot at the given sequence, and its head.
func (j *Journal) Snapshot(ctx context.Context, seq uint64) (chain.Head, []byte, error) {
	at, state, err := j.snapshots.get(ctx, seq)
	if err != nil {
		return chain.Head{}, nil, fmt.Errorf("journal: snapshot %d: %w", seq, err)
	}
	return at, state, nil
}
