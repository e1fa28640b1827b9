package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// chownTree gives everything to the owner, links themselves and not what they point to. Files that belong to it already
// are left alone, so a reused tree costs one lstat per file.
func chownTree(dir string, o Owner) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == o.UID && int(st.Gid) == o.GID {
			return nil
		}
		return os.Lchown(path, o.UID, o.GID)
	})
}

// stageTree builds at dst what git shall see of src: the same files by hard link (copied where a link can't be), the same
// symbolic links, no folder or file named .git anywhere, no .retake at the top, nothing that leaveOut names, no sockets, pipes
// or devices. Names are compared as a careless file system would, so that ".GIT" gets no further than ".git". folder is where
// src lies in the tree: empty, or with a slash at its end.
func stageTree(src, dst, folder string, leaveOut func(name string) bool) error {
	entries, err := readDir(src)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dst, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		name := folder + e.Name()
		if strings.EqualFold(e.Name(), ".git") || name == retakeDir || !e.IsDir() && leaveOut(name) {
			continue
		}
		from, to := filepath.Join(src, e.Name()), filepath.Join(dst, e.Name())
		switch e.Type() {
		case fs.ModeDir:
			err = stageTree(from, to, name+"/", leaveOut)
		case 0:
			err = stageFile(from, to)
		case fs.ModeSymlink:
			err = stageLink(from, to)
		default:
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func stageLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(target, to)
}

func stageFile(from, to string) error {
	if err := makeReadable(from); err != nil {
		return err
	}
	err := os.Link(from, to)
	if errors.Is(err, syscall.EMLINK) || errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP) {
		return copyFile(from, to)
	}
	return err
}

// copyFile opens without following a link and without waiting for a pipe's other end.
func copyFile(from, to string) (err error) {
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s changed while it was read", from)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600|info.Mode().Perm()&0o100)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// readDir reads a folder, also one that its owner closed (root can anyway).
func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return entries, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	return os.ReadDir(dir)
}

// makeReadable matters only to a director that is not root.
func makeReadable(file string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o400 != 0 {
		return err
	}
	return os.Chmod(file, info.Mode().Perm()|0o400)
}
