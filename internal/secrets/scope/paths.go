package scope

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"retake/internal/recovery"
	"retake/internal/secrets/protected"
)

// Link is a symbolic link in the delivered tree, whether the patch changes it or not.
type Link struct{ Path, Target string }

// Links sets the symbolic links in the delivered tree. A link gives a file another name, under which other systems may
// execute it.
func (l *Look) Links(links []Link) {
	l.reach = reach{}
	for _, link := range links {
		to := path.Join(path.Dir(link.Path), link.Target)
		if strings.HasPrefix(link.Target, "/") || to == "." || to == ".." || strings.HasPrefix(to, "../") {
			continue
		}
		to = protected.Fold(to)
		l.reach[to] = append(l.reach[to], protected.Fold(link.Path))
	}
}

// reach maps each target to the paths of the links that lead to it, all folded.
type reach map[string][]string

const (
	mostNames = 1000 // names of one path
	mostLinks = 8    // links in one name
)

// names returns the folded names of a path, starting with the path itself. It returns false if there are too many.
func (r reach) names(name string) ([]string, bool) {
	all, links := []string{protected.Fold(name)}, []int{0}
	seen := map[string]bool{all[0]: true}
	for i := 0; i < len(all) && len(r) > 0; i++ {
		if links[i] == mostLinks {
			continue
		}
		for dir := all[i]; dir != "."; dir = path.Dir(dir) {
			for _, link := range r[dir] {
				other := link + all[i][len(dir):]
				if seen[other] {
					continue
				}
				seen[other] = true
				if len(all) == mostNames {
					return all, false
				}
				all, links = append(all, other), append(links, links[i]+1)
			}
		}
	}
	return all, true
}

// checkPath checks whether a patch may change a path at all.
func (l *Look) checkPath(f File) {
	if protected.HiddenIn(f.Path) && !f.Old {
		l.find(finding{recovery.ScopeViolation, visible(f.Path), 0, recovery.HiddenName, "rename it"})
	}
	names, ok := l.reach.names(f.Path)
	if !ok {
		l.find(finding{
			recovery.ScopeViolation, f.Path, 0,
			fmt.Sprintf("a path with more than %d names because of symbolic links", mostNames), "remove links",
		})
		return
	}
	p, through := protection(l.rules.deny, f, names)
	if p == nil || l.rules.isAllowed(f.Path, l.labels) {
		return
	}
	text := fmt.Sprintf("forbidden by scope.deny %q", p.Glob) + through
	l.find(finding{recovery.ScopeViolation, f.Path, 0, text, l.labelAdvice(f.Path)})
}

// labelAdvice tells a person which label allows a path.
func (l *Look) labelAdvice(name string) string {
	if label := l.rules.labelFor(name); label != "" {
		return fmt.Sprintf("the label %q allows it", label)
	}
	return "no label in scope.allow allows it"
}

// Asked is a file that only a draft may change, because people's tools or other agents obey it.
type Asked struct{ Path, Glob, Why string }

// Ask records a path that differs from the base branch if Options.Ask protects it. Unlike File, it must also be called
// for paths that an earlier delivery has pushed.
func (l *Look) Ask(f File) {
	names, _ := l.reach.names(f.Path)
	p, _ := protection(l.rules.ask, f, names)
	if p != nil && !l.rules.isAllowed(f.Path, l.labels) {
		l.asked = append(l.asked, Asked{f.Path, p.Glob, cmp.Or(p.Why, "matches scope.ask")})
	}
}

// Asked returns the files recorded by Ask. The delivery must be a draft that lists them.
func (l *Look) Asked() []Asked { return l.asked }

// RefuseAsked turns the files recorded by Ask into findings, for a delivery that cannot be a draft.
func (l *Look) RefuseAsked() {
	for _, a := range l.asked {
		l.find(finding{
			recovery.ScopeViolation, a.Path, 0, fmt.Sprintf("forbidden by scope.ask %q outside a draft", a.Glob),
			l.labelAdvice(a.Path),
		})
	}
}

// visible returns a name with escape sequences in place of hidden characters.
func visible(name string) string { return strings.Trim(strconv.Quote(name), `"`) }

// protection returns the protection of the first protected name of a path. through explains the match and is appended
// to the message.
func protection(paths *protected.Paths, f File, names []string) (_ *protected.Protection, through string) {
	for _, name := range names {
		if p := paths.By(name); p != nil {
			return p, through
		}
		if p := paths.Below(name); p != nil && f.Link {
			return p, ", because the link replaces a directory"
		}
		through = ", through a symbolic link"
	}
	return nil, ""
}

// isAllowed reports whether an issue with these labels may change a protected path.
func (r *Rules) isAllowed(name string, labels []string) bool {
	return slices.ContainsFunc(r.allow, func(a allowed) bool { return has(labels, a.label) && a.globs.Match(name) })
}

// has reports whether labels contains label. It ignores case, like GitHub.
func has(labels []string, label string) bool {
	return slices.ContainsFunc(labels, func(l string) bool { return strings.EqualFold(l, label) })
}

// labelFor returns a label that would allow a path, or "".
func (r *Rules) labelFor(name string) string {
	for _, a := range r.allow {
		if a.globs.Match(name) {
			return a.label
		}
	}
	return ""
}
