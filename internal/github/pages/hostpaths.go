package pages

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// HostPath is a directory on the director's machine. Public text shows Name instead of Path.
type HostPath struct{ Path, Name string }

// hostPaths replaces directories on the director's machine in texts.
type hostPaths []hostPath

type hostPath struct {
	path, name string
	form       *regexp.Regexp
}

const (
	sep = `(?:\\?/(?:\./)*)+` // JSON may escape a slash
	one = `[A-Za-z0-9_.-]+`   // name of a directory
	// below matches the directories that Retake creates for a worker.
	below = `(` + sep + `tasks` + sep + one + sep + `(checkout|validation)|` +
		sep + `processes` + sep + one + sep + `(home))?`
	// rest matches the next name in the path, or characters that extend the last directory's name.
	rest = `(` + sep + one + `|(?:[A-Za-z0-9_-]|\.[A-Za-z0-9])*)`
)

var separators = regexp.MustCompile(`^` + sep)

// newHostPaths adds the targets of symbolic links to the directories, because programs print either name.
func newHostPaths(dirs []HostPath) (all hostPaths) {
	seen := map[string]bool{}
	var clean []HostPath
	for _, d := range dirs {
		abs, err := filepath.Abs(d.Path)
		if err != nil || d.Path == "" {
			continue
		}
		resolved, err := filepath.EvalSymlinks(abs)
		if err != nil {
			resolved = abs // the directory may not exist
		}
		for _, p := range []string{abs, resolved} {
			if p != "/" && !seen[p] {
				seen[p] = true
				clean = append(clean, HostPath{p, d.Name})
			}
		}
	}
	// The longest comes first, because a data directory is often inside a home directory.
	slices.SortStableFunc(clean, func(a, b HostPath) int { return cmp.Compare(len(b.Path), len(a.Path)) })
	for _, d := range clean {
		all = append(all, hostPath{d.Path, d.Name, formOf(d.Path)})
	}
	return all
}

// formOf returns a regular expression for a directory. A path with a single component, such as /data, might also occur
// inside a URL or another path. Its expression therefore matches only at the beginning of a path.
func formOf(dir string) *regexp.Regexp {
	names := strings.Split(strings.TrimPrefix(dir, "/"), "/")
	before := `()`
	if len(names) == 1 {
		before = `(^|file://|[^A-Za-z0-9_./~$-])`
	}
	for i, name := range names {
		names[i] = regexp.QuoteMeta(name)
	}
	return regexp.MustCompile(before + sep + strings.Join(names, sep) + below + rest)
}

// hide replaces the directories in text with their names.
func (h hostPaths) hide(text string) string {
	if !strings.Contains(text, "/") {
		return text
	}
	for _, p := range h {
		text = p.hideCut(p.form.ReplaceAllStringFunc(text, p.replace))
	}
	return text
}

func (p hostPath) replace(match string) string {
	m := p.form.FindStringSubmatch(match)
	before, under, checkout, home, rest := m[1], m[2], m[3], m[4], m[5]
	longer := rest != "" && !separators.MatchString(rest)
	switch {
	case longer && under == "":
		return match // another directory, such as /data2
	case checkout != "" && rest == "":
		return before + "."
	case checkout != "" && !longer:
		return before + separators.ReplaceAllString(rest, "")
	case home != "" && !longer:
		return before + "~" + rest
	}
	return before + p.name + under + rest
}

// hideCut removes a partial directory path from the end of text that was truncated inside the path.
func (p hostPath) hideCut(text string) string {
	for _, mark := range []string{"…", "..."} {
		kept, isCut := strings.CutSuffix(text, mark)
		for n := len(p.path); isCut && n > 1; n-- {
			if without, found := strings.CutSuffix(kept, p.path[:n]); found {
				return without + mark
			}
		}
	}
	return text
}
