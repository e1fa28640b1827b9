package container

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// archive writes what a created container gets before its start, as a tar to be unpacked at "/". Everything in it belongs
// to the worker's user, the directory Dir too, so that the worker can remove the plan it has read.
//
// Directories of the image are never mentioned: an entry would change their owner. Roots of writable volumes are, for
// that very reason: a new volume belongs to root when the image has nothing at its target.
func archive(w io.Writer, spec Spec, worker io.Reader, workerSize int64) error {
	uid, gid, err := spec.ids()
	if err != nil {
		return err
	}
	t := tarball{Writer: tar.NewWriter(w), uid: uid, gid: gid, dirs: map[string]bool{}}
	if err := t.dir(Dir); err != nil {
		return err
	}
	if err := t.file(WorkerPath, 0o555, worker, workerSize); err != nil {
		return err
	}
	for _, f := range spec.Files {
		if err := t.dirsTo(f.Path); err != nil {
			return err
		}
		if err := t.file(f.Path, f.Mode, strings.NewReader(string(f.Data)), int64(len(f.Data))); err != nil {
			return err
		}
	}
	for _, m := range spec.Mounts {
		if m.Volume && !m.ReadOnly {
			if err := t.dir(m.Target); err != nil {
				return err
			}
		}
	}
	return t.Close()
}

type tarball struct {
	*tar.Writer
	uid, gid int
	dirs     map[string]bool
}

func (t tarball) dir(p string) error {
	if t.dirs[p] {
		return nil
	}
	t.dirs[p] = true
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(p, "/") + "/", Mode: 0o755, Uid: t.uid, Gid: t.gid})
}

// dirsTo adds the directories between Dir and p. Missing ones elsewhere are made by the daemon.
func (t tarball) dirsTo(p string) error {
	parent := path.Dir(p)
	if !within(parent, Dir) || t.dirs[parent] {
		return nil
	}
	if err := t.dirsTo(parent); err != nil {
		return err
	}
	return t.dir(parent)
}

func (t tarball) file(p string, mode fs.FileMode, content io.Reader, size int64) error {
	err := t.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(p, "/"), Mode: int64(mode.Perm()), Size: size, Uid: t.uid, Gid: t.gid,
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(t, content)
	return err
}

// openWorker opens the worker's binary, which lies on this process's side, not on the daemon's host.
func openWorker(spec Spec) (*os.File, int64, error) {
	f, err := os.Open(spec.WorkerBinary)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, info.Size(), nil
		}
		f.Close()
	}
	e := refused("attempt "+spec.AttemptID, "worker binary %s is not a readable file", spec.WorkerBinary)
	if err != nil {
		e.Cause = err
	}
	e.Next = "build the worker, and name its path"
	return nil, 0, e
}
