package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// RemoveAll removes a folder with whatever its owner made of it: folders that may not be written (Go's module
// cache has such), and paths that are longer or deeper than the system takes in one piece. A missing one is
// fine, a link is removed itself. It holds at most openLevels+2 descriptors, however deep the folders are: what
// is deeper is first moved up to the top. Nothing is followed, and a removal that was interrupted can be begun
// again.
func RemoveAll(dir string) error {
	for range 2 { // once more for what was added meanwhile, such as by a process that had not ended
		err := removeTree(dir)
		if !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return removeTree(dir)
}

func removeTree(dir string) error {
	err := os.Remove(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	top, openErr := openFolder(unix.AT_FDCWD, dir)
	if openErr != nil {
		if errors.Is(openErr, unix.ENOENT) {
			return nil
		}
		return &fs.PathError{Op: "remove", Path: dir, Err: errors.Join(openErr, err)}
	}
	defer func() { _ = top.Close() }()
	r := remover{top: top, mark: fmt.Sprintf(".removed-%016x-", rand.Uint64())}
	for {
		gone, err := r.empty(top, 1)
		if err != nil {
			return &fs.PathError{Op: "remove below", Path: dir, Err: err}
		}
		if gone == 0 {
			if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
	}
}

// remover empties a folder.
type remover struct {
	top   *os.File
	mark  string // begins the names of folders that were moved to the top; nobody can guess it
	moved uint64
}

// renameat2 is a test's to replace: by a file system that has no RENAME_NOREPLACE.
var renameat2 = unix.Renameat2

// batch is how many names are read at a time.
const batch = 512

// empty removes what it finds in a folder, and returns how much that was. depth is 1 for the top.
func (r *remover) empty(dir *os.File, depth int) (gone int, err error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := r.remove(dir, name, depth); err != nil {
				return gone, err
			}
			gone++
		}
		// somebody else has removed it meanwhile
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 || errors.Is(err, unix.ENOENT) {
			return gone, nil
		}
		if err != nil {
			return gone, err
		}
	}
}

// remove removes what has a name in a folder. That somebody else did so meanwhile is fine at every step.
func (r *remover) remove(dir *os.File, name string, depth int) (err error) {
	defer func() {
		if errors.Is(err, unix.ENOENT) {
			err = nil
		}
	}()
	parent := int(dir.Fd())
	if err = unix.Unlinkat(parent, name, 0); err == nil {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%.80q: %w", name, err)
	}
	// most are empty, or will be on the second visit
	if err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); err == nil {
		return nil
	}
	folder, openErr := openFolder(parent, name)
	if openErr != nil {
		return fmt.Errorf("%.80q: %w", name, errors.Join(openErr, err))
	}
	defer func() { _ = folder.Close() }()
	if depth > openLevels {
		for {
			r.moved++
			to := r.mark + strconv.FormatUint(r.moved, 36)
			err := renameat2(parent, name, int(r.top.Fd()), to, unix.RENAME_NOREPLACE)
			// not every file system can; nobody else knows the name
			if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
				err = unix.Renameat(parent, name, int(r.top.Fd()), to)
			}
			if !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
	}
	for {
		gone, err := r.empty(folder, depth+1)
		if err != nil {
			return err
		}
		if gone == 0 {
			return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		}
	}
}

// openFolder opens a folder in another one to read and change it, also if its owner closed it. A link is not followed.
func openFolder(parent int, name string) (*os.File, error) {
	fd, err := openReadable(parent, name)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // root needs it not; whoever may not do it fails below
	}
	return os.NewFile(uintptr(fd), strings.ToValidUTF8(name, "?")), nil
}

// allow opens a folder of ours to ourselves. fchmodat(2) would follow a link that somebody put in its place.
func allow(parent int, name string) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
