package tracker

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
)

// Issue is the part of an issue that Retake reads.
type Issue struct {
	Key           string // "owner/repo#n" as requested, even after the repository was renamed
	Number        int
	Title, Body   string
	State         string    // open | closed
	Labels        []string  // sorted
	URL           string    // HTML page
	UpdatedAt     time.Time // whole seconds, UTC
	IsPullRequest bool
	Author        string // login
	Trusted       bool   // the author's association is in Options.TrustedAuthors

	BlockedBy, SubIssues bool // the issue has open blocking issues, or open sub-issues; see Blockers
	former               formerLabels
	Node                 string            // id in GraphQL
	labelNodes           map[string]string // node ids of its labels, by name
}

// Has reports whether the issue has a label under its current or a former name (see Reader.Recognise). It ignores case.
func (i Issue) Has(label string) bool { return len(i.Named(label)) > 0 }

// Named returns the issue's labels that count as the given label, under its current or a former name. The names are
// spelled as on GitHub.
func (i Issue) Named(label string) (all []string) {
	for _, l := range i.Labels {
		if i.former.Same(l, label) {
			all = append(all, l)
		}
	}
	return all
}

// Issue reads one issue. For an issue that was deleted or transferred, it returns a not_found *api.Error with Status
// 404, 410 or 301 and, if known, MovedTo. It follows repository renames. The request has priority over claims, because
// a claimed task or a person is waiting for the answer.
func (c *Reader) Issue(ctx context.Context, key string) (Issue, error) {
	p, err := api.ParseKey(key)
	if err != nil {
		return Issue{}, err
	}
	return c.IssueAt(ctx, gate.Completion, p)
}

// IssueAt is like Issue, but takes a parsed key and a lane.
func (c *Reader) IssueAt(ctx context.Context, l gate.Lane, p api.Place) (Issue, error) {
	raw, err := c.RawIssue(ctx, l, p)
	if err = c.missing(p, err); err != nil {
		return Issue{}, err
	}
	at, err := PlaceOf(&raw.Issue)
	if err != nil {
		return Issue{}, err
	}
	if !at.Same(p) {
		if err := c.renamed(ctx, l, p, at); err != nil {
			return Issue{}, err
		}
	}
	return c.ToIssue(p, raw), nil
}

// renamed returns nil if an issue has another address because its repository was renamed or transferred. The number is
// then unchanged, and GitHub redirects the old name of the repository to the new one. Otherwise the issue itself was
// transferred, and renamed returns a not_found error with the new address.
func (c *Reader) renamed(ctx context.Context, l gate.Lane, asked, found api.Place) error {
	moved := &api.Error{
		Kind: api.KindNotFound, Status: http.StatusMovedPermanently, Message: "the issue was transferred",
		MovedTo: found.Key(),
	}
	if asked.Number != found.Number {
		return moved
	}
	repo, _, err := c.conn.Lane(l).Repositories.Get(ctx, asked.Owner, asked.Repo)
	if api.KindOf(err) == api.KindNotFound {
		return moved
	}
	if err != nil {
		return api.Normalize(err)
	}
	if !strings.EqualFold(repo.GetFullName(), found.FullName()) {
		return moved
	}
	return nil
}

// PlaceOf derives an issue's key from its repository_url.
func PlaceOf(raw *gh.Issue) (api.Place, error) {
	_, name, ok := strings.Cut(raw.GetRepositoryURL(), "/repos/")
	p, err := api.ParseRepo(name)
	if !ok || err != nil || raw.GetNumber() < 1 {
		return api.Place{}, api.Transient("the response is not an issue", nil)
	}
	p.Number = raw.GetNumber()
	return p, nil
}

// ToIssue converts an issue from the API.
func (c *Reader) ToIssue(p api.Place, raw *RawIssue) Issue {
	p.Number = raw.GetNumber()
	i := Issue{
		Node: raw.GetNodeID(), labelNodes: map[string]string{},
		former: c.formerLabels(), Author: raw.GetUser().GetLogin(), Trusted: c.trusts("", raw.GetUser().GetLogin(),
			raw.GetAuthorAssociation()),
		BlockedBy: raw.Dependencies.BlockedBy > 0, SubIssues: raw.SubIssues.Total > raw.SubIssues.Completed,
		Key: p.Key(), Number: p.Number, Title: raw.GetTitle(), Body: raw.GetBody(), State: raw.GetState(),
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

// missing interprets an error from reading an issue. It treats a 404 as transient until GitHub has repeated it often
// enough, because GitHub also answers 404 if the credential cannot read the issue or a replica is outdated. The answers
// for deleted and transferred issues, 410 and 301, count at once.
func (c *Reader) missing(p api.Place, err error) error {
	e := api.Detail(err)
	if e.Kind != api.KindNotFound || e.Status != http.StatusNotFound {
		if err == nil {
			c.lost.Drop(p.Key())
		}
		return err
	}
	d, _ := c.lost.Get(p.Key())
	d, sure := d.Again(time.Now())
	c.lost.Put(p.Key(), d)
	if sure {
		return err
	}
	return api.Doubted(e, d)
}

// IsOffered reports whether the issue has the task label and none of the other three labels.
func (i Issue) IsOffered(l Labels) bool {
	return i.Has(l.Task) && !i.Has(l.Claimed) && !i.Has(l.Blocked) && !i.Has(l.Review)
}
