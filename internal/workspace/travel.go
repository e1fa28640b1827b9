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

// A checkout that travels is a copy of what a worker has elsewhere. It is published before an attempt, and
// receives what the attempt has sent after it: never while somebody works in it.

// Publish hands the chunks of a task's work tree to emit, and returns its manifest, with the record that
// Receive needs where there is no checkout. before is where content is stored already; nil: nowhere. Published
// notes that it was. No worker may be in the checkout.
func (w *Workspaces) Publish(ctx context.Context, nonce string, before *checkpoint.Tree,
	emit func(checkpoint.Digest, []byte) error,
) (*checkpoint.Manifest, json.RawMessage, error) {
	op := "publish " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return nil, nil, err
	}
	t, rec, err := w.lockCheckout(ctx, op, nonce)
	if err != nil {
		return nil, nil, err
	}
	defer t.lock.unlock()
	m, err := w.manifest(ctx, op, t.checkout(), before, emit)
	if err != nil {
		return nil, nil, err
	}
	rec.Manifest, rec.Changed = &m.Root, false
	record, err := json.Marshal(rec)
	return m, record, system(op, err)
}

// PublishValidation is Publish for the folder that Validation made. Nothing comes back of it. Every file is
// read: what a worker has said of its own could have something else validated than is delivered.
func (w *Workspaces) PublishValidation(ctx context.Context, nonce string,
	emit func(checkpoint.Digest, []byte) error,
) (*checkpoint.Manifest, error) {
	op := "publish the copy of " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return nil, err
	}
	return w.manifest(ctx, op, w.task(op, nonce, nil).validation(), nil, emit)
}

func (w *Workspaces) manifest(ctx context.Context, op, dir string, before *checkpoint.Tree,
	emit func(checkpoint.Digest, []byte) error,
) (*checkpoint.Manifest, error) {
	s := checkpoint.Scanner{Dir: dir, Limits: w.limits.tree(), Emit: emit}
	if before != nil {
		s.Know(before)
	}
	tree, err := s.Scan(ctx, true)
	var m *checkpoint.Manifest
	if err == nil {
		m, err = tree.Encode(emit)
	}
	if over, ok := errors.AsType[*checkpoint.Exceeded](err); ok {
		err = tooMuch(op, "%s", over.Text)
	}
	return m, system(op, err)
}

// Published notes that a task's work tree is what a manifest says.
func (w *Workspaces) Published(ctx context.Context, nonce string, root checkpoint.Digest) error {
	op := "note what was published of " + nonce
	t, rec, err := w.lockCheckout(ctx, op, nonce)
	if err != nil {
		return err
	}
	defer t.lock.unlock()
	rec.Manifest, rec.Changed = &root, false
	return system(op, t.save(rec))
}

// Record is what Receive needs where there is no checkout; nil: there is none here either. changed: it goes
// with other files than were published or received last, so that it is of use only beside those of a later
// Publish.
func (w *Workspaces) Record(nonce string) (data json.RawMessage, changed bool) {
	data, err := os.ReadFile(w.task("read the record", nonce, nil).file())
	var rec record
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err != nil {
		return nil, false
	}
	return data, rec.Changed && !rec.Fresh
}

// Sent is what an attempt has sent of a task's checkout.
type Sent struct {
	Root   checkpoint.Digest
	Record json.RawMessage // of Publish, or of Record; nil: a checkout is needed
	// nil: the files are not wanted, the work tree is thrown away
	Load  func(context.Context) (*checkpoint.Manifest, error)
	Fetch func(context.Context, checkpoint.Digest) ([]byte, error)
	// Replace puts another record where Record was found, and fails if it is not there any more. It comes
	// before a checkout that is made again counts here.
	Replace func(context.Context, json.RawMessage) error
}

// Receive makes a task's work tree what was sent, unless it is, or was thrown away. With a record that was sent
// along it is made again with its git directory where there is none that can be used, as on a director that
// takes over, and where the one here is older, as on a director that leads again after another one did, or is
// not what was sent with a merge on top. No worker may be in the checkout. It may be repeated after having
// stopped anywhere.
func (w *Workspaces) Receive(ctx context.Context, nonce string, sent Sent) error {
	op := "receive " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return err
	}
	lock, err := w.lockTask(ctx, nonce)
	if err != nil {
		return err
	}
	defer lock.unlock()
	t := w.task(op, nonce, lock)
	rec, err := t.load()
	same := rec.Manifest != nil && *rec.Manifest == sent.Root
	// else it was begun, or merged, beside what was sent
	usable := err == nil && (same || rec.Manifest != nil && !rec.Changed)
	switch {
	case err != nil && !errors.Is(err, ErrNoCheckout) && !errors.Is(err, ErrLost): // what is here is not known
		return err
	case sent.Record != nil && (newer(sent.Record, rec.Remade) || !usable && !rec.Fresh):
		return w.restore(ctx, t, sent)
	case rec.Fresh, sent.Load == nil, err == nil && same:
		return nil
	case err != nil:
		return err
	}
	if err := w.ensureMounted(ctx, t); err != nil {
		return err
	}
	if err := w.put(ctx, t, sent); err != nil {
		return err
	}
	rec.Manifest, rec.Changed = &sent.Root, false
	return system(op, t.save(rec))
}

// newer reports whether a record is of a checkout that was made again more often. One that cannot be read is not.
func newer(data json.RawMessage, remade int) bool {
	var rec record
	return json.Unmarshal(data, &rec) == nil && rec.Remade > remade
}

// Newer reports whether a record is newer than another one, of another director.
func Newer(a, b json.RawMessage) bool {
	var rec record
	return json.Unmarshal(b, &rec) == nil && newer(a, rec.Remade)
}

// put writes what was sent into the work tree, synced.
func (w *Workspaces) put(ctx context.Context, t task, sent Sent) error {
	m, err := sent.Load(ctx)
	if err == nil {
		err = m.Tree.Check(w.limits.tree())
	}
	if over, ok := errors.AsType[*checkpoint.Exceeded](err); ok {
		return tooMuch(t.op, "%s", over.Text)
	}
	if err == nil {
		err = checkpoint.Apply(ctx, t.checkout(), nil, m.Tree, sent.Fetch)
	}
	if err == nil {
		err = safefile.SyncDisk(t.checkout())
	}
	return system(t.op, err)
}

// restore makes a checkout again that another director had. The record comes last: without one there is no checkout.
func (w *Workspaces) restore(ctx context.Context, t task, sent Sent) error {
	var rec record
	err := json.Unmarshal(sent.Record, &rec)
	if err == nil && (rec.Version != recordVersion || rec.Nonce != t.nonce || !shaForm.MatchString(rec.BaseSHA)) {
		err = fmt.Errorf("version %d, nonce %.20q, base %.40q", rec.Version, rec.Nonce, rec.BaseSHA)
	}
	if err != nil {
		return lost(t.op, fmt.Errorf("the record that was sent along cannot be used: %w", err))
	}
	r, err := parseRemote(t.op, rec.Remote)
	if err == nil {
		err = checkRepo(t.op, rec.Repo)
	}
	if err != nil {
		return err
	}
	w.log.Info("a checkout is made again from what was sent", zap.String("task", t.nonce), zap.String("repo", rec.Repo))
	if _, err := w.fetchBase(ctx, rec.Repo, rec.BaseBranch, r); err != nil {
		return err
	}
	if err := errors.Join(t.unmount(), safefile.RemoveAll(t.dir), safefile.MkdirAll(t.dir, 0o700)); err != nil {
		return system(t.op, err)
	}
	rec.Manifest, rec.Merge, rec.Changed = &sent.Root, nil, false
	rec.Remade++
	rec.Fresh = rec.Fresh || sent.Load == nil
	if !rec.Fresh {
		if err := w.makeCheckout(ctx, t); err != nil {
			return system(t.op, err)
		}
		if err := w.put(ctx, t, sent); err != nil {
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
	return w.renewTask(ctx, t, rec, r, fs.ErrNotExist)
}
