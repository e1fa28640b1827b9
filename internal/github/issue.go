package github

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
)

// Issue is what Retake reads of an issue.
type Issue struct {
	Key           string // "owner/repo#n" as asked for, also after a rename of the repository
	Number        int
	Title, Body   string
	State         string    // open | closed
	Labels        []string  // sorted
	URL           string    // of the page for people
	UpdatedAt     time.Time // whole seconds, UTC
	IsPullRequest bool
}

// Has reports whether the issue carries a label; names compare without case.
func (i Issue) Has(label string) bool {
	return slices.ContainsFunc(i.Labels, func(l string) bool { return strings.EqualFold(l, label) })
}

var (
	repoName  = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9-]{0,38})/([A-Za-z0-9._-]{1,100})$`)
	fleetName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// place is a parsed repository or issue key.
type place struct {
	owner, repo string
	number      int
}

func (p place) fullName() string { return p.owner + "/" + p.repo }
func (p place) key() string      { return p.fullName() + "#" + strconv.Itoa(p.number) }

func parseRepo(s string) (place, error) {
	m := repoName.FindStringSubmatch(s)
	if m == nil || m[2] == "." || m[2] == ".." {
		return place{}, permanent("repository %q: want owner/name", s)
	}
	return place{owner: m[1], repo: m[2]}, nil
}

func parseKey(s string) (place, error) {
	name, num, ok := strings.Cut(s, "#")
	p, err := parseRepo(name)
	n, numErr := strconv.Atoi(num)
	if !ok || err != nil || numErr != nil || n < 1 || strconv.Itoa(n) != num {
		return place{}, permanent("issue %q: want owner/name#number", s)
	}
	p.number = n
	return p, nil
}

// Issue reads one issue. One that was deleted, or transferred to another repository or number, is a not_found *Error with
// Status 404, 410 or 301 and, if known, MovedTo. A renamed repository is followed.
func (c *Client) Issue(ctx context.Context, key string) (Issue, error) {
	p, err := parseKey(key)
	if err != nil {
		return Issue{}, err
	}
	return c.issue(ctx, laneReads, p)
}

func (c *Client) issue(ctx context.Context, l lane, p place) (Issue, error) {
	raw, _, err := c.lanes[l].Issues.Get(ctx, p.owner, p.repo, p.number)
	if err != nil {
		return Issue{}, normalize(err)
	}
	at, err := placeOf(raw)
	if err != nil {
		return Issue{}, err
	}
	if !at.same(p) {
		if err := c.renamed(ctx, l, p, at); err != nil {
			return Issue{}, err
		}
	}
	return toIssue(p, raw), nil
}

func (p place) same(q place) bool {
	return p.number == q.number && strings.EqualFold(p.owner, q.owner) && strings.EqualFold(p.repo, q.repo)
}

// renamed accepts an issue that lives elsewhere if its whole repository does: the number stayed and the repository
// redirects to the same place.
func (c *Client) renamed(ctx context.Context, l lane, asked, found place) error {
	moved := &Error{Kind: KindNotFound, Status: http.StatusMovedPermanently, Message: "the issue was transferred", MovedTo: found.key()}
	if asked.number != found.number {
		return moved
	}
	repo, _, err := c.lanes[l].Repositories.Get(ctx, asked.owner, asked.repo)
	if kindOf(err) == KindNotFound {
		return moved
	}
	if err != nil {
		return normalize(err)
	}
	if !strings.EqualFold(repo.GetFullName(), found.fullName()) {
		return moved
	}
	return nil
}

// placeOf reads where an issue is from its own repository_url.
func placeOf(raw *gh.Issue) (place, error) {
	_, name, ok := strings.Cut(raw.GetRepositoryURL(), "/repos/")
	p, err := parseRepo(name)
	if !ok || err != nil || raw.GetNumber() < 1 {
		return place{}, transient("an answer that is no issue", nil)
	}
	p.number = raw.GetNumber()
	return p, nil
}

func toIssue(p place, raw *gh.Issue) Issue {
	p.number = raw.GetNumber()
	i := Issue{
		Key: p.key(), Number: p.number, Title: raw.GetTitle(), Body: raw.GetBody(), State: raw.GetState(),
		URL:       raw.GetHTMLURL(),
		UpdatedAt: raw.GetUpdatedAt().UTC(), IsPullRequest: raw.IsPullRequest(),
	}
	for _, l := range raw.Labels {
		i.Labels = append(i.Labels, l.GetName())
	}
	slices.Sort(i.Labels)
	return i
}
