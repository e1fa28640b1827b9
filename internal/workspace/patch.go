package workspace

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// patchBytes bounds a patch, which is for people to read.
const patchBytes = 1 << 20

// Patch returns the changes of a task's work tree against the base of its checkout as a unified diff, delivered or
// not. Binary files are only named, and the diff is cut after 1 MiB. No worker may be in the checkout.
func (w *Workspaces) Patch(ctx context.Context, nonce string) (string, error) {
	return onCheckout(ctx, w, "patch "+nonce, nonce, func(t *task) (string, error) {
		tree, err := w.snapshots.take(ctx, t, t.rec.known())
		if err != nil {
			return "", err
		}
		diff := t.call("diff-tree", "--patch", "--no-color", "--no-ext-diff", "--no-textconv", t.rec.BaseSHA, tree)
		diff.most = patchBytes
		return t.git.run(ctx, diff)
	})
}

// Unchanged reports whether a task's work tree has nothing to deliver. No worker may be in the checkout.
func (w *Workspaces) Unchanged(ctx context.Context, nonce string) (bool, error) {
	patch, err := w.Patch(ctx, nonce)
	return patch == "", err
}

// Patch is the content that a delivery would push.
type Patch struct {
	objects objects
	changes []change
}

// PatchFile is one path that a patch changes.
type PatchFile struct {
	Path  string
	Link  bool  // a symbolic link, whose content is its target
	Gone  bool  // deleted
	Bytes int64 // of its content

	was, is string
}

// Files lists the changed files in git's order. A submodule has no content.
func (p *Patch) Files(ctx context.Context) ([]PatchFile, error) {
	files := make([]PatchFile, len(p.changes))
	var ask strings.Builder
	for i, c := range p.changes {
		files[i] = PatchFile{Path: c.path, Link: c.mode == modeLink, Gone: c.mode == modeNone, was: c.was, is: c.is}
		if c.hasContent() {
			ask.WriteString(c.is + "\n")
		}
	}
	next := 0 // index of the file in the next answer
	skip := func() {
		for next < len(files) && !p.changes[next].hasContent() {
			next++
		}
	}
	sizes := p.objects.call("cat-file", "--batch-check=%(objectsize)")
	sizes.stdin = strings.NewReader(ask.String())
	skip()
	err := p.objects.git.records(ctx, sizes, '\n', func(record []byte) (err error) {
		if next == len(files) {
			return refuse(p.objects.op, "", "git says how large something else is: %.80q", record)
		}
		if files[next].Bytes, err = strconv.ParseInt(string(record), 10, 64); err != nil {
			return refuse(p.objects.op, "", "git says %.80q is as large as %.80q", files[next].Path, record)
		}
		next++
		skip()
		return nil
	})
	if err == nil && next < len(files) {
		err = refuse(p.objects.op, "", "git does not say how large %.80q is", files[next].Path)
	}
	return files, err
}

const (
	batchBytes = 8 << 20 // read at a time, unless one file is larger
	batchFiles = 10_000  // read at a time
	maxHead    = 32      // bytes around a file: its size in digits, and two line breaks
)

// Read reads the contents of some of Files, in order.
func (p *Patch) Read(ctx context.Context, files []PatchFile, each func(f PatchFile, content string) error) error {
	for len(files) > 0 {
		n, size := 0, int64(0)
		var ask strings.Builder
		for n < len(files) && n < batchFiles && (n == 0 || size+files[n].Bytes <= batchBytes) {
			size += files[n].Bytes
			ask.WriteString(files[n].is + "\n")
			n++
		}
		c := p.objects.call("cat-file", "--batch=%(objectsize)")
		c.stdin, c.most = strings.NewReader(ask.String()), int(size)+n*maxHead
		out, err := p.objects.git.run(ctx, c)
		if err != nil {
			return err
		}
		for _, f := range files[:n] {
			head, rest, _ := strings.Cut(out, "\n")
			if head != fmt.Sprint(f.Bytes) || int64(len(rest)) < f.Bytes+1 {
				return refuse(p.objects.op, "", "git gives %.80q for %.80q", head, f.Path)
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

// ReadBase reads the base's version of one of Files. It is empty if the base has no such file.
func (p *Patch) ReadBase(ctx context.Context, f PatchFile) (string, error) {
	if f.was == "" {
		return "", nil
	}
	return p.objects.blob(ctx, f.was)
}
