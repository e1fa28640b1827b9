package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// keptSnapshots: the newest, and the one before should it turn out damaged.
const keptSnapshots = 2

// snapshotTimeout bounds the reading of one snapshot: the client waits for a chunk that is lost as long as it may. Passing
// over a snapshot that is merely slow costs a longer replay, nothing else.
const snapshotTimeout = 10 * time.Second

const snapshotPrefix = "snapshot-"

// snapshotName sorts as text as its sequence does as a number.
func snapshotName(seq uint64) string { return fmt.Sprintf("%s%020d", snapshotPrefix, seq) }

// SaveSnapshot stores the state after sequence seq, then forgets all but the two newest. An error may be ignored: the
// journal is still whole.
func (j *Journal) SaveSnapshot(ctx context.Context, seq uint64, data []byte) error {
	if _, err := j.store.PutBytes(ctx, snapshotName(seq), data); err != nil {
		return fmt.Errorf("bus: save snapshot %d: %w", seq, err)
	}
	all, err := j.snapshots(ctx)
	if err != nil {
		return err
	}
	for _, old := range all[min(keptSnapshots, len(all)):] {
		if err := j.store.Delete(ctx, snapshotName(old)); err != nil {
			return fmt.Errorf("bus: forget snapshot %d: %w", old, err)
		}
	}
	return nil
}

// LoadSnapshot returns the newest snapshot that can be read; ok is false if there is none. A damaged one is named in the
// log and passed over. The error is for a store that does not answer.
func (j *Journal) LoadSnapshot(ctx context.Context) (seq uint64, data []byte, ok bool, err error) {
	all, err := j.snapshots(ctx)
	if err != nil {
		return 0, nil, false, err
	}
	for _, seq := range all {
		data, err := j.getSnapshot(ctx, seq)
		if err == nil {
			return seq, data, true, nil
		}
		if ctx.Err() != nil || !j.js.Conn().IsConnected() {
			return 0, nil, false, fmt.Errorf("bus: load snapshot %d: %w", seq, err)
		}
		j.log.Warn("snapshot cannot be read, taking the one before", zap.Uint64("seq", seq), zap.Error(err))
	}
	return 0, nil, false, nil
}

func (j *Journal) getSnapshot(ctx context.Context, seq uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	return j.store.GetBytes(ctx, snapshotName(seq))
}

// snapshots lists the sequences, newest first.
func (j *Journal) snapshots(ctx context.Context) ([]uint64, error) {
	objects, err := j.store.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, fmt.Errorf("bus: list snapshots: %w", err)
	}
	var all []uint64
	for _, o := range objects {
		if seq, err := strconv.ParseUint(strings.TrimPrefix(o.Name, snapshotPrefix), 10, 64); err == nil {
			all = append(all, seq)
		}
	}
	slices.SortFunc(all, func(a, b uint64) int { return cmp.Compare(b, a) })
	return all, nil
}
