package workspace

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"retake/internal/checkpoint"
)

// What conflict markers call the two sides. They are branches in the task's git directory, because git takes
// the names from there.
const (
	labelOurs   = "this-task"
	labelBase   = "base-branch"
	labelPushed = "pushed-by-others"
)

// leftover is a file in which a merge left something to decide.
type leftover struct {
	Path   string `json:"path"`   // escaped as in an URL: a name may be no UTF-8
	Marked bool   `json:"marked"` // git's conflict markers are in it
	Note   string `json:"note"`   // what git left there, in words
	Tree   string `json:"tree"`   // that the merge gave
}

func (l leftover) name() string {
	if name, err := url.PathUnescape(l.Path); err == nil {
		return name
	}
	return l.Path
}

// leftovers reads what merge-tree prints behind the tree: names of files, an empty one, and messages.
func leftovers(tree, out string) []leftover {
	fields := strings.Split(out, "\x00")
	end := max(slices.Index(fields, ""), 0)
	notes := map[string]string{}
	for rest := fields[min(end+1, len(fields)):]; len(rest) > 0; {
		// <number of paths> NUL <path> NUL … <type> NUL <message> NUL
		n, err := strconv.Atoi(rest[0])
		if err != nil || n < 1 || len(rest) < n+3 {
			break
		}
		if kind := rest[n+1]; strings.HasPrefix(kind, "CONFLICT") && kind != "CONFLICT (contents)" &&
			kind != "CONFLICT (binary)" {
			notes[rest[1]] = strings.Join(strings.Fields(rest[n+2]), " ")
		}
		rest = rest[n+3:]
	}
	var all []leftover
	for _, name := range slices.Compact(slices.Sorted(slices.Values(fields[:end]))) {
		all = append(all, leftover{Path: url.PathEscape(name), Note: notes[name], Tree: tree})
	}
	return all
}

// describe finds out in which of the files the merge left markers, and says what else it left.
func (w *Workspaces) describe(ctx context.Context, t task, files []leftover) error {
	for i := range files {
		l := &files[i]
		text, err := w.content(ctx, t, l.Tree, l.name())
		if err != nil {
			return err
		}
		switch l.Marked = hasMarkers(text); {
		case l.Marked:
			l.Note = "has conflict markers"
		case l.Note == "":
			l.Note = "changed on both sides, and cannot be merged line by line: this task's version was left"
		}
	}
	return nil
}

// unresolved returns what is still as merges left it: files with conflict markers, and others that nobody has
// touched since.
func (w *Workspaces) unresolved(ctx context.Context, t task, files []leftover,
	tree string,
) (left []leftover, err error) {
	for _, l := range files {
		var open bool
		if l.Marked {
			text, err := w.content(ctx, t, tree, l.name())
			if err != nil {
				return nil, err
			}
			open = hasMarkers(text)
		} else {
			was, err := w.object(ctx, t, l.Tree, l.name())
			if err != nil {
				return nil, err
			}
			is, err := w.object(ctx, t, tree, l.name())
			if err != nil {
				return nil, err
			}
			open = was == is
		}
		if open {
			left = append(left, l)
		}
	}
	return left, nil
}

// object names the object at a path of a tree; "" if there is none.
func (w *Workspaces) object(ctx context.Context, t task, tree, name string) (string, error) {
	c := t.call("rev-parse", "--verify", "--quiet", "--end-of-options", tree+":"+name)
	c.asks = true
	out, err := w.git.run(ctx, c)
	if errors.Is(err, errNo) {
		return "", nil
	}
	return strings.TrimSpace(out), err
}

// content reads the file at a path of a tree; "" if there is none, but a folder or a submodule, whose commit is
// not here.
func (w *Workspaces) content(ctx context.Context, t task, tree, name string) (string, error) {
	sha, err := w.object(ctx, t, tree, name)
	if err != nil || sha == "" {
		return "", err
	}
	c := t.call("cat-file", "--batch-check=%(objecttype)")
	c.stdin = strings.NewReader(sha + "\n")
	if kind, err := w.git.run(ctx, c); err != nil || kind != "blob\n" {
		return "", err
	}
	c = t.call("cat-file", "blob", sha)
	c.most = baseBytes
	return w.git.run(ctx, c)
}

// markers are the lines of one conflict, in their order.
var markers = []func(line string) bool{
	func(line string) bool { return strings.HasPrefix(line, "<<<<<<< ") },
	func(line string) bool { return line == "=======" },
	func(line string) bool { return strings.HasPrefix(line, ">>>>>>> ") },
}

// hasMarkers reports whether a text has all three lines of a conflict: a line of equals signs alone underlines
// a heading.
func hasMarkers(text string) bool {
	found := 0
	for line := range strings.Lines(text) {
		if markers[found](strings.TrimRight(line, "\r\n")) {
			if found++; found == len(markers) {
				return true
			}
		}
	}
	return false
}

// marked names the files with conflict markers.
func marked(files []leftover) (names []string) {
	for _, l := range files {
		if l.Marked {
			names = append(names, l.name())
		}
	}
	return names
}

// checkResolved refuses a tree in which conflict markers are left.
func (w *Workspaces) checkResolved(ctx context.Context, t task, rec record, tree string) error {
	left, err := w.unresolved(ctx, t, rec.Conflicts, tree)
	if err != nil {
		return err
	}
	return markersLeft(t.op, marked(left))
}

func markersLeft(op string, files []string) error {
	if len(files) == 0 {
		return nil
	}
	return &Error{
		Kind: Conflict, Op: op, Err: ErrMergeConflict,
		Detail: "conflict markers (<<<<<<<) are left in " + listed(files),
		Next:   "say how the two changes go together, or start the issue afresh from the base branch",
	}
}

// mostConflicts is how many names an error's text has: as many as a person reads.
const mostConflicts = 10

// listed writes names for people.
func listed(files []string) string {
	slices.Sort(files)
	files = slices.Compact(files)
	named := make([]string, min(len(files), mostConflicts))
	for i := range named {
		named[i] = printable(files[i])
	}
	text := strings.Join(named, ", ")
	if more := len(files) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// printable quotes a name that is no ordinary text.
func printable(name string) string { return checkpoint.Printable(name) }

func conflict(op string, files []string) error {
	return &Error{
		Kind: Conflict, Op: op, Err: ErrMergeConflict,
		Detail: "the base branch and the work here don't go together in " + listed(files),
		Next: "start the issue afresh from the base branch, or raise the limits of policy.sync_main to hand in the " +
			"work on its old base",
	}
}
