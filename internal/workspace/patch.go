package workspace

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// patchBytes bounds a patch: it is for people to read.
const patchBytes = 1 << 20

// Patch returns what a task's work tree changes against the base of its checkout, as a unified diff: what an
// attempt left, delivered or not. Binary files are only named, and after 1 MiB it is cut. No worker may be in
// the checkout.
func (w *Workspaces) Patch(ctx context.Context, nonce string) (string, error) {
	op := "patch " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return "", err
	}
	return mended(ctx, w, op, nonce, func() (string, error) { return w.patchOnce(ctx, op, nonce) })
}

func (w *Workspaces) patchOnce(ctx context.Context, op, nonce string) (string, error) {
	t, rec, err := w.lockCheckout(ctx, op, nonce)
	if err != nil {
		return "", err
	}
	defer t.lock.unlock()
	tree, err := w.snapshot(ctx, t, rec.known())
	if err != nil {
		return "", err
	}
	diff := t.call("diff-tree", "--patch", "--no-color", "--no-ext-diff", "--no-textconv", rec.BaseSHA, tree)
	diff.most = patchBytes
	return w.git.run(ctx, diff)
}

// Unchanged reports whether a task's work tree has nothing to deliver. No worker may be in the checkout.
func (w *Workspaces) Unchanged(ctx context.Context, nonce string) (bool, error) {
	patch, err := w.Patch(ctx, nonce)
	return patch == "", err
}

// Patch is what a delivery would push.
type Patch struct {
	w       *Workspaces
	task    task
	changes []change
}

// PatchFile is one path that a patch changes.
type PatchFile struct {
	Path  string
	Link  bool  // a symbolic link: its content is its target
	Gone  bool  // deleted
	Bytes int64 // of its content

	was, is string
}

// Files lists what the patch changes, in git's order. A submodule has no content.
func (p *Patch) Files(ctx context.Context) ([]PatchFile, error) {
	files := make([]PatchFile, len(p.changes))
	var ask strings.Builder
	for i, c := range p.changes {
		files[i] = PatchFile{Path: c.path, Link: c.mode == modeLink, Gone: c.mode == modeNone, was: c.was, is: c.is}
		if p.hasContent(c) {
			ask.WriteString(c.is + "\n")
		}
	}
	next := 0 // answered next
	skip := func() {
		for next < len(files) && !p.hasContent(p.changes[next]) {
			next++
		}
	}
	sizes := p.task.call("cat-file", "--batch-check=%(objectsize)")
	sizes.stdin = strings.NewReader(ask.String())
	skip()
	err := p.w.git.records(ctx, sizes, '\n', func(record []byte) (err error) {
		if next == len(files) {
			return refuse(p.task.op, "", "git says how large something else is: %.80q", record)
		}
		if files[next].Bytes, err = strconv.ParseInt(string(record), 10, 64); err != nil {
			return refuse(p.task.op, "", "git says %.80q is as large as %.80q", files[next].Path, record)
		}
		next++
		skip()
		return nil
	})
	if err == nil && next < len(files) {
		err = refuse(p.task.op, "", "git does not say how large %.80q is", files[next].Path)
	}
	return files, err
}

func (p *Patch) hasContent(c change) bool { return c.mode != modeNone && c.mode != modeSubmodule }

const (
	batchBytes = 8 << 20 // are read at a time, or one file
	batchFiles = 10_000  // at most, however small
	maxHead    = 32      // bytes around a file: its size in digits, and two line breaks
)

// Read reads the contents of files of Files, in their order.
func (p *Patch) Read(ctx context.Context, files []PatchFile, each func(f PatchFile, content string) error) error {
	for len(files) > 0 {
		n, size := 0, int64(0)
		var ask strings.Builder
		for n < len(files) && n < batchFiles && (n == 0 || size+files[n].Bytes <= batchBytes) {
			size += files[n].Bytes
			ask.WriteString(files[n].is + "\n")
			n++
		}
		c := p.task.call("cat-file", "--batch=%(objectsize)")
		c.stdin, c.most = strings.NewReader(ask.String()), int(size)+n*maxHead
		out, err := p.w.git.run(ctx, c)
		if err != nil {
			return err
		}
		for _, f := range files[:n] {
			head, rest, _ := strings.Cut(out, "\n")
			if head != fmt.Sprint(f.Bytes) || int64(len(rest)) < f.Bytes+1 {
				return refuse(p.task.op, "", "git gives %.80q for %.80q", head, f.Path)
			}
			if err := each(f, rest[:f.Bytes]); err != nil {
				return err
			}
			out = rest[f.Bytes+1:]
		}
		files = files[n:]
	}
	return nil
}

// baseBytes bounds what is read of a file as it was before.
const baseBytes = 64 << 20

// ReadBase reads what the base has where a file of Files is; nothing if it has none.
func (p *Patch) ReadBase(ctx context.Context, f PatchFile) (string, error) {
	if f.was == "" {
		return "", nil
	}
	c := p.task.call("cat-file", "blob", f.was)
	c.most = baseBytes
	return p.w.git.run(ctx, c)
}
