package workspace

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"retake/internal/checkpoint"
)

// Labels for the two sides in conflict markers. Git takes them from the names of the branches that merge creates in the
// task's git directory.
const (
	labelOurs   = "this-task"
	labelBase   = "base-branch"
	labelPushed = "pushed-by-others"
)

// merge is a merge that git has computed but that may not be in the work tree yet. Applying it turns the work tree from
// Ours into Merged. After an interruption, the work tree may have only some of the changes.
type merge struct {
	Ours      string     `json:"ours"`   // SHA of the tree before the merge
	Merged    string     `json:"merged"` // SHA of the resulting tree
	To        string     `json:"to"`     // the new base commit
	Branch    string     `json:"branch,omitempty"`
	Tip       string     `json:"tip,omitempty"` // commit of Branch that the work tree will contain
	Conflicts []leftover `json:"conflicts,omitempty"`
}

// refused returns the error for the conflicts of this merge, excluding earlier conflicts.
func (m merge) refused(op string, before []leftover) error {
	var names []string
	for _, l := range m.Conflicts[len(before):] {
		names = append(names, l.name())
	}
	return conflict(op, names)
}

// leftover is a file in which a merge left a conflict.
type leftover struct {
	Path   string `json:"path"`   // URL-escaped, since a name might not be UTF-8
	Marked bool   `json:"marked"` // set if the file contains git's conflict markers
	Note   string `json:"note"`   // explains the conflict to people
	Tree   string `json:"tree"`   // SHA of the tree that the merge produced
}

func (l leftover) name() string {
	if name, err := url.PathUnescape(l.Path); err == nil {
		return name
	}
	return l.Path
}

// leftovers parses merge-tree's output after the tree's SHA: the names of the conflicting files, an empty name, and
// messages.
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

// merge merges two commits. It sets only Merged and Conflicts in the result.
func (o objects) merge(ctx context.Context, mine, theirs, label string) (merge, error) {
	if !o.git.merges {
		return merge{}, &Error{
			Kind: Permanent, Op: o.op, Detail: "git is too old to merge without a work tree",
			Next: "install git 2.38 or newer", Err: ErrCannotMerge,
		}
	}
	names := o.call("update-ref", "--stdin")
	names.stdin = strings.NewReader("update refs/heads/" + labelOurs + " " + mine + "\nupdate refs/heads/" + label +
		" " + theirs + "\n")
	if _, err := o.git.run(ctx, names); err != nil {
		return merge{}, err
	}
	c := o.call("merge-tree", "--write-tree", "-z", "--name-only", "--messages", labelOurs, label)
	// If the base branch renamed a directory, the agent's new files move with the directory, without a person's help.
	c.config = [][2]string{{"merge.directoryRenames", "true"}, {"merge.conflictStyle", "merge"}}
	out, clean, err := o.try(ctx, c)
	tree, rest, _ := strings.Cut(out, "\x00")
	switch {
	case err != nil:
		return merge{}, err
	case !shaForm.MatchString(tree):
		return merge{}, refuse(o.op, "", "git merge-tree printed an invalid tree: %.80q", tree)
	case clean:
		return merge{Merged: tree}, nil
	}
	m := merge{Merged: tree, Conflicts: leftovers(tree, rest)}
	if len(m.Conflicts) == 0 {
		return merge{}, refuse(o.op, "", "git merge-tree did not list the conflicting files: %.200q", rest)
	}
	return m, o.describe(ctx, m.Conflicts)
}

// describe sets each file's Marked and Note from its content in the merged tree.
func (o objects) describe(ctx context.Context, files []leftover) error {
	for i := range files {
		l := &files[i]
		text, err := o.content(ctx, l.Tree, l.name())
		if err != nil {
			return err
		}
		switch l.Marked = hasMarkers(text); {
		case l.Marked:
			l.Note = "has conflict markers"
		case l.Note == "":
			l.Note = "changed on both sides; git could not merge the lines, and kept this task's version"
		}
	}
	return nil
}

// unresolved returns the remaining conflicts of a tree: files with conflict markers, and files without markers that
// have not changed since the merge.
func (o objects) unresolved(ctx context.Context, files []leftover, tree string) (left []leftover, err error) {
	for _, l := range files {
		var open bool
		if l.Marked {
			text, err := o.content(ctx, tree, l.name())
			if err != nil {
				return nil, err
			}
			open = hasMarkers(text)
		} else {
			was, err := o.object(ctx, l.Tree, l.name())
			if err != nil {
				return nil, err
			}
			is, err := o.object(ctx, tree, l.name())
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

// markers match the three marker lines of a conflict, in order.
var markers = []func(line string) bool{
	func(line string) bool { return strings.HasPrefix(line, "<<<<<<< ") },
	func(line string) bool { return line == "=======" },
	func(line string) bool { return strings.HasPrefix(line, ">>>>>>> ") },
}

// hasMarkers reports whether a text contains all three marker lines of a conflict, in order. A line of equals signs is
// not enough, because it may underline a heading.
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

// marked returns the names of the files with conflict markers.
func marked(files []leftover) (names []string) {
	for _, l := range files {
		if l.Marked {
			names = append(names, l.name())
		}
	}
	return names
}

func markersLeft(op string, files []string) error {
	if len(files) == 0 {
		return nil
	}
	return &Error{
		Kind: Conflict, Op: op, Err: ErrMergeConflict,
		Detail: "conflict markers (<<<<<<<) remain in " + listed(files),
		Next:   "explain how to combine the two changes, or restart the issue from the base branch",
	}
}

// mostConflicts is the maximum number of file names in an error.
const mostConflicts = 10

// listed joins names for a message.
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

// printable quotes a name that contains special characters.
func printable(name string) string { return checkpoint.Printable(name) }

func conflict(op string, files []string) error {
	return &Error{
		Kind: Conflict, Op: op, Err: ErrMergeConflict,
		Detail: "the base branch and this work conflict in " + listed(files),
		Next: "start the issue over from the base branch, or raise the limits of policy.sync_main to deliver the " +
			"work on its old base",
	}
}
