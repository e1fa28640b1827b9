package bus

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
)

// keptSnapshots are the newest one, and its predecessor in case the newest is damaged.
const keptSnapshots = 2

const snapshotPrefix = "snapshot-"

// snapshotName returns a name that sorts like its sequence.
func snapshotName(seq uint64) string { return fmt.Sprintf("%s%020d", snapshotPrefix, seq) }

// envelope is the first line of a stored snapshot, before the state. Snapshots of older versions contain only
// the state.
type envelope struct {
	Version int    `json:"retake_snapshot"`
	Head    Head   `json:"head"`   // of the journal that leads to the state
	SHA256  string `json:"sha256"` // of the head's text and the state
}

const envelopeVersion = 1

func wrapSnapshot(h Head, state []byte) ([]byte, error) {
	line, err := json.Marshal(envelope{Version: envelopeVersion, Head: h, SHA256: sumOf(h, state)})
	return slices.Concat(line, []byte("\n"), state), err
}

func sumOf(h Head, state []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %s\n", h.Seq, h.Digest)
	sum.Write(state)
	return hex.EncodeToString(sum.Sum(nil))
}

func unwrapSnapshot(seq uint64, data []byte) (h Head, state []byte, err error) {
	line, state, _ := bytes.Cut(data, []byte("\n"))
	var e envelope
	if json.Unmarshal(line, &e) != nil || e.Version == 0 {
		return Head{Seq: seq}, data, nil //nolint:nilerr // a snapshot of an older version has no envelope
	}
	if e.Version != envelopeVersion {
		return Head{}, nil, fmt.Errorf("its envelope has version %d, want %d", e.Version, envelopeVersion)
	}
	if e.Head.Seq != seq || e.SHA256 != sumOf(e.Head, state) {
		return Head{}, nil, errors.New("its checksum is wrong")
	}
	return e.Head, state, nil
}

// SaveSnapshot stores the state at a head, and then removes all but the two newest readable snapshots. The
// caller may ignore an error, because the journal is still complete.
func (j *Journal) SaveSnapshot(ctx context.Context, at Head, state []byte) error {
	data, err := wrapSnapshot(at, state)
	if err == nil {
		err = j.mayChange()
	}
	if err == nil {
		meta := jetstream.ObjectMeta{Name: snapshotName(at.Seq), Metadata: map[string]string{metaID: j.of().Journal}}
		_, err = j.store.Put(ctx, meta, bytes.NewReader(data))
	}
	if err != nil {
		return fmt.Errorf("bus: save snapshot %d: %w", at.Seq, err)
	}
	if j.mirror != nil {
		if err := j.mirror.Sync(); err != nil {
			return fmt.Errorf("bus: journal.head: %w", err)
		}
	}
	all, err := j.snapshots(ctx)
	if err != nil {
		return err
	}
	kept := 0
	for _, seq := range all {
		if kept < keptSnapshots {
			_, _, err := j.getSnapshot(ctx, seq)
			if outage(err) {
				return fmt.Errorf("bus: snapshot %d: %w", seq, err)
			}
			if err == nil {
				kept++
				continue
			}
			j.log.Warn("a snapshot is forgotten, which cannot be read", zap.Uint64("seq", seq), zap.Error(err))
		}
		if err := j.mayChange(); err != nil {
			return fmt.Errorf("bus: forget snapshot %d: %w", seq, err)
		}
		if err := j.store.Delete(ctx, snapshotName(seq)); err != nil {
			return fmt.Errorf("bus: forget snapshot %d: %w", seq, err)
		}
	}
	return nil
}

// LoadSnapshot passes the newest snapshot to restore. If that snapshot cannot be read or restore rejects it,
// LoadSnapshot logs this and tries the one before. It returns the head of the restored snapshot, whose digest
// is unknown if the snapshot is older than the chain. If none can be restored it returns the zero Head, and the
// journal has to provide the whole state. An error means that the server did not answer.
func (j *Journal) LoadSnapshot(ctx context.Context, restore func(state []byte) error) (Head, error) {
	all, err := j.snapshots(ctx)
	if err != nil {
		return Head{}, err
	}
	var unread error
	for _, seq := range all {
		at, state, err := j.getSnapshot(ctx, seq)
		if err == nil {
			if err = restore(state); err == nil {
				return at, nil
			}
		} else if outage(err) {
			unread = fmt.Errorf("bus: load snapshot %d: %w", seq, err)
		}
		j.log.Warn("snapshot not used, taking what is before it", zap.Uint64("seq", seq), zap.Error(err))
	}
	return Head{}, unread // the live journal may begin after it
}

// Snapshot returns the state saved at a sequence, and the head that it follows.
func (j *Journal) Snapshot(ctx context.Context, seq uint64) (Head, []byte, error) {
	at, state, err := j.getSnapshot(ctx, seq)
	if err != nil {
		return Head{}, nil, fmt.Errorf("bus: snapshot %d: %w", seq, err)
	}
	return at, state, nil
}

// getSnapshot reads a snapshot. An error that is an outage says nothing about the snapshot. Any other error
// means that it is damaged. Chunks are requested one at a time, because the client's reader waits for a missing
// or damaged chunk as if the server were slow.
func (j *Journal) getSnapshot(ctx context.Context, seq uint64) (Head, []byte, error) {
	object, err := answered(ctx, readTimeout, func(ctx context.Context) (*jetstream.ObjectInfo, error) {
		return j.store.GetInfo(ctx, snapshotName(seq))
	})
	if err != nil {
		return Head{}, nil, err
	}
	stream, err := answered(ctx, readTimeout, func(ctx context.Context) (jetstream.Stream,
		error,
	) {
		return j.js.Stream(ctx, "OBJ_"+object.Bucket)
	})
	if err != nil {
		return Head{}, nil, err
	}
	subject, last, data := "$O."+object.Bucket+".C."+object.NUID, uint64(0), []byte(nil)
	for n := range object.Chunks {
		chunk, err := chunkBehind(ctx, stream, subject, last)
		if err != nil {
			return Head{}, nil, fmt.Errorf("%d of its %d chunks can be read: %w", n, object.Chunks, err)
		}
		last, data = chunk.Sequence, append(data, chunk.Data...)
	}
	sum := sha256.New()
	sum.Write(data)
	if jetstream.GetObjectDigestValue(sum) != object.Digest {
		return Head{}, nil, errors.New("its digest is wrong")
	}
	return unwrapSnapshot(seq, data)
}

// chunkBehind returns the next message of a subject. It requests a missing one again, because a replica may lag
// behind.
func chunkBehind(ctx context.Context, s jetstream.Stream, subject string,
	last uint64,
) (m *jetstream.RawStreamMsg, err error) {
	for try := range 3 {
		m, err = answered(ctx, readTimeout, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			return s.GetMsg(ctx, last+1, jetstream.WithGetMsgSubject(subject))
		})
		if !errors.Is(err, jetstream.ErrMsgNotFound) || !pause(ctx, backoff(try)) {
			break
		}
	}
	return m, err
}

// snapshots lists the sequences, newest first. It ignores snapshots of a replaced journal, whose writer did not
// yet know that it had lost the lease.
func (j *Journal) snapshots(ctx context.Context) ([]uint64, error) {
	objects, err := answered(ctx, readTimeout, func(ctx context.Context) ([]*jetstream.ObjectInfo,
		error,
	) {
		return j.store.List(ctx)
	})
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, fmt.Errorf("bus: list snapshots: %w", err)
	}
	var all []uint64
	for _, o := range objects {
		if seq, err := strconv.ParseUint(strings.TrimPrefix(o.Name, snapshotPrefix), 10, 64); err == nil &&
			!j.isReplaced(o.Metadata[metaID]) {
			all = append(all, seq)
		}
	}
	slices.SortFunc(all, func(a, b uint64) int { return cmp.Compare(b, a) })
	return all, nil
}
