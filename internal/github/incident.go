package github

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// IncidentIssue is the issue that shows one outage to people. Repo and Key make one issue, which later outages
// of the same kind open again.
type IncidentIssue struct {
	Repo  string // owner/name of where it is shown
	Issue string // where an earlier call has shown it, looked at first; empty: not known
	Key   string // of what is out, e.g. "model:gpt"; any text
	Title string
	Body  string // what is out, and what was seen of it
	Open  bool   // false: it is over

	Since, Until time.Time // Until: when it was over
	Waiting      []string  // keys of the issues that wait for it
	Check        []string  // what a person can check, one line each
	Does         string    // what Retake does meanwhile; empty: what it does about every outage
}

// incidentPages bounds the issues that are searched for that of an earlier outage: our latest 1,000. Beyond
// them another one is made.
const incidentPages = 10

// EnsureIncident makes the outage's issue say what it should, opening or closing it. It finds the issue by
// marker and author, and carries none of our labels. An issue that a person has closed stays closed while the
// same outage (Since) goes on. An outage that was never shown is not shown once it is over: then the key is
// empty.
func (c *Client) EnsureIncident(ctx context.Context, i IncidentIssue) (key string, err error) {
	if err := c.checkWrites("incident", i.Repo, zap.String("reason", i.Key)); err != nil {
		return "", err
	}
	p, err := parseRepo(i.Repo)
	if err != nil {
		return "", err
	}
	m := marker{kind: markIncident, Fleet: c.opts.Fleet, Nonce: incidentNonce(i.Key), Since: i.Since.Unix()}
	body, err := withMarker(m, c.page("incident", i))
	if err != nil {
		return "", err
	}
	title := cmp.Or(c.redactor().title(i.Title), "Retake: something that many tasks need is out")
	found, err := c.knownIncident(ctx, p, m, i.Issue)
	if found == nil && err == nil {
		found, err = c.findIncident(ctx, p, m)
	}
	if err != nil || found == nil && !i.Open {
		return "", err
	}
	if found == nil {
		found, _, err = c.lanes[gate.Completion].Issues.Create(ctx, p.owner, p.repo,
			&gh.IssueRequest{Title: &title, Body: &body})
		p.number = found.GetNumber()
		if err = accepted(p.number, "the issue about an outage", err); err != nil {
			return "", err
		}
		return p.key(), nil
	}
	p.number = found.GetNumber()
	return p.key(), c.updateIncident(ctx, p, found, m, i.Open, title, body)
}

// updateIncident sends what has changed in one request, or nothing.
func (c *Client) updateIncident(ctx context.Context, p place, now *gh.Issue, m marker, open bool, title,
	body string,
) error {
	var change gh.IssueRequest
	before, _ := readMarker(now.GetBody())
	switch isOpen := now.GetState() == "open"; {
	case isOpen && !open:
		change.State, change.StateReason = gh.String("closed"), gh.String("completed")
	case !isOpen && open && before.Since != m.Since:
		change.State = gh.String("open")
	}
	if now.GetTitle() != title {
		change.Title = &title
	}
	if !sameText(now.GetBody(), body) {
		change.Body = &body
	}
	if change == (gh.IssueRequest{}) {
		return nil
	}
	edited, _, err := c.lanes[gate.Completion].Issues.Edit(ctx, p.owner, p.repo, p.number, &change)
	return accepted(edited.GetNumber(), "the change of "+p.key(), err)
}

// knownIncident is the issue that a caller remembers, nil if it is another one by now: a search among all our
// issues is spared for each change.
func (c *Client) knownIncident(ctx context.Context, repo place, want marker, key string) (*gh.Issue, error) {
	if !strings.HasPrefix(key, repo.fullName()+"#") {
		return nil, nil
	}
	p, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	self, err := c.self(ctx, gate.Completion)
	if err != nil {
		return nil, err
	}
	i, _, err := c.lanes[gate.Completion].Issues.Get(ctx, p.owner, p.repo, p.number)
	if err = normalize(err); err != nil {
		return nil, unlessGone(err)
	}
	if i.GetNumber() != p.number || !isIncident(i, want, self) {
		return nil, nil
	}
	return i, nil
}

// isIncident reports whether an issue is ours, with the marker.
func isIncident(i *gh.Issue, want marker, self string) bool {
	m, ok := readMarker(i.GetBody())
	m.Since = want.Since
	return ok && m == want && !i.IsPullRequest() && strings.EqualFold(i.GetUser().GetLogin(), self)
}

// findIncident is our issue with the marker, nil if there is none. The oldest counts.
func (c *Client) findIncident(ctx context.Context, p place, want marker) (found *gh.Issue, err error) {
	self, err := c.self(ctx, gate.Completion)
	if err != nil {
		return nil, err
	}
	opts := &gh.IssueListByRepoOptions{
		State: "all", Creator: self, Sort: "created", Direction: "desc", ListOptions: gh.ListOptions{PerPage: pageSize},
	}
	for range incidentPages {
		raw, resp, err := c.lanes[gate.Completion].Issues.ListByRepo(ctx, p.owner, p.repo, opts)
		if err != nil {
			return nil, normalize(err)
		}
		for _, i := range raw {
			if isIncident(i, want, self) {
				found = i
			}
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return found, nil
}

// incidentNonce is the name of an incident in its marker, whose alphabet is narrow.
func incidentNonce(key string) string {
	sum := sha256.Sum256([]byte(key))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}
