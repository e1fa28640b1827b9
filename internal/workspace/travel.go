package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.uber.org/zap"

	"retake/internal/checkpoint"
	"retake/internal/safefile"
)

// A travelling checkout is the director's copy of a work tree used by a worker on another machine. The director
// publishes it before an attempt and receives the attempt's changes afterwards, so the two trees never change at the
// same time.

// Publish calls emit with the chunks of a task's work tree. It returns the manifest, and the record that Receive needs
// on a machine without the checkout. before, if not nil, describes content that is already in the store. The caller
// calls Published once the store has all chunks. No worker may be in the checkout.
func (w *Workspaces) Publish(ctx context.Context, nonce string, before *checkpoint.Tree,
	emit func(checkpoint.Digest, []byte) error,
) (*checkpoint.Manifest, json.RawMessage, error) {
	t, err := w.tasks.open(ctx, "publish "+nonce, nonce)
	if err != nil {
		return nil, nil, err
	}
	defer t.lock.unlock()
	m, err := w.snapshots.manifest(ctx, t.op, t.checkout(), before, emit)
	if err != nil {
		return nil, nil, err
	}
	t.rec.Manifest, t.rec.Changed = &m.Root, false
	record, err := json.Marshal(t.rec)
	return m, record, system(t.op, err)
}

// PublishValidation is like Publish, but for the directory created by Validation, from which the director never
// receives files. PublishValidation reads every file, because a worker that misreports its files could otherwise
// validate a tree other than the delivered one.
func (w *Workspaces) PublishValidation(ctx context.Context, nonce string,
	emit func(checkpoint.Digest, []byte) error,
) (*checkpoint.Manifest, error) {
	t, err := w.tasks.find("publish the copy of "+nonce, nonce)
	if err != nil {
		return nil, err
	}
	return w.snapshots.manifest(ctx, t.op, t.validation(), nil, emit)
}

func (s *snapshots) manifest(ctx context.Context, op, dir string, before *checkpoint.Tree,
	emit func(checkpoint.Digest, []byte) error,
) (*checkpoint.Manifest, error) {
	scan := checkpoint.Scanner{Dir: dir, Limits: s.limits.tree(), Emit: emit}
	if before != nil {
		scan.Know(before)
	}
	tree, err := scan.Scan(ctx, true)
	var m *checkpoint.Manifest
	if err == nil {
		m, err = tree.Encode(emit)
	}
	return m, system(op, exceeded(op, err))
}

// exceeded turns a *checkpoint.Exceeded error into ErrTooMuch.
func exceeded(op string, err error) error {
	if over, ok := errors.AsType[*checkpoint.Exceeded](err); ok {
		return tooMuch(op, "%s", over.Text)
	}
	return err
}

// Published records that the manifest now describes the task's work tree.
func (w *Workspaces) Published(ctx context.Context, nonce string, root checkpoint.Digest) error {
	t, err := w.tasks.open(ctx, "record the publication of "+nonce, nonce)
	if err != nil {
		return err
	}
	defer t.lock.unlock()
	t.rec.Manifest, t.rec.Changed = &root, false
	return t.save()
}

// Record returns the record that Receive needs on a machine without the checkout, or nil if this machine does not have
// the checkout. changed means that the files have changed since the last Publish or Receive. The record is then useful
// only together with the files of a later Publish.
func (w *Workspaces) Record(nonce string) (data json.RawMessage, changed bool) {
	data, err := os.ReadFile(w.tasks.at("read the record", nonce).file())
	var rec record
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err != nil {
		return nil, false
	}
	return data, rec.Changed && !rec.Fresh
}

// Sent is a checkout sent by a worker on another machine.
type Sent struct {
	Root   checkpoint.Digest
	Record json.RawMessage // from Publish or Record; if nil, the checkout must exist here
	// Load loads the manifest. Nil means that there are no files to receive, so a checkout restored by Receive has no
	// work tree, as after Fresh.
	Load  func(context.Context) (*checkpoint.Manifest, error)
	Fetch func(context.Context, checkpoint.Digest) ([]byte, error)
	// Replace replaces Record in its store, and fails if the store no longer has it. Receive calls Replace before a
	// restored checkout becomes valid on this machine.
	Replace func(context.Context, json.RawMessage) error
}

// Receive makes a task's work tree equal to a sent one, unless the two are already equal or the work tree was
// discarded. With a sent record, it also restores the checkout and its git directory in three cases:
//
//   - This machine has no checkout, as after a takeover.
//   - The checkout is older, because another director led in the meantime.
//   - The checkout does not descend from the sent one.
//
// No worker may be in the checkout. Receive may be repeated after an interruption at any point.
func (w *Workspaces) Receive(ctx context.Context, nonce string, sent Sent) error {
	t, err := w.tasks.lock(ctx, "receive "+nonce, nonce)
	if err != nil {
		return err
	}
	defer t.lock.unlock()
	err = t.load()
	rec := &t.rec
	same := rec.Manifest != nil && *rec.Manifest == sent.Root
	// The checkout is unusable if it was created or merged independently of the sent one.
	usable := err == nil && (same || rec.Manifest != nil && !rec.Changed)
	switch {
	case err != nil && !errors.Is(err, ErrNoCheckout) && !errors.Is(err, ErrLost): // the local state is unknown
		return err
	case sent.Record != nil && (newer(sent.Record, rec.Remade) || !usable && !rec.Fresh):
		return w.restore(ctx, t, sent)
	case rec.Fresh, sent.Load == nil, err == nil && same:
		return nil
	case err != nil:
		return err
	}
	if err := w.trees.ensureMounted(ctx, t); err != nil {
		return err
	}
	if err := w.snapshots.receive(ctx, t, sent); err != nil {
		return err
	}
	rec.Manifest, rec.Changed = &sent.Root, false
	return t.save()
}

// newer reports whether the record's Remade count is greater than remade. An unreadable record does not count as newer.
func newer(data json.RawMessage, remade int) bool {
	var rec record
	return json.Unmarshal(data, &rec) == nil && rec.Remade > remade
}

// Newer reports whether record a is newer than another director's record b.
func Newer(a, b json.RawMessage) bool {
	var rec record
	return json.Unmarshal(b, &rec) == nil && newer(a, rec.Remade)
}

// receive writes a sent tree into the work tree and syncs it.
func (s *snapshots) receive(ctx context.Context, t *task, sent Sent) error {
	m, err := sent.Load(ctx)
	if err == nil {
		err = m.Tree.Check(s.limits.tree())
	}
	if err == nil {
		err = checkpoint.Apply(ctx, t.checkout(), nil, m.Tree, sent.Fetch)
	}
	if err == nil {
		err = safefile.SyncDisk(t.checkout())
	}
	return system(t.op, exceeded(t.op, err))
}

// restore recreates another director's checkout. It saves the record last, because a checkout is valid only with its
// record.
func (w *Workspaces) restore(ctx context.Context, t *task, sent Sent) error {
	rec, err := parseRecord(sent.Record, t.nonce)
	if err != nil {
		return lost(t.op, fmt.Errorf("the record of the sent checkout is unusable: %w", err))
	}
	r, err := parseRemote(t.op, rec.Remote)
	if err == nil {
		err = checkRepo(t.op, rec.Repo)
	}
	if err != nil {
		return err
	}
	w.log.Info("restoring sent checkout", zap.String("task", t.nonce), zap.String("repo", rec.Repo))
	if _, err := w.mirrors.head(ctx, rec.Repo, rec.BaseBranch, r); err != nil {
		return err
	}
	if err := errors.Join(t.unmount(), safefile.RemoveAll(t.dir), safefile.MkdirAll(t.dir, 0o700)); err != nil {
		return system(t.op, err)
	}
	rec.Manifest, rec.Merge, rec.Changed = &sent.Root, nil, false
	rec.Remade++
	rec.Fresh = rec.Fresh || sent.Load == nil
	t.rec = rec
	if !rec.Fresh {
		if err := w.trees.create(ctx, t); err != nil {
			return system(t.op, err)
		}
		if err := w.snapshots.receive(ctx, t, sent); err != nil {
			return err
		}
	}
	record, err := json.Marshal(rec)
	if err == nil {
		err = sent.Replace(ctx, record)
	}
	if err != nil {
		return system(t.op, err)
	}
	return w.repairs.rebuild(ctx, t, r, fs.ErrNotExist)
}
