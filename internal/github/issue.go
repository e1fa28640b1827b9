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

	"retake/internal/github/gate"
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
	Author        string // login
	Trusted       bool   // the author is one of Options.TrustedAuthors

	blockedBy, subIssues bool // GitHub knows open ones: see Blockers
	former               formerLabels
	node                 string            // id in GraphQL
	labelNodes           map[string]string // those of its labels, by their names
}

// Has reports whether the issue carries a label, or one that had its meaning before (see Client.Recognise);
// names compare without case.
func (i Issue) Has(label string) bool { return len(i.named(label)) > 0 }

// named are the labels of the issue that are that one, as they are written.
func (i Issue) named(label string) (all []string) {
	for _, l := range i.Labels {
		if i.former.same(l, label) {
			all = append(all, l)
		}
	}
	return all
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

// Issue reads one issue. One that was deleted, or transferred to another repository or number, is a not_found
// *Error with Status 404, 410 or 301 and, if known, MovedTo. A renamed repository is followed.
func (c *Client) Issue(ctx context.Context, key string) (Issue, error) {
	p, err := parseKey(key)
	if err != nil {
		return Issue{}, err
	}
	return c.issue(ctx, gate.Reads, p)
}

func (c *Client) issue(ctx context.Context, l gate.Lane, p place) (Issue, error) {
	raw, err := c.rawIssue(ctx, l, p)
	if err = c.missing(p, err); err != nil {
		return Issue{}, err
	}
	at, err := placeOf(&raw.Issue)
	if err != nil {
		return Issue{}, err
	}
	if !at.same(p) {
		if err := c.renamed(ctx, l, p, at); err != nil {
			return Issue{}, err
		}
	}
	return c.toIssue(p, raw), nil
}

func (p place) same(q place) bool {
	return p.number == q.number && strings.EqualFold(p.owner, q.owner) && strings.EqualFold(p.repo, q.repo)
}

// renamed accepts an issue that lives elsewhere if its whole repository does: the number stayed and the repository
// redirects to the same place.
func (c *Client) renamed(ctx context.Context, l gate.Lane, asked, found place) error {
	moved := &Error{
		Kind: KindNotFound, Status: http.StatusMovedPermanently, Message: "the issue was transferred",
		MovedTo: found.key(),
	}
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

func (c *Client) toIssue(p place, raw *rawIssue) Issue {
	p.number = raw.GetNumber()
	i := Issue{
		node: raw.GetNodeID(), labelNodes: map[string]string{},
		former: c.formerLabels(), Author: raw.GetUser().GetLogin(), Trusted: c.trusts("", raw.GetUser().GetLogin(),
			raw.GetAuthorAssociation()),
		blockedBy: raw.Dependencies.BlockedBy > 0, subIssues: raw.SubIssues.Total > raw.SubIssues.Completed,
		Key: p.key(), Number: p.number, Title: raw.GetTitle(), Body: raw.GetBody(), State: raw.GetState(),
		URL:       raw.GetHTMLURL(),
		UpdatedAt: raw.GetUpdatedAt().UTC(), IsPullRequest: raw.IsPullRequest(),
	}
	for _, l := range raw.Labels {
		i.Labels = append(i.Labels, l.GetName())
		i.labelNodes[l.GetName()] = l.GetNodeID()
	}
	slices.Sort(i.Labels)
	return i
}
