package worktree

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Globs match files and directories relative to a work tree. A directory includes its content. The last matching glob
// decides, and a leading "!" excludes the path. "**" stands for any number of directories.
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
		return errors.New("the glob contains . or .. or two slashes")
	case strings.ContainsAny(p, "\x00\n"), !doublestar.ValidatePattern(p):
		return errors.New("the glob has an open bracket, or a character that paths cannot contain")
	}
	return nil
}

// Match reports whether the globs match a path or one of its parents.
func (gs Globs) Match(name string) bool {
	for i := len(gs) - 1; i >= 0; i-- {
		if gs[i].match(name) {
			return !gs[i].except
		}
	}
	return false
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
