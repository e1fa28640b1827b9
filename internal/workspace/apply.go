package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Git tree entry modes.
const (
	modeNone       = "000000" // the tree has no such file
	modeExecutable = "100755"
	modeLink       = "120000"
	modeSubmodule  = "160000"
)

// change is one path that differs between two trees.
type change struct {
	path string
	mode string // git's mode in the second tree; modeNone means that the path was deleted
	was  string // SHA of the object in the first tree, or "" if that tree has no file or link there
	is   string // SHA of the object in the second tree; valid if hasContent
}

// hasContent reports whether the path is a file or link in the second tree.
func (c change) hasContent() bool { return c.mode != modeNone && c.mode != modeSubmodule }

// changes lists the differences between two trees in git's order. It lists a rename as a deletion and an addition, and
// returns ErrTooMuch if the list is too long.
func (o objects) changes(ctx context.Context, from, to string) ([]change, error) {
	var all []change
	var next *change // complete except for its path, which is the next record
	// :<old mode> <new mode> <old sha> <new sha> <status> NUL <path> NUL
	c := o.call("diff-tree", "-r", "-z", "--raw", "--no-renames", "--ignore-submodules=none", from, to)
	err := o.git.records(ctx, c, 0, func(record []byte) error {
		if next != nil {
			next.path = string(record)
			all, next = append(all, *next), nil
			return nil
		}
		fields := strings.Fields(string(record))
		if len(fields) != 5 {
			return refuse(o.op, "", "git diff-tree printed an unexpected line: %.80q", record)
		}
		next = &change{mode: fields[1], is: fields[3]}
		if had := strings.TrimPrefix(fields[0], ":"); had != modeNone && had != modeSubmodule {
			next.was = fields[2]
		}
		return nil
	})
	if err == nil && next != nil {
		err = refuse(o.op, "", "the output of git diff-tree is incomplete")
	}
	return all, err
}

// treeUpdate writes changes into a checkout. An agent may have changed the checkout, so treeUpdate resolves paths
// inside it and never follows links.
type treeUpdate struct {
	task    *task    // the new files are in this task's staging directory
	root    *os.Root // the checkout
	changes []change
	deleted map[string]bool // paths missing from the second tree
}

// openUpdate prepares to turn the work tree into the result of a merge, and stages the new files.
func openUpdate(ctx context.Context, t *task, m merge) (*treeUpdate, error) {
	changes, err := t.changes(ctx, m.Ours, m.Merged)
	if err != nil {
		return nil, err
	}
	changes = slices.DeleteFunc(changes, func(c change) bool {
		return c.path == retakeDir || strings.HasPrefix(c.path, retakeDir+"/")
	})
	root, err := os.OpenRoot(t.checkout())
	if err != nil {
		return nil, system(t.op, err)
	}
	u := &treeUpdate{task: t, root: root, changes: changes, deleted: map[string]bool{}}
	var names []string
	for _, c := range changes {
		if c.mode == modeNone {
			u.deleted[c.path] = true
		}
		if c.hasContent() {
			names = append(names, c.path)
		}
	}
	if err := t.stageFiles(ctx, m.Merged, names); err != nil {
		return nil, errors.Join(err, system(t.op, u.close()))
	}
	return u, nil
}

func (u *treeUpdate) close() error { return errors.Join(u.root.Close(), u.task.clearStage()) }

// checkBlocked returns ErrMergeConflict if untracked content blocks a path in the update.
func (u *treeUpdate) checkBlocked() error {
	paths, err := u.blocked()
	if err == nil && len(paths) > 0 {
		return conflict(u.task.op, paths)
	}
	return system(u.task.op, err)
}

// blocked lists the paths where untracked content blocks an update. Either a file would replace a directory with
// ignored files, or a directory would replace an ignored file or link. A new file may replace an ignored file, because
// ignored files can be regenerated.
func (u *treeUpdate) blocked() ([]string, error) {
	var paths []string
	for _, c := range u.changes {
		if c.mode == modeNone {
			continue
		}
		parent, err := u.replacedParent(c.path)
		if err != nil {
			return nil, err
		}
		free := u.deleted[parent] // the update deletes the file that occupies the parent's path
		if parent == "" {
			if free, err = u.replaceable(c); err != nil {
				return nil, err
			}
		}
		if !free {
			paths = append(paths, c.path)
		}
	}
	return paths, nil
}

// replacedParent returns the first parent of the path that is a file or a link instead of a directory, or "".
func (u *treeUpdate) replacedParent(name string) (string, error) {
	for i, r := range name {
		if r != '/' {
			continue
		}
		info, err := u.root.Lstat(name[:i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", nil
		case err != nil:
			return "", err
		case !info.IsDir():
			return name[:i], nil
		}
	}
	return "", nil
}

// replaceable reports whether the file or directory at the path may be replaced.
func (u *treeUpdate) replaceable(c change) (bool, error) {
	info, err := u.root.Lstat(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case !info.IsDir() || c.mode == modeSubmodule:
		return true, nil
	}
	free := true
	err = fs.WalkDir(u.root.FS(), c.path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		free = free && (d.IsDir() || u.deleted[p])
		return nil
	})
	return free, err
}

// apply carries out the changes, deletions first. After an interruption at any point, it may be called again.
func (u *treeUpdate) apply() error {
	for _, c := range u.changes {
		if c.mode == modeNone {
			if err := u.remove(c.path); err != nil {
				return err
			}
		}
	}
	for _, c := range u.changes {
		if c.mode != modeNone {
			if err := u.put(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file and any parent directories left empty. A submodule's directory stays unless it is empty.
func (u *treeUpdate) remove(name string) error {
	if replaced, err := u.replacedParent(name); err != nil || replaced != "" {
		return err // the file is already gone, because something else replaced its directory
	}
	for ; name != "."; name = path.Dir(name) {
		err := u.root.Remove(name)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// put writes the new version of a path. It first removes an existing file there, so it never writes through a link.
func (u *treeUpdate) put(c change) error {
	replaced, err := u.replacedParent(c.path)
	if err != nil {
		return err
	}
	if replaced != "" {
		return &fs.PathError{Op: "merge", Path: c.path, Err: syscall.ENOTDIR}
	}
	if err := u.root.MkdirAll(path.Dir(c.path), 0o777); err != nil {
		return err
	}
	info, err := u.root.Lstat(c.path)
	switch {
	case err == nil && c.mode == modeSubmodule && info.IsDir():
		return nil
	case err == nil:
		err = u.root.RemoveAll(c.path)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	staged := filepath.Join(u.task.stage(), filepath.FromSlash(c.path))
	switch c.mode {
	case modeSubmodule:
		return u.root.Mkdir(c.path, 0o777)
	case modeLink:
		target, err := os.Readlink(staged)
		if err != nil {
			return err
		}
		return u.root.Symlink(target, c.path)
	}
	return u.copy(staged, c)
}

func (u *treeUpdate) copy(staged string, c change) error {
	in, err := os.Open(staged) // git wrote it in a directory that agents cannot reach
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	mode := fs.FileMode(0o666)
	if c.mode == modeExecutable {
		mode = 0o777
	}
	out, err := u.root.OpenFile(c.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
