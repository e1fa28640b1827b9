package protected

import (
	"slices"
	"strings"
	"unicode"

	"retake/internal/worktree"
)

// Default is the element of scope.deny and scope.ask that stands for the rows of this package.
const Default = "@default"

// Row describes files that a system or tool executes or obeys.
type Row struct {
	System string
	Runs   string // the effect of the files
	Doc    string // URL of the vendor's documentation
	Globs  []string
}

// Paths holds the compiled globs for protected files.
type Paths struct {
	globs  []string // as configured, for messages
	why    []string // effect of the files, or "" if the glob comes from the configuration
	folded worktree.Globs
}

// Compile compiles a list of globs, in which Default stands for the globs of rows. The last matching glob decides.
func Compile(list []string, rows []Row) (*Paths, error) {
	p := &Paths{}
	for _, glob := range list {
		if glob != Default {
			p.globs, p.why = append(p.globs, glob), append(p.why, "")
			continue
		}
		for _, row := range rows {
			for _, glob := range row.Globs {
				p.globs, p.why = append(p.globs, glob), append(p.why, row.System+": "+row.Runs)
			}
		}
	}
	if _, err := worktree.Compile(p.globs); err != nil { // its error quotes the glob as configured
		return nil, err
	}
	folded := make([]string, len(p.globs))
	for i, glob := range p.globs {
		folded[i] = strings.Map(foldRune, glob)
	}
	var err error
	p.folded, err = worktree.Compile(folded)
	return p, err
}

// Protection is the reason a path is protected.
type Protection struct {
	Glob string
	Why  string // effect of the file, or "" if only the configuration protects it
}

// By returns the protection of a path, or nil.
func (p *Paths) By(name string) *Protection { return p.protection(p.folded.Deciding(Fold(name))) }

// Below returns the protection of some path below a directory, or nil. Use it for links, because a link in place of the
// directory also replaces the protected path.
func (p *Paths) Below(dir string) *Protection { return p.protection(p.folded.Below(Fold(dir))) }

func (p *Paths) protection(i int) *Protection {
	if i < 0 || strings.HasPrefix(p.globs[i], "!") {
		return nil
	}
	return &Protection{p.globs[i], p.why[i]}
}

// Fold returns the canonical spelling of a path. macOS and Windows ignore case, and HFS+ ignores invisible characters.
// Windows ignores dots and blanks at the end of a name, and a stream name after a colon.
func Fold(name string) string {
	parts := strings.Split(strings.Map(foldRune, name), "/")
	for i, part := range parts {
		stem, _, _ := strings.Cut(part, ":")
		if stem = strings.TrimRight(stem, " ."); stem != "" {
			parts[i] = stem
		}
	}
	return strings.Join(parts, "/")
}

// foldRune maps all cases of a letter to the same letter, and removes invisible characters.
func foldRune(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return least
}

// HiddenIn reports whether a name contains invisible characters, or characters that change the display order.
func HiddenIn(name string) bool {
	return strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
	})
}

// all returns the globs of rows.
func all(rows []Row) (globs []string) {
	for _, row := range rows {
		globs = slices.Concat(globs, row.Globs)
	}
	return globs
}
