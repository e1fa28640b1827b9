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

// TempMark is in the name of every file that is not finished. One that a crash left may be removed.
const TempMark = ".tmp-"

// Write makes the file hold the data, with this mode.
func Write(path string, mode fs.FileMode, data []byte) error {
	return Fill(path, mode, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Fill makes the file hold what fill writes into it.
func Fill(path string, mode fs.FileMode, fill func(*os.File) error) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(FillIn(root, filepath.Base(path), mode, fill), root.Close())
}

// WriteIn is Write within a folder that somebody else may be changing.
func WriteIn(root *os.Root, name string, mode fs.FileMode, data []byte) error {
	return FillIn(root, name, mode, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// WriteNew makes the file, whole, unless it is there: then the error is fs.ErrExist. Of several that do this at
// once, one succeeds.
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

// FillIn is Fill within a folder that somebody else may be changing.
func FillIn(root *os.Root, name string, mode fs.FileMode, fill func(*os.File) error) error {
	return fillIn(root, name, mode, fill, root.Rename)
}

// fillIn writes a temporary file, and puts it into its place.
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

// Create copies a new file that may be run as soon as it is there. Nothing is forked meanwhile: a child that
// had it open for writing, if only until its own program begins, would make the file's first run fail with
// ETXTBSY.
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

// Tail returns the end of a regular file within a folder that somebody else may be changing: at most so many
// bytes, none of them before from. whole: it is all that stands behind from. A link in the file's place is
// refused, and a pipe is not waited for.
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
		err = nil // not every file system can
	}
	return errors.Join(err, d.Close())
}

// MkdirAll makes a folder and those above it. What is new is still there after a power cut.
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
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() { // somebody else has just made it
			return nil
		}
		return err
	}
	return SyncDir(parent)
}

// Rename moves a file or folder, within a file system, to a name that is the new one after a power cut, too.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return SyncDir(filepath.Dir(to))
	}
	// first where it is, so that it is somewhere at any moment
	return errors.Join(SyncDir(filepath.Dir(to)), SyncDir(filepath.Dir(from)))
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(root, "."), root.Close())
}

// SyncDisk makes all durable that was written to the file system of a folder, by whomever: for many files that
// others have written. It may be called by anybody, and takes as long as the disk has to write.
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

// Rotate makes room for a new file: path becomes path.1, and so on; of those, so many are kept.
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
