package scope

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"retake/internal/recovery"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/protected"
	"retake/internal/secrets/redact"
	"retake/internal/worktree"
)

// Options come from the configuration.
type Options struct {
	Deny         []string            // globs of paths that patches must not change; see protected.Compile
	Ask          []string            // globs of paths that only drafts may change; same form as Deny
	Allow        map[string][]string // by issue label: globs of paths that a patch may change anyway
	AllowSecrets []string            // globs of files that are not searched for secrets
	AllowRaw     []string            // globs of files that may be pushed without their filter
	AllowLeftOut []string            // globs of files in submodules, and of nested .git, that may be left out
	MaxFileBytes int64
}

// Rules are compiled Options.
type Rules struct {
	deny    *protected.Paths
	ask     *protected.Paths
	allow   []allowed // sorted by label
	unread  worktree.Globs
	raw     worktree.Globs
	leftOut worktree.Globs
	maxFile int64
}

type allowed struct {
	label string
	globs worktree.Globs
}

// New compiles the globs.
func New(o Options) (*Rules, error) {
	r := &Rules{maxFile: o.MaxFileBytes}
	var err error
	if r.deny, err = protected.Compile(o.Deny, protected.Deny); err != nil {
		return nil, fmt.Errorf("scope.deny: %w", err)
	}
	if r.ask, err = protected.Compile(o.Ask, protected.Ask); err != nil {
		return nil, fmt.Errorf("scope.ask: %w", err)
	}
	for label, list := range o.Allow {
		globs, err := worktree.Compile(list)
		if err != nil {
			return nil, fmt.Errorf("scope.allow: %w", err)
		}
		r.allow = append(r.allow, allowed{label, globs})
	}
	slices.SortFunc(r.allow, func(a, b allowed) int { return strings.Compare(a.label, b.label) })
	for _, list := range []struct {
		key   string
		globs []string
		to    *worktree.Globs
	}{
		{"scope.allow_secrets", o.AllowSecrets, &r.unread},
		{"scope.allow_raw", o.AllowRaw, &r.raw},
		{"scope.allow_left_out", o.AllowLeftOut, &r.leftOut},
	} {
		var err error
		if *list.to, err = worktree.Compile(list.globs); err != nil {
			return nil, fmt.Errorf("%s: %w", list.key, err)
		}
	}
	return r, nil
}

// File is one path that a patch changes.
type File struct {
	Path  string
	Link  bool  // a symbolic link; its content is the target
	Gone  bool  // the patch deletes the file
	Old   bool  // the base branch has the path
	Bytes int64 // size of the content
}

// Look checks one patch. Call Links once, then File for each path, and Content if File returned true. Call LeftOut,
// Nested and Filtered for the paths they describe. Err ends the check.
type Look struct {
	rules   *Rules
	labels  []string
	known   *leak.Finder // values that the director knows; see leak
	reach   reach
	asked   []Asked
	names   []string
	found   []finding
	secrets map[string]bool // values to hide in the message
}

// finding is one reason not to push.
type finding struct {
	reason recovery.Reason
	path   string
	line   int // 0 for the whole file
	text   string
	next   string // advice for a person
}

// Look starts the check of a patch for an issue with these labels. The patch must not contain any of the known values.
func (r *Rules) Look(labels []string, known *leak.Finder) *Look {
	return &Look{rules: r, labels: labels, known: known, secrets: map[string]bool{}}
}

// File checks the next path. It reports whether the caller must also call Content.
func (l *Look) File(f File) (wantContent bool) {
	l.names = append(l.names, f.Path)
	l.checkPath(f)
	switch {
	case f.Gone:
		return false
	case f.Bytes > l.rules.maxFile:
		l.find(finding{
			recovery.PolicyViolation, f.Path, 0,
			fmt.Sprintf("%d bytes, more than scope.max_file_bytes = %d", f.Bytes, l.rules.maxFile), "",
		})
		return false
	}
	return true
}

// Content checks a file's content. base returns the content on the base branch, and secrets found there do not count as
// new. In files that match AllowSecrets, Content searches only for the director's known values, because those are never
// test data.
func (l *Look) Content(ctx context.Context, f File, text string, base func() (string, error)) error {
	if f.Link && leaves(f.Path, text) {
		l.find(finding{recovery.PolicyViolation, f.Path, 0, "a symbolic link that leaves the tree", ""})
	}
	find := l.searchFile
	if l.rules.unread.Match(f.Path) {
		find = l.searchOwn
	}
	secrets, err := find(ctx, f.Path, text)
	if errors.Is(err, errTooMuch) {
		l.find(finding{
			recovery.PolicyViolation, f.Path, 0, "an archive that is too large to be searched for secrets",
			"remove it, or list the file in scope.allow_secrets",
		})
		return nil
	}
	if err != nil || len(secrets) == 0 {
		return err
	}
	before, err := base()
	if err != nil {
		return err
	}
	had, err := find(ctx, f.Path, before)
	if err != nil && !errors.Is(err, errTooMuch) {
		return err
	}
	for _, s := range secrets {
		if !slices.ContainsFunc(had, s.same) {
			l.secret(f.Path, s)
		}
	}
	return nil
}

// Nested adds the .git of a nested repository that has files in the patch.
func (l *Look) Nested(name string) {
	l.names = append(l.names, name)
	if l.rules.leftOut.Match(name) {
		return
	}
	l.find(finding{
		recovery.PolicyViolation, name, 0,
		"a nested repository, which a delivery would turn into plain files",
		"remove it, or list it in scope.allow_left_out",
	})
}

// LeftOut adds a file that the patch cannot contain, because it is in a submodule, or because git refuses its name. If
// git refuses the name, submodule is empty.
func (l *Look) LeftOut(name, submodule string) {
	l.names = append(l.names, name)
	switch {
	case submodule == "":
		l.find(finding{recovery.PolicyViolation, name, 0, "a name that git refuses", "rename or remove it"})
	case !l.rules.leftOut.Match(name):
		l.find(finding{
			recovery.PolicyViolation, name, 0,
			"a file in the submodule " + submodule + ", which a delivery cannot contain",
			"remove it, or list it in scope.allow_left_out",
		})
	}
}

// Filtered adds a file in the patch that a .gitattributes filter would store in a different form.
func (l *Look) Filtered(name, filter string) {
	if l.rules.raw.Match(name) {
		return
	}
	l.find(finding{
		recovery.PolicyViolation, name, 0,
		"a raw file, but .gitattributes sets filter=" + filter + ", and Retake does not run filters",
		"leave it out, or list it in scope.allow_raw",
	})
}

func (l *Look) secret(name string, s secret) {
	l.secrets[s.value] = true
	if s.isOwn {
		l.find(finding{recovery.PolicyViolation, name, s.line, recovery.OwnSecret + s.rule, "remove it"})
		return
	}
	l.find(finding{
		recovery.PolicyViolation, name, s.line, "a secret (rule " + s.rule + ")",
		"remove it, or list the file in scope.allow_secrets",
	})
}

// mostFindings is the maximum number of findings. A longer list would not help anyone.
const mostFindings = 50

func (l *Look) find(f finding) {
	if len(l.found) < mostFindings {
		l.found = append(l.found, f)
	}
}

// Err ends the check with nil, a *Violation, or the context's error.
func (l *Look) Err(ctx context.Context) error {
	if err := l.searchNames(ctx); err != nil {
		return err
	}
	if len(l.found) == 0 {
		return nil
	}
	return l.violation()
}

// searchNames searches the file names for secrets. It searches in pieces of about pieceBytes, because a patch can have
// very many files.
func (l *Look) searchNames(ctx context.Context) error {
	for names := l.names; len(names) > 0; {
		n, size := 0, 0
		for n < len(names) && (n == 0 || size < pieceBytes) {
			size += len(names[n])
			n++
		}
		lines := strings.Join(names[:n], "\n") // the message shows only one line of a multi-line name
		found, err := l.search(ctx, "", lines)
		if err != nil {
			return err
		}
		for _, s := range found {
			l.secret(strings.Split(lines, "\n")[s.line-1], secret{s.rule, s.value, 0, s.isOwn})
		}
		names = names[n:]
	}
	return nil
}

// Violation is the reason a push was refused.
type Violation struct {
	Reason recovery.Reason // PolicyViolation, or ScopeViolation if only paths are affected
	Text   string
}

// Error returns Text, which never contains a secret.
func (v *Violation) Error() string { return v.Text }

// mostShown is the number of findings that fit into a comment.
const mostShown = 4

func (l *Look) violation() *Violation {
	// Sort the most serious findings first.
	slices.SortStableFunc(l.found,
		func(a, b finding) int { return strings.Compare(string(a.reason), string(b.reason)) })
	var lines, next []string
	for i, f := range l.found {
		if i == mostShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(l.found)-mostShown))
			break
		}
		at := f.path
		if f.line > 0 {
			at = fmt.Sprintf("%s:%d", f.path, f.line)
		}
		lines = append(lines, at+": "+f.text)
		if f.next != "" && !slices.Contains(next, f.next) {
			next = append(next, f.next)
		}
	}
	text := recovery.NotPushed + strings.Join(lines, "; ")
	if len(next) > 0 {
		text += " (" + strings.Join(next, "; ") + ")"
	}
	return &Violation{Reason: l.found[0].reason, Text: redact.Text(mask(l.known.Mask(text), l.secrets))}
}

// mask replaces values in a text. It replaces the longest first, because one value may contain another.
func mask(text string, values map[string]bool) string {
	var all []string
	for v := range values {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	for _, v := range all {
		text = strings.ReplaceAll(text, v, redact.Marker)
	}
	return text
}

// TooLong returns the violation for a patch that took too long to search.
func TooLong(after string) *Violation {
	return &Violation{recovery.PolicyViolation, recovery.NotPushed +
		"the patch could not be searched for secrets within " + after +
		" (deliver it in smaller parts, or leave generated files out)"}
}

// leaves reports whether a link may lead out of the tree. It returns true for a target like "a/..", because "a" may be
// a link, and for a target in git's directory.
func leaves(name, target string) bool {
	parts := strings.Split(target, "/")
	up := 0
	for up < len(parts) && (parts[up] == ".." || parts[up] == ".") {
		up++
	}
	ups := strings.Count(strings.Join(parts[:up], "/"), "..")
	depth := strings.Count(path.Clean(name), "/")
	return strings.HasPrefix(target, "/") || ups > depth || slices.Contains(parts[up:], "..") ||
		slices.ContainsFunc(parts, func(p string) bool { return strings.EqualFold(p, ".git") })
}
