package journal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
)

// keptSnapshots is the number of snapshots to keep. The older snapshot is used if the newest is damaged.
const keptSnapshots = 2

const snapshotPrefix = "snapshot-"

// snapshotName returns the name of a snapshot. Names sort by sequence.
func snapshotName(seq uint64) string { return fmt.Sprintf("%s%020d", snapshotPrefix, seq) }

// envelope is the first line of a stored snapshot, before the state. Snapshots of older versions contain only
// the state.
type envelope struct {
	Version int        `json:"retake_snapshot"`
	Head    chain.Head `json:"head"`   // the state contains all batches up to this head
	SHA256  string     `json:"sha256"` // digest of the head's text and the state
}

const envelopeVersion = 1

func wrapSnapshot(h chain.Head, state []byte) ([]byte, error) {
	line, err := json.Marshal(envelope{Version: envelopeVersion, Head: h, SHA256: sumOf(h, state)})
	return slices.Concat(line, []byte("\n"), state), err
}

func sumOf(h chain.Head, state []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %s\n", h.Seq, h.Digest)
	sum.Write(state)
	return hex.EncodeToString(sum.Sum(nil))
}

func unwrapSnapshot(seq uint64, data []byte) (h chain.Head, state []byte, err error) {
	line, state, _ := bytes.Cut(data, []byte("\n"))
	var e envelope
	if json.Unmarshal(line, &e) != nil || e.Version == 0 {
		return chain.Head{Seq: seq}, data, nil //nolint:nilerr // a snapshot of an older version has no envelope
	}
	if e.Version != envelopeVersion {
		return chain.Head{}, nil, fmt.Errorf("envelope has version %d, want %d", e.Version, envelopeVersion)
	}
	if e.Head.Seq != seq || e.SHA256 != sumOf(e.Head, state) {
		return chain.Head{}, nil, errors.New("checksum mismatch")
	}
	return e.Head, state, nil
}

// snapshots stores the director's states in an object store.
type snapshots struct {
	js       jetstream.JetStream
	store    jetstream.ObjectStore
	position *position
	leads    link.Leads
	log      *zap.Logger
}

func (s *snapshots) put(ctx context.Context, at chain.Head, state []byte) error {
	data, err := wrapSnapshot(at, state)
	if err == nil {
		err = s.leads.MayChange()
	}
	if err == nil {
		meta := jetstream.ObjectMeta{
			Name: snapshotName(at.Seq), Metadata: map[string]string{metaID: s.position.current().id},
		}
		_, err = s.store.Put(ctx, meta, bytes.NewReader(data))
	}
	return err
}

// prune removes all snapshots except the keptSnapshots newest readable ones.
func (s *snapshots) prune(ctx context.Context) error {
	all, err := s.list(ctx)
	if err != nil {
		return err
	}
	kept := 0
	for _, seq := range all {
		if kept < keptSnapshots {
			_, _, err := s.get(ctx, seq)
			if link.Outage(err) {
				return fmt.Errorf("journal: snapshot %d: %w", seq, err)
			}
			if err == nil {
				kept++
				continue
			}
			s.log.Warn("unreadable snapshot removed", zap.Uint64("seq", seq), zap.Error(err))
		}
		err := s.leads.MayChange()
		if err == nil {
			err = s.store.Delete(ctx, snapshotName(seq))
		}
		if err != nil {
			return fmt.Errorf("journal: remove snapshot %d: %w", seq, err)
		}
	}
	return nil
}

func (s *snapshots) load(ctx context.Context, restore func(state []byte) error) (chain.Head, error) {
	all, err := s.list(ctx)
	if err != nil {
		return chain.Head{}, err
	}
	var unread error
	for _, seq := range all {
		at, state, err := s.get(ctx, seq)
		if err == nil {
			if err = restore(state); err == nil {
				return at, nil
			}
		} else if link.Outage(err) {
			unread = fmt.Errorf("journal: load snapshot %d: %w", seq, err)
		}
		s.log.Warn("could not use a snapshot; trying the previous one", zap.Uint64("seq", seq), zap.Error(err))
	}
	return chain.Head{}, unread // a full replay may be impossible without that snapshot
}

// get reads a snapshot. After an outage error (link.Outage), the snapshot may still be intact. Any other error means
// that the snapshot is damaged. get requests one chunk at a time, because the NATS client's reader cannot distinguish a
// missing chunk from a slow server.
func (s *snapshots) get(ctx context.Context, seq uint64) (chain.Head, []byte, error) {
	object, err := link.Answered(ctx, func(ctx context.Context) (*jetstream.ObjectInfo, error) {
		return s.store.GetInfo(ctx, snapshotName(seq))
	})
	if err != nil {
		return chain.Head{}, nil, err
	}
	stream, err := link.Answered(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return s.js.Stream(ctx, "OBJ_"+object.Bucket)
	})
	if err != nil {
		return chain.Head{}, nil, err
	}
	subject, last, data := "$O."+object.Bucket+".C."+object.NUID, uint64(0), []byte(nil)
	for n := range object.Chunks {
		chunk, err := chunkBehind(ctx, stream, subject, last)
		if err != nil {
			return chain.Head{}, nil, fmt.Errorf("only %d of %d chunks are readable: %w", n, object.Chunks, err)
		}
		last, data = chunk.Sequence, append(data, chunk.Data...)
	}
	sum := sha256.New()
	sum.Write(data)
	if jetstream.GetObjectDigestValue(sum) != object.Digest {
		return chain.Head{}, nil, errors.New("digest mismatch")
	}
	return unwrapSnapshot(seq, data)
}

// chunkBehind returns the first message on a subject after the given sequence. If the message is missing, it retries,
// because a replica may lag behind.
func chunkBehind(ctx context.Context, s jetstream.Stream, subject string,
	last uint64,
) (m *jetstream.RawStreamMsg, err error) {
	for try := range 3 {
		m, err = link.Answered(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			return s.GetMsg(ctx, last+1, jetstream.WithGetMsgSubject(subject))
		})
		if !errors.Is(err, jetstream.ErrMsgNotFound) || !link.Pause(ctx, link.Backoff(try)) {
			break
		}
	}
	return m, err
}

// list returns the sequences of the snapshots, newest first. It ignores snapshots of a replaced journal, which a
// director may write until it notices that it has lost the lease.
func (s *snapshots) list(ctx context.Context) ([]uint64, error) {
	objects, err := link.Answered(ctx, func(ctx context.Context) ([]*jetstream.ObjectInfo, error) {
		return s.store.List(ctx)
	})
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, fmt.Errorf("journal: list snapshots: %w", err)
	}
	var all []uint64
	for _, o := range objects {
		if seq, err := strconv.ParseUint(strings.TrimPrefix(o.Name, snapshotPrefix), 10, 64); err == nil &&
			!s.position.isReplaced(o.Metadata[metaID]) {
			all = append(all, seq)
		}
	}
	slices.SortFunc(all, func(a, b uint64) int { return cmp.Compare(b, a) })
	return all, nil
}
