package worktree

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Globs match files and directories relative to a work tree. A glob that matches a directory also matches its contents.
// The last matching glob decides, and a leading "!" excludes the path. "**" stands for any number of directories.
type Globs []glob

type glob struct {
	pattern string
	literal string // common prefix of all matches
	except  bool
}

// Compile parses globs. Its error names the first invalid glob.
func Compile(patterns []string) (Globs, error) {
	globs := make(Globs, 0, len(patterns))
	for _, p := range patterns {
		if err := Check(p); err != nil {
			return nil, fmt.Errorf("%w %.80q: %w", errGlob, p, err)
		}
		rest, except := strings.CutPrefix(p, "!")
		rest = strings.TrimSuffix(rest, "/")
		globs = append(globs, glob{rest, literal(rest), except})
	}
	return globs, nil
}

// literal returns the part of a pattern before its first special character.
func literal(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// Compile wraps errGlob in its errors.
var errGlob = errors.New("worktree: glob")

// Check returns an error if a glob is invalid. The text of the error does not quote the glob.
func Check(pattern string) error {
	p := strings.TrimSuffix(strings.TrimPrefix(pattern, "!"), "/")
	switch {
	case strings.Trim(p, "*/.") == "":
		return errors.New("the glob matches all paths or none")
	case path.IsAbs(p), strings.HasPrefix(p, "~"):
		return errors.New("the glob is not relative to the work tree")
	case path.Clean(p) != p, p == "..", strings.HasPrefix(p, "../"):
		return errors.New("the glob contains . or .. or a double slash")
	case strings.ContainsAny(p, "\x00\n"), !doublestar.ValidatePattern(p):
		return errors.New("the glob has an open bracket, or a character that paths cannot contain")
	}
	return nil
}

// Match reports whether the globs match a path or one of its parents.
func (gs Globs) Match(name string) bool {
	i := gs.Deciding(name)
	return i >= 0 && !gs[i].except
}

// Deciding returns the index of the last glob that matches a path or one of its parents, or -1.
func (gs Globs) Deciding(name string) int { return gs.last(name, glob.match) }

// Below returns the index of the last glob without "!" that can match a path below a directory, or -1.
func (gs Globs) Below(dir string) int {
	return gs.last(dir, func(g glob, dir string) bool { return !g.except && g.below(dir) })
}

func (gs Globs) last(name string, match func(glob, string) bool) int {
	for i := len(gs) - 1; i >= 0; i-- {
		if match(gs[i], name) {
			return i
		}
	}
	return -1
}

func (g glob) match(name string) bool {
	if !strings.HasPrefix(name, g.literal) {
		return false
	}
	for ; name != "."; name = path.Dir(name) {
		if doublestar.MatchUnvalidated(g.pattern, name) {
			return true
		}
	}
	return false
}

// below reports whether the pattern can match a path below a directory. A leading "**" is ignored, because it would
// match every directory. For "**/.a/b", below returns true only for directories named .a.
func (g glob) below(dir string) bool {
	want, have := strings.Split(g.pattern, "/"), strings.Split(dir, "/")
	if want[0] != "**" {
		return len(have) < len(want) && begins(want, have)
	}
	want = want[1:]
	for n := 1; n < len(want) && n <= len(have); n++ {
		if begins(want, have[len(have)-n:]) {
			return true
		}
	}
	return false
}

// begins reports whether the first parts of a pattern match the parts of a path.
func begins(want, have []string) bool {
	for i, part := range have {
		if want[i] == "**" {
			return true
		}
		if ok, err := doublestar.Match(want[i], part); err != nil || !ok {
			return false
		}
	}
	return true
}
