package safefile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Entry is an entry found by Walk. It is valid only until the next callback.
type Entry struct {
	Path  []byte // relative to the walked directory
	Name  string // last element of Path
	Depth int    // 1 for an entry of the walked directory
	Dir   int    // descriptor of the parent directory
	Stat  unix.Stat_t
}

// IsDir reports whether the entry is a directory.
func (e *Entry) IsDir() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// Visitor receives the entries found by Walk.
type Visitor interface {
	// Visit is called for every entry below the walked directory, and for a directory before its entries. If it
	// returns fs.SkipDir, Walk skips the directory.
	Visit(e *Entry) error
	// Leave is called after all entries of a directory. Only e.Depth and e.Dir are set.
	Leave(e *Entry) error
}

// openLevels is the number of innermost directories that stay open. Walk reopens an outer directory as "..", and checks
// that it is the same directory.
const openLevels = 16

// listBytes is the size of the buffer for directory entries.
const listBytes = 8 << 10

// level is a directory that the walk has entered.
type level struct {
	fd       int // -1 while it is closed
	dev, ino uint64
	at       int64  // offset of the next entries in the directory
	list     []byte // buffer that contains rest
	rest     []byte // entries read but not visited yet
	path     int    // length of the directory's path
}

// Walk visits all entries below a directory in file system order. It returns the visitor's error unchanged. It may or
// may not visit entries that appear or disappear during the walk. If someone moves a directory while the walk is in it,
// Walk returns an error. It never leaves the walked directory, never follows links, and holds at most openLevels+2
// descriptors. Its memory use grows only with the depth. If a directory's owner cannot read and search it, Walk grants
// the owner access.
func Walk(ctx context.Context, dir string, v Visitor) (err error) {
	w := walk{ctx: ctx, visitor: v}
	defer func() {
		for _, l := range w.levels {
			if l.fd >= 0 {
				_ = unix.Close(l.fd)
			}
		}
	}()
	if err := w.enter(unix.AT_FDCWD, dir); err != nil {
		return &fs.PathError{Op: "walk", Path: dir, Err: err}
	}
	for len(w.levels) > 0 {
		more, err := w.next()
		if err == nil && !more {
			err = w.leave()
		}
		if err != nil {
			if w.ended {
				return err
			}
			return fmt.Errorf("walk %s: at %.200q: %w", dir, w.entry.Path, err)
		}
	}
	return nil
}

type walk struct {
	ctx     context.Context
	visitor Visitor
	levels  []level
	entry   Entry
	path    []byte
	lists   [][]byte // unused buffers
	ended   bool     // the visitor returned an error
}

// enter opens a subdirectory and continues there.
func (w *walk) enter(parent int, name string) error {
	fd, err := openReadable(parent, name)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return err
	}
	if n := len(w.levels) - openLevels; n > 0 && w.levels[n].fd >= 0 { // the walked directory stays open
		w.close(&w.levels[n])
	}
	if uid := unix.Geteuid(); uid != 0 && int(st.Uid) == uid && st.Mode&0o500 != 0o500 {
		_ = unix.Fchmod(fd, 0o700)
	}
	w.levels = append(w.levels, level{fd: fd, dev: st.Dev, ino: st.Ino, path: len(w.path)})
	return nil
}

func (w *walk) close(l *level) {
	_ = unix.Close(l.fd)
	if l.list != nil {
		w.lists = append(w.lists, l.list)
	}
	l.fd, l.list, l.rest = -1, nil, nil
}

// leave returns to the parent directory.
func (w *walk) leave() error {
	last := len(w.levels) - 1
	l := &w.levels[last]
	if last > 0 && w.levels[last-1].fd < 0 {
		around := &w.levels[last-1]
		fd, err := unix.Openat(l.fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		around.fd = fd
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Dev != around.dev || st.Ino != around.ino {
			return errors.New("a directory was moved while it was being read")
		}
		if _, err := unix.Seek(fd, around.at, unix.SEEK_SET); err != nil {
			return err
		}
	}
	w.path = w.path[:l.path]
	w.close(l)
	w.levels = w.levels[:last]
	if last == 0 {
		return nil
	}
	w.entry = Entry{Depth: last, Dir: w.levels[last-1].fd}
	err := w.visitor.Leave(&w.entry)
	w.ended = err != nil
	return err
}

// next visits the next entry of the current directory and enters it if it is a directory. It returns false at
// the end.
func (w *walk) next() (bool, error) {
	if err := w.ctx.Err(); err != nil {
		return false, err
	}
	l := &w.levels[len(w.levels)-1]
	if len(l.rest) == 0 {
		if n := len(w.lists); l.list == nil && n > 0 {
			l.list, w.lists = w.lists[n-1], w.lists[:n-1]
		} else if l.list == nil {
			l.list = make([]byte, listBytes)
		}
		n, err := unix.Getdents(l.fd, l.list)
		if n <= 0 || err != nil {
			return false, err
		}
		l.rest = l.list[:n]
	}
	// struct linux_dirent64: ino u64, off s64, reclen u16, type u8, name
	head := l.rest
	size := int(binary.NativeEndian.Uint16(head[16:]))
	l.at = int64(binary.NativeEndian.Uint64(head[8:])) //nolint:gosec // an opaque offset to seek to
	name := unix.ByteSliceToString(head[19:size])
	l.rest = head[size:]
	if name == "." || name == ".." {
		return true, nil
	}
	return true, w.visit(l, name)
}

func (w *walk) visit(l *level, name string) error {
	w.path = w.path[:l.path]
	if len(w.path) > 0 {
		w.path = append(w.path, '/')
	}
	w.path = append(w.path, name...)
	w.entry = Entry{Path: w.path, Name: name, Depth: len(w.levels), Dir: l.fd}
	err := unix.Fstatat(l.fd, name, &w.entry.Stat, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	dir, parent := w.entry.IsDir(), l.fd
	err = w.visitor.Visit(&w.entry)
	switch {
	case errors.Is(err, fs.SkipDir):
		return nil
	case err != nil || !dir:
		w.ended = err != nil
		return err
	}
	return w.enter(parent, name)
}

// openReadable opens a subdirectory, even if its owner denied access, because root could read it anyway.
func openReadable(parent int, name string) (int, error) {
	const folder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, name, folder, 0)
	if errors.Is(err, unix.EACCES) {
		if err = allow(parent, name); err == nil {
			fd, err = unix.Openat(parent, name, folder, 0)
		}
	}
	return fd, err
}

// OpenFile opens a regular file for reading, even if its owner denied access. It does not follow links or block on a
// pipe. It returns fs.ErrNotExist if the file is gone or is no longer a regular file.
func (e *Entry) OpenFile() (*os.File, error) {
	const file = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(e.Dir, e.Name, file, 0)
	if errors.Is(err, unix.EACCES) && e.MakeReadable() == nil {
		fd, err = unix.Openat(e.Dir, e.Name, file, 0)
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		err = fs.ErrNotExist
	}
	var st unix.Stat_t
	if err == nil {
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
			err = fs.ErrNotExist
		}
		if err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: strings.ToValidUTF8(string(e.Path), "?"), Err: err}
	}
	return os.NewFile(uintptr(fd), strings.ToValidUTF8(e.Name, "?")), nil
}

// MakeReadable grants the owner read access to a regular file. It avoids fchmodat(2), which would follow a
// link.
func (e *Entry) MakeReadable() error {
	fd, err := unix.Openat(e.Dir, e.Name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	return os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), fs.FileMode(st.Mode&0o777|0o400))
}
