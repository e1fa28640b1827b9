package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/safefile"
)

// ReplaceJournal sets a possibly damaged journal aside and begins a new, empty one without snapshots. All
// readable parts of the old journal are then in the file aside, in the format of an export, and its archive is
// in a directory beside it. The file must not exist. After a failure or an interruption, another call with
// another file completes the replacement.
func (b *Bus) ReplaceJournal(ctx context.Context, aside string) error {
	if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bus: replace the journal: %s is there already: name another file", aside)
	}
	if err := b.journal.salvage(ctx, aside); err != nil {
		return fmt.Errorf("bus: replace the journal: %w", err)
	}
	for _, remove := range []func(context.Context) error{b.setArchiveAside(aside), b.removeJournal, b.removeSnapshots} {
		if err := cmp.Or(b.journal.mayChange(), b.notReplaced(ctx)); err != nil {
			return fmt.Errorf("bus: replace the journal: %w", err)
		}
		if err := remove(ctx); err != nil {
			return fmt.Errorf("bus: replace the journal: %w", err)
		}
	}
	if err := b.ensureJournal(ctx, b.journal, nil, b.journal.next("")); err != nil {
		return fmt.Errorf("bus: replace the journal: %w", err)
	}
	return b.journal.begin(Head{})
}

// notReplaced returns ErrReplaced if another journal has taken the place of the known one. A missing journal is
// not an error.
func (b *Bus) notReplaced(ctx context.Context) error {
	s, err := b.ownJS.Stream(ctx, b.journalStream())
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case err != nil:
		return err
	}
	b.journal.mu.Lock()
	defer b.journal.mu.Unlock()
	if there := identityIn(s.CachedInfo().Config).id; there != "" && there != b.journal.identity.id {
		return ErrReplaced
	}
	return nil
}

func (b *Bus) setArchiveAside(aside string) func(context.Context) error {
	return func(context.Context) error {
		if b.options.Archive.Dir == "" {
			return nil
		}
		if err := safefile.Rename(b.options.Archive.Dir, aside+".segments"); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("archive: %w", err)
		}
		return nil
	}
}

func (b *Bus) removeJournal(ctx context.Context) error {
	if err := b.ownJS.DeleteStream(ctx, b.journalStream()); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	return nil
}

func (b *Bus) removeSnapshots(ctx context.Context) error {
	if err := b.ownJS.DeleteObjectStore(ctx, b.snapshotStore()); err != nil && !noStore(err) {
		return fmt.Errorf("snapshots: %w", err)
	}
	return nil
}

// begin resets the known state for a journal that begins after a head.
func (j *Journal) begin(after Head) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.beginLocked(after)
}

func (j *Journal) beginLocked(after Head) error {
	j.head, j.known = after, chain.Mark{Journal: j.identity.id, Head: after}
	if j.mirror == nil {
		return nil
	}
	if err := j.mirror.Reset(j.known); err != nil {
		return fmt.Errorf("bus: journal.head: %w", err)
	}
	return nil
}

// salvage writes everything readable, including gaps and broken links.
func (j *Journal) salvage(ctx context.Context, file string) error {
	first, last, err := j.bounds(ctx)
	if err != nil {
		return err
	}
	return chain.Salvage(file, j.of(), Head{Seq: max(first, 1) - 1}, func(w *chain.Writer) error {
		for seq := max(first, 1); seq <= last; seq++ {
			r, err := j.record(ctx, seq)
			if errors.Is(err, ErrDamaged) {
				continue
			}
			if err == nil {
				err = w.Add(r)
			}
			if err != nil {
				return err
			}
		}
		all, err := j.snapshots(ctx)
		if err != nil {
			return err
		}
		for _, seq := range all {
			at, state, err := j.getSnapshot(ctx, seq)
			if err == nil {
				err = w.State(chain.State{Head: at, Data: state})
			} else if !outage(err) {
				err = nil // the rest says nothing about it
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

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
