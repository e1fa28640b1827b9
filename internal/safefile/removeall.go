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

// RemoveAll removes a directory with all content that its owner created. This includes directories without write
// permission, such as Go's module cache, and paths too long or too deep for a single system call. A missing directory
// is not an error. RemoveAll removes links without following them. It first moves deeply nested directories to the top,
// so it holds at most openLevels+2 descriptors. After an interruption, call it again.
func RemoveAll(dir string) error {
	for range 2 { // retry, because an exiting process may still add files
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

// remover empties a directory.
type remover struct {
	top   *os.File
	mark  string // unguessable prefix of the directories moved to the top
	moved uint64
}

// renameat2 is a variable, so that a test can simulate a file system without RENAME_NOREPLACE.
var renameat2 = unix.Renameat2

// batch is the number of names to read at a time.
const batch = 512

// empty removes all entries that it finds in a directory, and returns their number. depth is 1 for the top.
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
		// ENOENT means that another process has removed the directory.
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 || errors.Is(err, unix.ENOENT) {
			return gone, nil
		}
		if err != nil {
			return gone, err
		}
	}
}

// remove removes one entry of a directory. At every step, another process may already have removed it.
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
	// most directories are empty, or become empty by the second visit
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
			// Not every file system supports the flag. The unguessable name also prevents a collision.
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

// openFolder opens a subdirectory so that its entries can be read and changed, even if its owner denied access. It does
// not follow links.
func openFolder(parent int, name string) (*os.File, error) {
	fd, err := openReadable(parent, name)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // root does not need this; for other users, the next step reports the error
	}
	return os.NewFile(uintptr(fd), strings.ToValidUTF8(name, "?")), nil
}

// allow grants the owner access to a directory. It avoids fchmodat(2), which would follow a link that an agent put in
// the directory's place.
func allow(parent int, name string) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
