package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// noteName is the only object in the store of a rebuild.
const noteName = "note"

func (b *Bus) rebuildStore() string { return b.options.streamName("RETAKE_REBUILD") }

// noteTimeout bounds the reading of the note.
const noteTimeout = 10 * time.Second

// NoteRebuild stores a note on the server, outside the journal, that the journal is being rebuilt. The next
// leader finds it.
func (b *Bus) NoteRebuild(ctx context.Context, note []byte) error {
	store, err := b.ownJS.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: b.rebuildStore(), Description: "a rebuild of the journal is under way", Replicas: b.options.Replicas,
	})
	if err == nil {
		_, err = store.PutBytes(ctx, noteName, note)
	}
	if err != nil {
		return fmt.Errorf("bus: object store %s: %w", b.rebuildStore(), err)
	}
	return nil
}

// RebuildNote returns the note, or nil.
func (b *Bus) RebuildNote(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	store, err := b.ownJS.ObjectStore(ctx, b.rebuildStore())
	var note []byte
	if err == nil {
		note, err = store.GetBytes(ctx, noteName)
	}
	if noStore(err) || errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bus: object store %s: %w", b.rebuildStore(), err)
	}
	return note, nil
}

// ForgetRebuild removes the note after a rebuild.
func (b *Bus) ForgetRebuild(ctx context.Context) error {
	if err := b.ownJS.DeleteObjectStore(ctx, b.rebuildStore()); err != nil && !noStore(err) {
		return fmt.Errorf("bus: object store %s: %w", b.rebuildStore(), err)
	}
	return nil
}

func noStore(err error) bool {
	return errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}
