package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// noteName is the only object in the store of a rebuild.
const noteName = "note"

// noteTimeout bounds the reading of the note.
const noteTimeout = 10 * time.Second

// NoteRebuild stores a note on the server, outside the journal, that the journal is being rebuilt. The next
// leader finds it.
func (j *Journal) NoteRebuild(ctx context.Context, note []byte) error {
	store, err := j.site.JS.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: j.site.rebuild(), Description: "a rebuild of the journal is under way", Replicas: j.site.Replicas,
	})
	if err == nil {
		_, err = store.PutBytes(ctx, noteName, note)
	}
	if err != nil {
		return fmt.Errorf("journal: object store %s: %w", j.site.rebuild(), err)
	}
	return nil
}

// RebuildNote returns the note, or nil.
func (j *Journal) RebuildNote(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	store, err := j.site.JS.ObjectStore(ctx, j.site.rebuild())
	var note []byte
	if err == nil {
		note, err = store.GetBytes(ctx, noteName)
	}
	if noStore(err) || errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal: object store %s: %w", j.site.rebuild(), err)
	}
	return note, nil
}

// ForgetRebuild removes the note after a rebuild.
func (j *Journal) ForgetRebuild(ctx context.Context) error {
	if err := j.site.JS.DeleteObjectStore(ctx, j.site.rebuild()); err != nil && !noStore(err) {
		return fmt.Errorf("journal: object store %s: %w", j.site.rebuild(), err)
	}
	return nil
}
