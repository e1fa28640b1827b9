package container

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// archive writes a created container's files as a tar archive that unpacks at "/". A nil worker means that the program
// comes from the container's volume. Files belong to the worker's user, which can remove them. The program and Dir
// belong to root, and Dir is sticky, because stages run as the worker's user and must not replace $RETAKE_WORKER.
//
// The archive omits the image's directories, because an entry would change their owner. It includes the roots of
// writable volumes, because Docker makes root the owner of a new volume if the image does not contain the directory.
func archive(w io.Writer, spec Spec, worker io.Reader, workerSize int64) error {
	uid, gid, err := spec.IDs()
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	owned := func(uid, gid int, at string, kind byte, mode, size int64, content io.Reader) {
		if err == nil {
			err = t.WriteHeader(&tar.Header{
				Typeflag: kind, Name: strings.TrimPrefix(at, "/"), Mode: mode, Size: size,
				Uid: uid, Gid: gid,
			})
		}
		if err == nil && content != nil {
			_, err = io.Copy(t, content)
		}
	}
	entry := func(at string, kind byte, mode, size int64, content io.Reader) {
		owned(uid, gid, at, kind, mode, size, content)
	}
	if worker != nil {
		owned(0, 0, Dir+"/", tar.TypeDir, 0o1777, 0, nil)
		owned(0, 0, WorkerPath, tar.TypeReg, 0o555, workerSize, worker)
	}
	for _, f := range spec.Files {
		entry(path.Join(Dir, f.Name), tar.TypeReg, 0o600, int64(len(f.Data)), bytes.NewReader(f.Data))
	}
	if spec.Checkout == "" {
		entry(spec.Workdir+"/", tar.TypeDir, 0o755, 0, nil)
	}
	for _, m := range spec.Mounts {
		if isGiven(m) {
			entry(m.Target+"/", tar.TypeDir, 0o755, 0, nil)
		}
	}
	return errors.Join(err, t.Close())
}

// openWorker opens the worker's binary on this process's host, which may differ from the daemon's host.
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
	e.Next = "build the worker and configure its path"
	return nil, 0, e
}
