package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// TempMark is part of the name of every unfinished file. Anyone may remove such a file after a crash.
const TempMark = ".tmp-"

// Write replaces the content of the file with data, and sets its mode.
func Write(path string, mode fs.FileMode, data []byte) error {
	return Fill(path, mode, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Fill replaces the content of the file with the output of fill.
func Fill(path string, mode fs.FileMode, fill func(*os.File) error) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(FillIn(root, filepath.Base(path), mode, fill), root.Close())
}

// WriteIn is like Write, but for a directory that others may change at the same time.
func WriteIn(root *os.Root, name string, mode fs.FileMode, data []byte) error {
	return FillIn(root, name, mode, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// WriteNew creates a complete file, or returns fs.ErrExist if the file exists. If several callers race, exactly one
// succeeds.
func WriteNew(path string, mode fs.FileMode, data []byte) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	write := func(f *os.File) error {
		_, err := f.Write(data)
		return err
	}
	place := func(temp, name string) error {
		if err := root.Link(temp, name); err != nil {
			return err
		}
		return root.Remove(temp)
	}
	return errors.Join(fillIn(root, filepath.Base(path), mode, write, place), root.Close())
}

// FillIn is like Fill, but for a directory that others may change at the same time.
func FillIn(root *os.Root, name string, mode fs.FileMode, fill func(*os.File) error) error {
	return fillIn(root, name, mode, fill, root.Rename)
}

// fillIn writes a temporary file and moves it into place.
func fillIn(root *os.Root, name string, mode fs.FileMode, fill func(*os.File) error,
	place func(temp, name string) error,
) (err error) {
	temp := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s%s%08x", filepath.Base(name), TempMark, rand.Uint32()))
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err = errors.Join(fill(f), f.Sync(), f.Close()); err == nil {
		err = place(temp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return syncDir(root, filepath.Dir(name))
}

// Create writes the data from a reader to a new file that can be executed at once. It blocks forks while the file is
// open for writing. A child forked at that time would inherit the descriptor until its exec, and running the file would
// fail with ETXTBSY.
func Create(path string, mode fs.FileMode, from io.Reader) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// Tail returns the end of a regular file in a directory that others may change at the same time. It returns no more
// bytes than the limit most, and none before the offset from. whole reports whether it returns all bytes after that
// offset. Tail rejects a link in place of the file, and does not block on a pipe.
func Tail(root *os.Root, name string, from, most int64) (data []byte, whole bool, err error) {
	notRegular := &fs.PathError{Op: "read", Path: name, Err: syscall.EINVAL}
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil, false, errors.Join(err, notRegular)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, false, errors.Join(err, notRegular)
	}
	start := max(from, info.Size()-most, 0)
	data, err = io.ReadAll(io.NewSectionReader(f, start, most))
	return data, start <= from, err
}

func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	if err = d.Sync(); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil // not every file system supports syncing a directory
	}
	return errors.Join(err, d.Close())
}

// MkdirAll creates a directory and its parents. New directories survive a power cut.
func MkdirAll(path string, mode fs.FileMode) error {
	path = filepath.Clean(path)
	parent := filepath.Dir(path)
	switch info, err := os.Stat(path); {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	case err == nil || parent == path:
		return err
	}
	if err := MkdirAll(parent, mode); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil {
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() { // another process has just created it
			return nil
		}
		return err
	}
	return SyncDir(parent)
}

// Rename moves a file or directory within a file system. The new name survives a power cut.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return SyncDir(filepath.Dir(to))
	}
	// sync the target first, so that a power cut never loses both names
	return errors.Join(SyncDir(filepath.Dir(to)), SyncDir(filepath.Dir(from)))
}

// SyncDir makes the entries of a directory durable.
func SyncDir(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(root, "."), root.Close())
}

// SyncDisk flushes the file system of a directory, including data from other processes. Use it when others have written
// many files. Any user can call it. It blocks until the disk has written everything.
func SyncDisk(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err = unix.Syncfs(int(f.Fd())); err != nil {
		err = &fs.PathError{Op: "sync", Path: dir, Err: err}
	}
	return errors.Join(err, f.Close())
}

// Rotate makes room for a new file by renaming path to path.1, path.1 to path.2 and so on. It keeps the newest
// keep files.
func Rotate(path string, keep int) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	numbered := func(n int) string {
		if n == 0 {
			return filepath.Base(path)
		}
		return fmt.Sprintf("%s.%d", filepath.Base(path), n)
	}
	if keep < 1 {
		return root.Remove(numbered(0))
	}
	for n := keep - 1; n >= 0; n-- {
		if err := root.Rename(numbered(n), numbered(n+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(root, ".")
}
