package container

import (
	"os"
	"path/filepath"
)

// SharesFiles reports whether two mounts share files under any names. It follows links and compares directories by
// inode. It compares paths that do not exist on this machine literally, because the engine may run on another machine.
// It does not detect bind mounts on the host.
func (m Mount) SharesFiles(other Mount) bool {
	if m.Volume || other.Volume {
		return m.Volume == other.Volume && m.Source == other.Source
	}
	return holds(m.Source, other.Source) || holds(other.Source, m.Source)
}

// holds reports whether path is dir or below it.
func holds(dir, path string) bool {
	dir = resolved(dir)
	d, err := os.Stat(dir)
	for path = resolved(path); ; path = filepath.Dir(path) {
		if path == dir {
			return true
		}
		if p, pathErr := os.Stat(path); err == nil && pathErr == nil && os.SameFile(p, d) {
			return true
		}
		if path == filepath.Dir(path) {
			return false
		}
	}
}

// resolved resolves the links in the existing part of a path.
func resolved(path string) string {
	path = filepath.Clean(path)
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}
