package worktree

import (
	"io"
	"io/fs"
	"slices"
	"strings"
)

// OwnFolder is Retake's own directory at the top of a work tree.
const OwnFolder = ".retake"

// ignoreName is git's name for files with ignore rules. maxIgnore is the maximum number of bytes to read from such a
// file.
const (
	ignoreName = ".gitignore"
	maxIgnore  = 1 << 20
)

// Files calls visit for every file that is work, and returns the first error from visit. Files that match state are not
// work unless they are tracked. tracked must include the tracked paths that match state or a .gitignore file, and may
// omit all others.
func Files(fsys fs.FS, state Globs, tracked []string, visit func(name string, d fs.DirEntry) error) error {
	w := walk{fsys, state, slices.Sorted(slices.Values(tracked)), visit}
	return w.walkDir(".", nil, false)
}

type walk struct {
	fsys    fs.FS
	state   Globs
	tracked []string // sorted
	visit   func(name string, d fs.DirEntry) error
}

// walkDir walks the directory dir. ignores are the ignore files of its parents. out means that the directory is
// ignored, so only its tracked files are work.
func (w *walk) walkDir(dir string, ignores []ignoreFile, out bool) error {
	entries, _ := fs.ReadDir(w.fsys, dir) // skip unreadable directories
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	if rules := w.rules(prefix, entries); len(rules) > 0 {
		ignores = append(slices.Clip(ignores), ignoreFile{prefix, rules})
	}
	for _, e := range entries {
		name := prefix + e.Name()
		if strings.EqualFold(e.Name(), ".git") || name == OwnFolder {
			continue
		}
		skip := out || ignored(ignores, name, e.IsDir())
		var err error
		switch {
		case e.IsDir() && skip && !w.tracksIn(name+"/"):
		case e.IsDir():
			err = w.walkDir(name, ignores, skip)
		case w.tracks(name), !skip && !w.state.Match(name):
			err = w.visit(name, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) tracks(name string) bool {
	_, found := slices.BinarySearch(w.tracked, name)
	return found
}

func (w *walk) tracksIn(prefix string) bool {
	i, _ := slices.BinarySearch(w.tracked, prefix)
	return i < len(w.tracked) && strings.HasPrefix(w.tracked[i], prefix)
}

// rules reads the .gitignore file among the entries of a directory. Like git, it skips a .gitignore that is a symbolic
// link.
func (w *walk) rules(prefix string, entries []fs.DirEntry) []ignoreRule {
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ignoreName && e.Type().IsRegular() })
	if i < 0 {
		return nil
	}
	f, err := w.fsys.Open(prefix + ignoreName)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	if err != nil {
		return nil
	}
	return parseIgnore(string(text))
}
