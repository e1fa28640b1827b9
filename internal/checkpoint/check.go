package checkpoint

import (
	"fmt"
	"path"
	"strings"

	"retake/internal/worktree"
)

// Malformed reports a manifest that breaks a rule. Retake's own workers never produce such a manifest.
type Malformed struct{ Text string }

func (e *Malformed) Error() string { return "checkpoint: " + e.Text }

func malformed(p, format string, args ...any) error {
	return &Malformed{Shortened([]byte(p)) + ": " + fmt.Sprintf(format, args...)}
}

// Maximum lengths of names, link targets and files in the spool, in bytes.
const (
	maxName   = 255
	maxTarget = 4095
	maxSpool  = 1 << 20 // the longest message
)

// Check validates a tree from an untrusted sender. Call it before Apply. Errors are *Malformed and *Exceeded.
func (t *Tree) Check(l Limits) error {
	folders := map[string]int{"": 0} // entries so far, by directory
	seen, before := Seen{}, ""
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Path <= before {
			return malformed(e.Path, "out of order after %s", Shortened([]byte(before)))
		}
		before = e.Path
		if err := checkPath(e); err != nil {
			return err
		}
		parent := parentOf(e.Path)
		if _, there := folders[parent]; !there {
			return malformed(e.Path, "its parent directory is missing from the tree")
		}
		folders[parent]++
		if e.Kind == Folder {
			folders[e.Path] = 0
		}
		if err := checkContent(e); err != nil {
			return err
		}
		size := e.Size + int64(len(e.Target))
		seen.Files++
		seen.Apparent += size
		seen.InFolder, seen.Depth, seen.Path, seen.Size, seen.IsFile = folders[parent], 1+strings.Count(e.Path, "/"),
			[]byte(e.Path), size, e.Kind == File
		if over := l.Check(seen); over != nil {
			return over
		}
	}
	return nil
}

// parentOf returns the parent directory of a path, or an empty string at the top.
func parentOf(p string) string {
	if dir := path.Dir(p); dir != "." {
		return dir
	}
	return ""
}

// checkPath refuses paths that lead outside the directory or are not allowed in a tree.
func checkPath(e *Entry) error {
	for name := range strings.SplitSeq(e.Path, "/") {
		switch {
		case name == "" || name == "." || name == "..":
			return malformed(e.Path, "the path leads outside the directory")
		case len(name) > maxName:
			return malformed(e.Path, "a path element is too long: %d bytes", len(name))
		case strings.ContainsRune(name, 0):
			return malformed(e.Path, "the path contains a zero byte")
		case leftOut(name):
			return malformed(e.Path, "entries called .git are not allowed")
		}
	}
	rest, own := strings.CutPrefix(e.Path+"/", worktree.OwnFolder+"/")
	if !own {
		return nil
	}
	folder := rest == "" || e.Path == Spool
	file := strings.HasPrefix(e.Path, Spool+"/") && strings.Count(e.Path, "/") == 2
	if folder && e.Kind == Folder || file && e.Kind == File && e.Size <= maxSpool {
		return nil
	}
	return malformed(e.Path, "in Retake's directory, only spooled reports of at most %d bytes are allowed",
		maxSpool)
}

// checkContent refuses an entry whose fields do not fit its kind.
func checkContent(e *Entry) error {
	if e.Mode > 0o777 {
		return malformed(e.Path, "mode %o: want permission bits only", e.Mode)
	}
	switch e.Kind {
	case Folder:
		if e.Size != 0 || len(e.Parts) > 0 || e.Target != "" {
			return malformed(e.Path, "a directory must not have content")
		}
	case Link:
		if e.Size != 0 || len(e.Parts) > 0 || e.Target == "" || len(e.Target) > maxTarget ||
			strings.ContainsRune(e.Target, 0) {
			return malformed(e.Path, "a link must have a target of 1 to %d bytes and no other content", maxTarget)
		}
	case File:
		return checkParts(e)
	default:
		return malformed(e.Path, "kind %.20q: want file, folder or link", e.Kind)
	}
	return nil
}

func checkParts(e *Entry) error {
	rest := e.Size
	if e.Target != "" || e.Size < 0 {
		return malformed(e.Path, "a file must have a size and no target")
	}
	for _, p := range e.Parts {
		if p.Len <= 0 || p.Len > rest {
			return malformed(e.Path, "the parts do not add up to %d bytes", e.Size)
		}
		if !p.hole() && (p.Off < 0 || p.Len > ChunkBytes || p.Off > ChunkBytes-p.Len) {
			return malformed(e.Path, "a part exceeds its chunk")
		}
		rest -= p.Len
	}
	if rest != 0 {
		return malformed(e.Path, "the parts do not add up to %d bytes", e.Size)
	}
	return nil
}
