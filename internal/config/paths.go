package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// A relative path in the configuration file is relative to the file's directory. Earlier versions resolved it against
// the working directory, so settlePaths also searches there for one release. Paths in variables and flags are relative
// to the working directory, as in a shell.

// twoFolders describes a state directory that has contents in two places: beside is next to the configuration file,
// and here is in the working directory.
type twoFolders struct{ key, beside, here string }

// settlePaths makes relative paths in the file absolute, unless the file is in the working directory.
func (l *loader) settlePaths() {
	base, here, same := baseOf(l.name)
	if same {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(l.rows)) {
		at, set := l.set[key]
		path, isPath := l.rows[key].to.(*string)
		if !l.rows[key].path || !isPath || *path == "" || filepath.IsAbs(*path) || l.bad[key] ||
			set && at.rank != rankFile {
			continue
		}
		l.settlePath(key, path, filepath.Join(base, *path), filepath.Join(here, *path))
	}
}

// settlePath sets one path to beside, which is next to the file, or to here if the path exists only in the working
// directory.
func (l *loader) settlePath(key string, path *string, beside, here string) {
	exists := present
	if stateFolders[key] {
		exists = occupied
	}
	*path = beside
	if !exists(here) || ofAnother(key, here) {
		return
	}
	if exists(beside) {
		if stateFolders[key] {
			l.c.doubled = append(l.c.doubled, twoFolders{key, beside, here})
		}
		return
	}
	*path = here
	l.c.moved = append(l.c.moved, fmt.Sprintf("%s: using %s in the working directory. The next release will ignore "+
		"the working directory and use %s, next to the configuration file. Move it there, or set an absolute path",
		key, here, beside))
	l.c.InWorkingDir = l.c.InWorkingDir || key == dataDirKey
}

const dataDirKey = "director.data_dir"

// stateFolders is the set of keys for directories that hold a director's state.
var stateFolders = map[string]bool{dataDirKey: true, "director.shared_dir": true}

// baseOf returns the directory that a file's paths are relative to, and the working directory. Without a file, and for
// Template, which replaces LocalFile, both are the working directory.
func baseOf(name string) (base, here string, same bool) {
	here, err := os.Getwd()
	if err != nil || name == "" || name == Template {
		return here, here, true
	}
	if base, err = filepath.Abs(filepath.Dir(name)); err != nil || base == here {
		return here, here, true
	}
	one, err := os.Stat(base)
	two, err2 := os.Stat(here)
	return base, here, err == nil && err2 == nil && os.SameFile(one, two)
}

// ofAnother reports whether another configuration, LocalFile in the working directory, uses dir as its state directory.
func ofAnother(key, dir string) bool {
	if !stateFolders[key] || !present(LocalFile) {
		return false
	}
	other, _ := Load(LocalFile, nil, nil)
	abs, err := filepath.Abs(other.Director.DataDir)
	if key != dataDirKey {
		abs, err = filepath.Abs(other.SharedDir())
	}
	return err == nil && abs == dir
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// occupied reports whether a directory has contents. An unreadable directory counts, because it may contain a
// journal.
func occupied(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(1)
	return len(names) > 0
}

// Moved returns a warning for each relative path that exists only in the working directory, not next to the file.
func (c Config) Moved() []string { return c.moved }

// startProblems returns a problem for each state directory that has contents in two places.
func (c Config) startProblems() (p Problems) {
	for _, d := range c.doubled {
		p = append(p, Problem{Where: "run", Key: d.key, Text: fmt.Sprintf("%s and %s both exist, and the director "+
			"cannot tell which one holds its state: set the absolute path of the right directory, or move the "+
			"wrong directory away",
			d.beside, d.here)})
	}
	return p
}
