package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// noteName is the name of the only object in the rebuild store.
const noteName = "note"

// noteTimeout is the time limit for reading the note.
const noteTimeout = 10 * time.Second

// NoteRebuild stores a note on the server, outside the journal, while the director rebuilds the journal. If another
// director takes over, it finds the note and continues.
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

// RebuildNote returns the note stored by NoteRebuild, or nil.
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
