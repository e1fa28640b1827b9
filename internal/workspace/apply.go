package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Modes of git's tree entries.
const (
	modeNone       = "000000" // there is no such file
	modeExecutable = "100755"
	modeLink       = "120000"
	modeSubmodule  = "160000"
)

// change is one path that differs between two trees.
type change struct {
	path string
	mode string // in the second tree
	was  string // name of the object in the first tree; empty: there was no content
	is   string // in the second tree; of no meaning without content
}

// changes lists what differs between two trees, in git's order, renames as a deletion and an addition.
// ErrTooMuch: more than is kept.
func (w *Workspaces) changes(ctx context.Context, t task, from, to string) ([]change, error) {
	var all []change
	var next *change // its path comes now
	// :<old mode> <new mode> <old sha> <new sha> <status> NUL <path> NUL
	err := w.git.records(ctx, t.call("diff-tree", "-r", "-z", "--raw", "--no-renames", "--ignore-submodules=none", from,
		to), 0, func(record []byte) error {
		if next != nil {
			next.path = string(record)
			all, next = append(all, *next), nil
			return nil
		}
		fields := strings.Fields(string(record))
		if len(fields) != 5 {
			return refuse(t.op, "", "git compares two trees to %.80q", record)
		}
		next = &change{mode: fields[1], is: fields[3]}
		if had := strings.TrimPrefix(fields[0], ":"); had != modeNone && had != modeSubmodule {
			next.was = fields[2]
		}
		return nil
	})
	if err == nil && next != nil {
		err = refuse(t.op, "", "git compares two trees, and does not say all")
	}
	return all, err
}

// treeUpdate brings changes into a checkout. The tree is untrusted: paths are walked inside of it only, and a link is
// never followed, neither out of it nor within.
type treeUpdate struct {
	task    task     // its staging folder has the new files
	root    *os.Root // the checkout
	changes []change
	deleted map[string]bool // paths that the second tree doesn't have
}

func newTreeUpdate(t task, changes []change) (*treeUpdate, error) {
	root, err := os.OpenRoot(t.checkout())
	if err != nil {
		return nil, err
	}
	u := &treeUpdate{task: t, root: root, changes: changes, deleted: map[string]bool{}}
	for _, c := range changes {
		if c.mode == modeNone {
			u.deleted[c.path] = true
		}
	}
	return u, nil
}

func (u *treeUpdate) close() error { return errors.Join(u.root.Close(), u.task.clearStage()) }

// blocked lists the paths that cannot get what they shall because something that git doesn't know is in the
// way: a folder with ignored files where a file shall be, an ignored file or link where a folder shall be. An
// ignored file in the place of a file is not in the way: that it is ignored says that it can be made again.
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
		free := u.deleted[parent] // then it makes way, and nothing else can be at the path
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

// replacedParent returns the first folder of the path that is something else, such as a link to a folder; "" if
// all that exist are folders.
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

// replaceable tells whether what lies at the path itself may be replaced.
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

// apply makes the changes, the deletions first. It may be repeated after having stopped anywhere.
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

// remove removes the file and the folders that are empty then. A submodule's folder stays while there is
// something in it.
func (u *treeUpdate) remove(name string) error {
	if replaced, err := u.replacedParent(name); err != nil || replaced != "" {
		return err // what was there is gone, another file took its folder's place
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

// put replaces what is at the path with a new file. Nothing is written through what was there.
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
	in, err := os.Open(staged) // in a folder of ours, that git wrote
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
