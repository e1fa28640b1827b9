package api

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	repoName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9-]{0,38})/([A-Za-z0-9._-]{1,100})$`)

	// FleetName matches valid fleet names.
	FleetName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// Place is a parsed repository or issue key.
type Place struct {
	Owner, Repo string
	Number      int
}

// FullName returns owner/name.
func (p Place) FullName() string { return p.Owner + "/" + p.Repo }

// Key returns owner/name#number.
func (p Place) Key() string { return p.FullName() + "#" + strconv.Itoa(p.Number) }

// ParseRepo parses owner/name. Its errors are permanent.
func ParseRepo(s string) (Place, error) {
	m := repoName.FindStringSubmatch(s)
	if m == nil || m[2] == "." || m[2] == ".." {
		return Place{}, Permanent("repository %q: want owner/name", s)
	}
	return Place{Owner: m[1], Repo: m[2]}, nil
}

// ParseKey parses owner/name#number. Its errors are permanent.
func ParseKey(s string) (Place, error) {
	name, num, ok := strings.Cut(s, "#")
	p, err := ParseRepo(name)
	n, numErr := strconv.Atoi(num)
	if !ok || err != nil || numErr != nil || n < 1 || strconv.Itoa(n) != num {
		return Place{}, Permanent("issue %q: want owner/name#number", s)
	}
	p.Number = n
	return p, nil
}

// Same reports whether both keys identify the same issue. It ignores case, as GitHub does.
func (p Place) Same(q Place) bool {
	return p.Number == q.Number && strings.EqualFold(p.Owner, q.Owner) && strings.EqualFold(p.Repo, q.Repo)
}

// Format writes a time the way GitHub does: UTC, whole seconds, RFC 3339.
func Format(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
