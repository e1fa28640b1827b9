package worktree

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreRule is one line of a .gitignore file.
type ignoreRule struct {
	pattern string // for a path relative to the file's directory
	literal string // common prefix of all matches
	base    bool   // pattern applies to the last part of a path
	except  bool   // the line began with "!"
	folders bool   // the line ended with "/"
}

// parseIgnore parses the text of a .gitignore file as described in gitignore(5).
func parseIgnore(text string) (rules []ignoreRule) {
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		line = trimBlanks(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		line, r.except = strings.CutPrefix(line, "!")
		line, r.folders = strings.CutSuffix(line, "/")
		r.base = !strings.Contains(line, "/")
		// Git treats braces as ordinary characters, and "a/**" as everything inside a, but not as a itself.
		r.pattern = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(strings.TrimPrefix(line, "/"))
		if strings.HasSuffix(r.pattern, "/**") {
			r.pattern += "/*"
		}
		// git ignores an invalid pattern
		if r.literal = literal(r.pattern); line != "" && doublestar.ValidatePattern(r.pattern) {
			rules = append(rules, r)
		}
	}
	return rules
}

// trimBlanks removes trailing blanks from a line, except one after a backslash.
func trimBlanks(line string) string {
	trimmed := strings.TrimRight(line, " ")
	if strings.HasSuffix(trimmed, `\`) && len(trimmed) < len(line) {
		return trimmed + " "
	}
	return trimmed
}

// ignoreFile holds the rules of a .gitignore file and the directory that contains it.
type ignoreFile struct {
	folder string // empty or ending in a slash
	rules  []ignoreRule
}

// ignored reports whether the rules of the files ignore a path. The files are ordered from the outermost to the
// innermost.
func ignored(files []ignoreFile, name string, isDir bool) bool {
	for i := len(files) - 1; i >= 0; i-- {
		for j := len(files[i].rules) - 1; j >= 0; j-- {
			r := &files[i].rules[j]
			if (isDir || !r.folders) && r.match(name[len(files[i].folder):]) {
				return !r.except
			}
		}
	}
	return false
}

func (r *ignoreRule) match(name string) bool {
	if r.base {
		name = path.Base(name)
	}
	return strings.HasPrefix(name, r.literal) && doublestar.MatchUnvalidated(r.pattern, name)
}
