package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"retake/internal/safefile"
)

// patchBytes is the maximum size of a patch in bytes. A person reads the patch, so a longer one is cut.
const patchBytes = 1 << 20

// Patch returns the difference between a task's work tree and the base of its checkout as a unified diff. The work need
// not have been delivered. Patch lists binary files by name only, and cuts the diff after 1 MiB. No worker may be in
// the checkout.
func (w *Workspaces) Patch(ctx context.Context, nonce string) (string, error) {
	return onCheckout(ctx, w, "patch "+nonce, nonce, func(t *task) (string, error) {
		shot, err := w.snapshots.take(ctx, t, t.rec.known())
		if err != nil {
			return "", err
		}
		diff := t.call("diff-tree", "--patch", "--no-color", "--no-ext-diff", "--no-textconv", t.rec.BaseSHA,
			shot.tree)
		diff.most = patchBytes
		return t.git.run(ctx, diff)
	})
}

// Unchanged reports whether a task's work tree equals its base. No worker may be in the checkout.
func (w *Workspaces) Unchanged(ctx context.Context, nonce string) (bool, error) {
	return onCheckout(ctx, w, "compare "+nonce, nonce, func(t *task) (bool, error) {
		shot, err := w.snapshots.take(ctx, t, t.rec.known())
		if err != nil || len(shot.left) > 0 {
			return false, err
		}
		base, err := t.ask(ctx, "rev-parse", t.rec.BaseSHA+"^{tree}")
		return base == shot.tree, err
	})
}

// Patch is the content that a delivery would push.
type Patch struct {
	// LeftOut are files of the work tree that the delivery cannot contain, at most 1,000 of each kind.
	LeftOut []LeftOut

	objects objects
	task    *task
	tree    string
	changes []change
	all     []change // all changes from the base, even changes that the branch already has
}

// PatchFile is one path that a patch changes.
type PatchFile struct {
	Path  string
	Link  bool  // a symbolic link; its content is the target
	Gone  bool  // deleted
	Old   bool  // the base has a file or link there
	Bytes int64 // size of the content

	was, is string
}

// Files lists the changed files in git's order. A submodule has no content.
func (p *Patch) Files(ctx context.Context) ([]PatchFile, error) {
	files := make([]PatchFile, len(p.changes))
	var contents []*PatchFile
	for i, c := range p.changes {
		files[i] = PatchFile{
			Path: c.path, Link: c.mode == modeLink, Gone: c.mode == modeNone, Old: c.was != "", was: c.was, is: c.is,
		}
		if c.hasContent() {
			contents = append(contents, &files[i])
		}
	}
	return files, p.setSizes(ctx, contents)
}

// All lists all files that differ from the base, without their sizes. Unlike Files, it includes files that the branch
// already has.
func (p *Patch) All() []PatchFile {
	files := make([]PatchFile, len(p.all))
	for i, c := range p.all {
		files[i] = PatchFile{Path: c.path, Link: c.mode == modeLink, Gone: c.mode == modeNone, Old: c.was != ""}
	}
	return files
}

// setSizes sets Bytes for files with content.
func (p *Patch) setSizes(ctx context.Context, files []*PatchFile) error {
	var ask strings.Builder
	for _, f := range files {
		ask.WriteString(f.is + "\n")
	}
	next := 0 // index of the file for git's next answer
	sizes := p.objects.call("cat-file", "--batch-check=%(objectsize)")
	sizes.stdin = strings.NewReader(ask.String())
	err := p.objects.git.records(ctx, sizes, '\n', func(record []byte) (err error) {
		if next == len(files) {
			return refuse(p.objects.op, "", "git printed more sizes than files: %.80q", record)
		}
		if files[next].Bytes, err = strconv.ParseInt(string(record), 10, 64); err != nil {
			return refuse(p.objects.op, "", "git printed an invalid size for %.80q: %.80q", files[next].Path, record)
		}
		next++
		return nil
	})
	if err == nil && next < len(files) {
		err = refuse(p.objects.op, "", "git did not print the size of %.80q", files[next].Path)
	}
	return err
}

// mostTarget is the maximum length of a link target, as on Linux. Links skips longer targets, because they cannot be
// followed.
const mostTarget = 4096

// Links returns the targets of all symbolic links in the delivered tree, changed or not, keyed by path.
func (p *Patch) Links(ctx context.Context) (map[string]string, error) {
	var links []PatchFile
	list := p.objects.call("ls-tree", "-r", "-z", p.tree)
	list.unbounded, list.base = true, true
	err := p.objects.git.records(ctx, list, 0, func(record []byte) error { // <mode> <type> <sha> TAB <path>
		about, name, _ := strings.Cut(string(record), "\t")
		if strings.HasPrefix(about, modeLink) {
			links = append(links, PatchFile{Path: name, Link: true, is: about[strings.LastIndexByte(about, ' ')+1:]})
		}
		return nil
	})
	if err != nil || len(links) == 0 {
		return nil, err
	}
	all := make([]*PatchFile, len(links))
	for i := range links {
		all[i] = &links[i]
	}
	if err := p.setSizes(ctx, all); err != nil {
		return nil, err
	}
	links = slices.DeleteFunc(links, func(f PatchFile) bool { return f.Bytes > mostTarget })
	targets := make(map[string]string, len(links))
	err = p.Read(ctx, links, func(f PatchFile, target string) error { targets[f.Path] = target; return nil })
	return targets, err
}

const (
	batchBytes = 8 << 20 // maximum bytes to read at a time, unless a single file is larger
	batchFiles = 10_000  // maximum files to read at a time
	maxHead    = 32      // bytes around a file in the answer: its size in digits, and two line breaks
)

// Read calls each with the content of every given file, in order. The files must be a subset of Files.
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
				return refuse(p.objects.op, "", "git printed %.80q for %.80q", head, f.Path)
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

// ReadBase returns a changed file's content in the base, or "" if the base has no such file.
func (p *Patch) ReadBase(ctx context.Context, f PatchFile) (string, error) {
	if f.was == "" {
		return "", nil
	}
	return p.objects.blob(ctx, f.was)
}

// Filtered is a changed file with a filter assigned by the delivered tree's .gitattributes. A git with that filter,
// such as LFS, would store the file in another form. Retake does not run filters.
type Filtered struct {
	Path   string
	Filter string
}

// Filtered lists the changed files that a filter would convert. It skips content that the base already has, under any
// name.
func (p *Patch) Filtered(ctx context.Context) ([]Filtered, error) {
	objects := map[string]string{} // by path
	var names strings.Builder
	for _, c := range p.changes {
		if c.hasContent() && c.mode != modeLink && c.is != c.was {
			objects[c.path] = c.is
			names.WriteString(c.path + "\x00")
		}
	}
	if len(objects) == 0 {
		return nil, nil
	}
	all, err := p.task.filters(ctx, p.tree, names.String())
	if err != nil || len(all) == 0 {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, f := range all {
		wanted[objects[f.Path]] = true
	}
	there, err := p.objects.among(ctx, p.task.rec.BaseSHA, wanted)
	if err != nil {
		return nil, err
	}
	var left []Filtered
	for _, f := range all {
		if !there[objects[f.Path]] {
			left = append(left, f)
		}
	}
	return left, nil
}

// filters returns the files of a tree that have a filter. names is the NUL-terminated list of files to check. It
// uses a separate git directory without info/attributes, so that the attributes of the tree apply.
func (t *task) filters(ctx context.Context, tree, names string) (all []Filtered, err error) {
	dir := filepath.Join(t.dir, "attributes")
	index := filepath.Join(dir, "index")
	defer func() { err = errors.Join(err, system(t.op, safefile.RemoveAll(dir))) }()
	config, err := os.ReadFile(filepath.Join(t.gitDir, "config"))
	if err == nil {
		err = errors.Join(safefile.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "refs"), 0o700),
			safefile.Create(filepath.Join(dir, "HEAD"), 0o600, strings.NewReader("ref: refs/heads/none\n")),
			safefile.Create(filepath.Join(dir, "config"), 0o600, bytes.NewReader(config)))
	}
	if err != nil {
		return nil, system(t.op, err)
	}
	read := t.call("read-tree", tree)
	read.env = []string{"GIT_INDEX_FILE=" + index}
	if _, err := t.git.run(ctx, read); err != nil {
		return nil, err
	}
	ask := t.call("check-attr", "--cached", "--stdin", "-z", "filter")
	ask.dir, ask.gitDir, ask.stdin, ask.unbounded = dir, dir, strings.NewReader(names), true
	ask.env = []string{read.env[0], "GIT_OBJECT_DIRECTORY=" + filepath.Join(t.gitDir, "objects")}
	var fields []string
	err = t.git.records(ctx, ask, 0, func(field []byte) error { // <path> NUL <attribute> NUL <value> NUL
		if fields = append(fields, string(field)); len(fields) < 3 {
			return nil
		}
		switch value := fields[2]; value {
		case "unspecified", "unset", "set": // not filter names
		default:
			all = append(all, Filtered{fields[0], value})
		}
		fields = fields[:0]
		return nil
	})
	return all, err
}

// among returns which of the wanted objects the tree of a commit contains.
func (o objects) among(ctx context.Context, commit string, wanted map[string]bool) (map[string]bool, error) {
	there := map[string]bool{}
	c := o.call("ls-tree", "-r", "-z", commit)
	c.unbounded, c.base = true, true
	err := o.git.records(ctx, c, 0, func(record []byte) error { // <mode> <type> <sha> TAB <path>
		about, _, _ := strings.Cut(string(record), "\t")
		if sha := about[strings.LastIndexByte(about, ' ')+1:]; wanted[sha] {
			there[sha] = true
		}
		return nil
	})
	return there, err
}
