package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"retake/internal/safefile"
	"retake/internal/worktree"
)

// Apply makes the content of dir equal to want, which must have passed Check. have is the current content of dir. If
// have is nil, Apply scans dir first. Apply keeps all files in Retake's own directory. It calls fetch from several
// goroutines, so fetch must be safe for concurrent use, and chunks may arrive in any order. On error, Apply cancels the
// context of running fetches and waits for them to return. A failed Apply can be repeated.
func Apply(ctx context.Context, dir string, have, want *Tree, fetch func(context.Context, Digest) ([]byte,
	error),
) error {
	if have == nil {
		s := Scanner{Dir: dir, Limits: Unlimited}
		s.Know(want)
		var err error
		if have, err = s.Scan(ctx, true); err != nil {
			return err
		}
	}
	top, err := unix.Open(dir, folderFlags, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	a := applier{top: top, folder: top, had: map[string]*Entry{}}
	defer a.close()
	for i := range have.Entries {
		a.had[have.Entries[i].Path] = &have.Entries[i]
	}
	if err := a.remove(have, want); err != nil {
		return err
	}
	work, err := a.place(want)
	if err == nil {
		err = a.fill(ctx, work, fetch)
	}
	if err == nil {
		err = a.closeFolders(want)
	}
	return err
}

// Unlimited allows any directory. Use it only for content that has passed a check.
var Unlimited = Limits{Files: 1 << 40, Entries: 1 << 40, Depth: 1 << 20, PathBytes: 1 << 20, Bytes: 1 << 60}

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// applier writes into a directory. It opens each path step by step from the top without following links, so a link
// cannot lead it outside.
type applier struct {
	top    int // descriptor
	folder int // descriptor of the most recently used directory
	name   string
	had    map[string]*Entry // by path
}

func (a *applier) close() {
	if a.folder != a.top {
		_ = unix.Close(a.folder)
	}
	_ = unix.Close(a.top)
}

// in opens the parent directory of a path. The descriptor is valid until the next call.
func (a *applier) in(p string) (fd int, name string, err error) {
	dir, name := parentOf(p), path.Base(p)
	if dir == a.name {
		return a.folder, name, nil
	}
	at := a.top
	for step := range strings.SplitSeq(dir, "/") {
		if step == "" {
			break
		}
		next, err := unix.Openat(at, step, folderFlags, 0)
		if at != a.top {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, "", &fs.PathError{Op: "open directory", Path: Shortened([]byte(dir)), Err: err}
		}
		at = next
	}
	if a.folder != a.top {
		_ = unix.Close(a.folder)
	}
	a.folder, a.name = at, dir
	return at, name, nil
}

// remove deletes the entries that are missing from the wanted tree or have a different kind there. It also deletes all
// links, because place recreates the wanted ones. It deletes a directory's content before the directory itself.
func (a *applier) remove(have, want *Tree) error {
	wanted := make(map[string]Kind, len(want.Entries))
	for i := range want.Entries {
		wanted[want.Entries[i].Path] = want.Entries[i].Kind
	}
	for i := range slices.Backward(have.Entries) {
		e := &have.Entries[i]
		own := e.Path == worktree.OwnFolder || strings.HasPrefix(e.Path, worktree.OwnFolder+"/")
		if own || wanted[e.Path] == e.Kind && e.Kind != Link {
			continue
		}
		if err := a.clear(e.Path); err != nil {
			return err
		}
	}
	return nil
}

// clear removes the entry at a path, if it exists.
func (a *applier) clear(p string) error {
	fd, name, err := a.in(p)
	if err != nil {
		return gone(err)
	}
	err = unix.Unlinkat(fd, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		// Remove by descriptor, because the path could lead to another directory by now.
		err = safefile.RemoveAll("/proc/self/fd/" + strconv.Itoa(fd) + "/" + name)
	}
	if err = gone(err); err != nil {
		return &fs.PathError{Op: "remove", Path: Shortened([]byte(p)), Err: err}
	}
	return nil
}

// place creates directories and links, and corrects the mode and time of files that already have the right content. It
// returns the files that need content.
func (a *applier) place(want *Tree) (missing []*Entry, err error) {
	for i := range want.Entries {
		e := &want.Entries[i]
		had := a.had[e.Path]
		switch {
		case e.Kind == Folder:
			err = a.makeFolder(e)
		case e.Kind == Link:
			err = a.makeLink(e)
		case had == nil || !had.same(e):
			missing = append(missing, e)
		case had.Mode != e.Mode || had.Time != e.Time:
			err = a.adjust(e)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Shortened([]byte(e.Path)), err)
		}
	}
	return missing, nil
}

func (a *applier) makeFolder(e *Entry) error {
	fd, name, err := a.in(e.Path)
	if err != nil {
		return err
	}
	err = unix.Mkdirat(fd, name, 0o700)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return err
	}
	return errors.Join(a.clear(e.Path), unix.Mkdirat(fd, name, 0o700))
}

func (a *applier) makeLink(e *Entry) error {
	fd, name, err := a.in(e.Path)
	if err == nil {
		err = a.clear(e.Path) // the path may have an entry that is missing from the known tree
	}
	if err != nil {
		return err
	}
	return unix.Symlinkat(e.Target, fd, name)
}

// adjust sets the mode and time of an existing file.
func (a *applier) adjust(e *Entry) error {
	fd, name, err := a.in(e.Path)
	if err != nil {
		return err
	}
	file, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(file) }()
	if err := os.Chmod("/proc/self/fd/"+strconv.Itoa(file), fs.FileMode(e.Mode&0o777|0o600)); err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, name, times(e.Time), unix.AT_SYMLINK_NOFOLLOW)
}

func times(ns int64) []unix.Timespec {
	t := unix.NsecToTimespec(ns)
	return []unix.Timespec{t, t}
}

// closeFolders sets the final modes of directories, innermost first. Until then, directories must stay writable.
func (a *applier) closeFolders(want *Tree) error {
	for i := range slices.Backward(want.Entries) {
		e := &want.Entries[i]
		if e.Kind != Folder {
			continue
		}
		fd, name, err := a.in(e.Path)
		if err != nil {
			return err
		}
		folder, err := unix.Openat(fd, name, folderFlags, 0)
		if err == nil {
			err = errors.Join(unix.Fchmod(folder, e.Mode&0o777|0o700), unix.Close(folder))
		}
		if err != nil {
			return &fs.PathError{Op: "chmod", Path: Shortened([]byte(e.Path)), Err: err}
		}
	}
	return nil
}

// create creates a new file, replacing any existing entry.
func (a *applier) create(e *Entry) (*os.File, error) {
	fd, name, err := a.in(e.Path)
	if err == nil {
		err = a.clear(e.Path)
	}
	if err != nil {
		return nil, err
	}
	file, err := unix.Openat(fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: Shortened([]byte(e.Path)), Err: err}
	}
	return os.NewFile(uintptr(file), ""), nil
}

// finish gives a written file its size, mode and time.
func finish(f *os.File, e *Entry) error {
	err := errors.Join(f.Truncate(e.Size), f.Chmod(fs.FileMode(e.Mode&0o777|0o600)))
	if err == nil {
		err = unix.UtimesNanoAt(int(f.Fd()), "", times(e.Time), unix.AT_EMPTY_PATH)
	}
	return cmp.Or(errors.Join(err, f.Close()))
}
