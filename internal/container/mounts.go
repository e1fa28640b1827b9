package container

import (
	"os"
	"path/filepath"
)

// SharesFiles reports whether two mounts show, in part, the same files, whatever they are called: links are
// followed, and a folder is known by its inode. A path that this machine does not have is taken as it is
// written: the engine may be on another one. Not known is a part of a folder that is mounted elsewhere on the
// host by itself.
func (m Mount) SharesFiles(other Mount) bool {
	if m.Volume || other.Volume {
		return m.Volume == other.Volume && m.Source == other.Source
	}
	return holds(m.Source, other.Source) || holds(other.Source, m.Source)
}

// holds reports whether path is dir or lies in it.
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

// resolved follows the links of a path as far as it exists.
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
