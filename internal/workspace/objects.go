package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"retake/internal/safefile"
)

// objects is one git directory during one operation. Git works on its objects and refs, without a work tree.
type objects struct {
	git    *program
	op     string // for errors
	gitDir string
	lock   *fileLock // inherited by git
}

// call prepares a git run on objects that an agent may have created.
func (o objects) call(args ...string) call {
	return call{op: o.op, dir: o.gitDir, gitDir: o.gitDir, lock: o.lock, args: args}
}

func (o objects) run(ctx context.Context, args ...string) (string, error) {
	return o.trimmed(ctx, o.call(args...))
}

// ask runs git on objects that were not created by an agent, so an exceeded limit causes ErrLimitTooLow.
func (o objects) ask(ctx context.Context, args ...string) (string, error) {
	c := o.call(args...)
	c.base = true
	return o.trimmed(ctx, c)
}

func (o objects) trimmed(ctx context.Context, c call) (string, error) {
	out, err := o.git.run(ctx, c)
	return strings.TrimSpace(out), err
}

// try runs a call for which git's exit code 1 means no.
func (o objects) try(ctx context.Context, c call) (out string, yes bool, err error) {
	c.asks = true
	out, err = o.git.run(ctx, c)
	if errors.Is(err, errNo) {
		return out, false, nil
	}
	return out, err == nil, err
}

// Git's object formats.
const (
	formatSHA1   = "sha1"
	formatSHA256 = "sha256"
)

// formatOf returns the object format of a SHA.
func formatOf(sha string) string {
	if len(sha) == 64 {
		return formatSHA256
	}
	return formatSHA1
}

// init creates a bare git directory without templates, and therefore without hooks. In an existing directory, it only
// removes leftovers of a killed git process and keeps the object format. An empty format means SHA-1.
func (o objects) init(ctx context.Context, format string) error {
	if err := safefile.MkdirAll(o.gitDir, 0o700); err != nil {
		return system(o.op, err)
	}
	if err := o.removeStaleLocks(); err != nil {
		return system(o.op, err)
	}
	_, missing := os.Lstat(filepath.Join(o.gitDir, "HEAD"))
	args := []string{"init", "--quiet", "--bare", "--template="}
	if missing != nil {
		args = append(args, "--object-format="+cmp.Or(format, formatSHA1))
	}
	_, err := o.ask(ctx, args...)
	if err == nil && missing != nil { // git syncs objects and refs, but not HEAD and config
		err = system(o.op, safefile.SyncDisk(o.gitDir))
	}
	return err
}

// removeStaleLocks removes lock files left by a killed git process. The caller holds the directory's lock, so no other
// git is running.
func (o objects) removeStaleLocks() error {
	return filepath.WalkDir(o.gitDir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path == filepath.Join(o.gitDir, "objects"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".lock"):
			return os.Remove(path)
		}
		return nil
	})
}

// resolve returns the SHA of a revision.
func (o objects) resolve(ctx context.Context, rev string) (string, error) {
	sha, err := o.ask(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev)
	if err == nil && !shaForm.MatchString(sha) {
		return "", refuse(o.op, "", "git printed an invalid SHA for %s: %.80q", rev, sha)
	}
	return sha, err
}

// hasTree reports whether a commit or tree is present. It returns only transient errors.
func (o objects) hasTree(ctx context.Context, sha string) (bool, error) {
	if sha == "" {
		return false, nil
	}
	_, err := o.ask(ctx, "cat-file", "-e", sha+"^{tree}")
	if KindOf(err) == Transient {
		return false, err
	}
	return err == nil, nil
}

func (o objects) isAncestor(ctx context.Context, a, b string) (bool, error) {
	_, yes, err := o.try(ctx, o.call("merge-base", "--is-ancestor", a, b))
	return yes, err
}

// parents returns the parents for a new commit on top of tip: tip itself, and base if tip does not contain it. If tip
// is empty, base is the only parent.
func (o objects) parents(ctx context.Context, tip, base string) ([]string, error) {
	if tip == "" {
		return []string{base}, nil
	}
	has, err := o.isAncestor(ctx, base, tip)
	if has {
		return []string{tip}, err
	}
	return []string{tip, base}, err
}

// mergedBase returns the newer of two commits: from, and the newest commit of the base branch that head contains.
func (o objects) mergedBase(ctx context.Context, from, head, base string) (string, error) {
	out, yes, err := o.try(ctx, o.call("merge-base", head, base))
	common := strings.TrimSpace(out)
	if err != nil {
		return "", err
	}
	if !yes || !shaForm.MatchString(common) {
		return from, nil
	}
	newer, err := o.isAncestor(ctx, from, common)
	if err != nil || !newer {
		return from, err
	}
	return common, nil
}

// commit writes a commit. The same arguments produce the same SHA.
func (o objects) commit(ctx context.Context, at time.Time, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	c := o.call(args...)
	c.env, c.stdin = identity(at), strings.NewReader(cleanMessage(message))
	return o.trimmed(ctx, c)
}

func (o objects) committedAt(ctx context.Context, commit string) (time.Time, error) {
	date, err := o.run(ctx, "log", "-1", "--format=%ct", commit)
	return unixTime(date), err
}

// object returns the SHA of the object at a path in a tree, or "" if the tree has no such path.
func (o objects) object(ctx context.Context, tree, name string) (string, error) {
	out, yes, err := o.try(ctx,
		o.call("rev-parse", "--verify", "--quiet", "--end-of-options", tree+":"+name))
	if !yes {
		return "", err
	}
	return strings.TrimSpace(out), nil
}

// content returns the content of the file at a path in a tree. Any other kind of object, such as a submodule's commit,
// has no content.
func (o objects) content(ctx context.Context, tree, name string) (string, error) {
	sha, err := o.object(ctx, tree, name)
	if err != nil || sha == "" {
		return "", err
	}
	c := o.call("cat-file", "--batch-check=%(objecttype)")
	c.stdin = strings.NewReader(sha + "\n")
	if kind, err := o.git.run(ctx, c); err != nil || kind != "blob\n" {
		return "", err
	}
	return o.blob(ctx, sha)
}

// maxBlob is the maximum number of bytes that blob returns.
const maxBlob = 64 << 20

func (o objects) blob(ctx context.Context, sha string) (string, error) {
	c := o.call("cat-file", "blob", sha)
	c.most = maxBlob
	return o.git.run(ctx, c)
}

// files lists the files of a commit for which wanted returns true.
func (o objects) files(ctx context.Context, commit string, wanted func(name string) bool) (names []string, err error) {
	c := o.call("ls-tree", "-r", "-z", "--name-only", commit)
	c.unbounded, c.base = true, true
	size := 0
	err = o.git.records(ctx, c, 0, func(record []byte) error {
		name := string(record)
		if !wanted(name) {
			return nil
		}
		if size += len(name); size > maxAnswer {
			return tooMuchSaid(c)
		}
		names = append(names, name)
		return nil
	})
	return names, err
}

// fileAt reads a file of a commit. If the file does not exist, the result's Name is empty.
func (o objects) fileAt(ctx context.Context, commit, name string, limit int) (BaseFile, error) {
	f := BaseFile{Commit: commit}
	line, err := o.ask(ctx, "ls-tree", "-z", commit, "--", name)
	if err != nil || line == "" {
		return f, err
	}
	f.Name = name
	fields := strings.Fields(line) // mode, type, object and name
	switch {
	case len(fields) < 4:
		return f, refuse(o.op, "", "git printed an invalid entry for %s: %.80q", name, line)
	case fields[0] == "120000":
		f.Odd = "a symbolic link"
	case fields[1] != "blob":
		f.Odd = "not a file"
	default:
		c := o.call("cat-file", "blob", fields[2])
		c.base, c.most = true, limit+1
		var text string
		text, err = o.git.run(ctx, c)
		f.Data = []byte(text)
	}
	return f, err
}
