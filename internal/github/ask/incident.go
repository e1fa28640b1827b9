package ask

import (
	"cmp"
	"context"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// IncidentIssue is the issue about an outage. Each pair of Repo and Key has only one issue. If the same service fails
// again later, the issue is reopened.
type IncidentIssue struct {
	Repo  string // repository of the issue, owner/name
	Issue string // key from an earlier call, tried first; may be empty
	Key   string // the failing service, such as "model:gpt"; any text
	Title string
	Body  string // description of the failing service and the symptoms
	Open  bool   // the outage continues

	Since, Until time.Time // Until is when it ended
	Waiting      []string  // keys of the issues waiting for the outage to end
	Check        []string  // checks for a person, one line each
	Does         string    // Retake's reaction, in sentences; defaults to a general text
}

// incidentPages is the maximum number of pages to search for the issue of an earlier outage. They list our latest 1,000
// issues. If the issue is older, EnsureIncident does not find it, and creates a new one.
const incidentPages = 10

// EnsureIncident creates or updates the issue about an outage, and opens or closes it. It finds the issue by marker and
// author. The issue does not have the director's labels. If a person closed the issue, EnsureIncident does not reopen
// it during the same outage, which Since identifies. If an outage ends before EnsureIncident has created the issue, it
// does not create one, and returns an empty key.
func (c *Asker) EnsureIncident(ctx context.Context, i IncidentIssue) (key string, err error) {
	if err := c.conn.CheckWrites("incident", i.Repo, zap.String("reason", i.Key)); err != nil {
		return "", err
	}
	p, err := api.ParseRepo(i.Repo)
	if err != nil {
		return "", err
	}
	m := tracker.Marker{
		Kind: tracker.MarkIncident, Fleet: c.read.Fleet, Nonce: tracker.NonceOf(i.Key),
		Since: i.Since.Unix(),
	}
	body, err := tracker.WithMarker(m, c.text.Page("incident", i))
	if err != nil {
		return "", err
	}
	title := cmp.Or(c.text.Cleaner().Title(i.Title), "Retake: a service that many tasks need is down")
	found, err := c.knownIncident(ctx, p, m, i.Issue)
	if found == nil && err == nil {
		found, err = c.findIncident(ctx, p, m)
	}
	if err != nil || found == nil && !i.Open {
		return "", err
	}
	if found == nil {
		found, _, err = c.conn.Lane(gate.Completion).Issues.Create(ctx, p.Owner, p.Repo,
			&gh.IssueRequest{Title: &title, Body: &body})
		p.Number = found.GetNumber()
		if err = api.Accepted(p.Number, "the issue about an outage", err); err != nil {
			return "", err
		}
		return p.Key(), nil
	}
	p.Number = found.GetNumber()
	return p.Key(), c.updateIncident(ctx, p, found, m, i.Open, title, body)
}

// updateIncident sends one request, which changes all fields that differ. If all fields are equal, it does not send a
// request.
func (c *Asker) updateIncident(ctx context.Context, p api.Place, now *gh.Issue, m tracker.Marker, open bool, title,
	body string,
) error {
	var change gh.IssueRequest
	before, _ := tracker.ReadMarker(now.GetBody())
	switch isOpen := now.GetState() == "open"; {
	case isOpen && !open:
		change.State, change.StateReason = gh.String("closed"), gh.String("completed")
	case !isOpen && open && before.Since != m.Since:
		change.State = gh.String("open")
	}
	if now.GetTitle() != title {
		change.Title = &title
	}
	if !tracker.SameText(now.GetBody(), body) {
		change.Body = &body
	}
	if change == (gh.IssueRequest{}) {
		return nil
	}
	edited, _, err := c.conn.Lane(gate.Completion).Issues.Edit(ctx, p.Owner, p.Repo, p.Number, &change)
	return api.Accepted(edited.GetNumber(), "the change to "+p.Key(), err)
}

// knownIncident returns the issue with the key from an earlier call, or nil if it is no longer the issue about the
// outage. This avoids searching all our issues for each change.
func (c *Asker) knownIncident(ctx context.Context, repo api.Place, want tracker.Marker, key string) (*gh.Issue, error) {
	if !strings.HasPrefix(key, repo.FullName()+"#") {
		return nil, nil
	}
	p, err := api.ParseKey(key)
	if err != nil {
		return nil, err
	}
	self, err := c.conn.Self(ctx, gate.Completion)
	if err != nil {
		return nil, err
	}
	i, _, err := c.conn.Lane(gate.Completion).Issues.Get(ctx, p.Owner, p.Repo, p.Number)
	if err = api.Normalize(err); err != nil {
		return nil, api.UnlessGone(err)
	}
	if i.GetNumber() != p.Number || !isIncident(i, want, self) {
		return nil, nil
	}
	return i, nil
}

// isIncident reports whether our account created the issue and the issue has the marker want, regardless of Since.
func isIncident(i *gh.Issue, want tracker.Marker, self string) bool {
	m, ok := tracker.ReadMarker(i.GetBody())
	m.Since = want.Since
	return ok && m == want && !i.IsPullRequest() && strings.EqualFold(i.GetUser().GetLogin(), self)
}

// findIncident returns the oldest issue by our account with the marker, or nil.
func (c *Asker) findIncident(ctx context.Context, p api.Place, want tracker.Marker) (found *gh.Issue, err error) {
	self, err := c.conn.Self(ctx, gate.Completion)
	if err != nil {
		return nil, err
	}
	opts := &gh.IssueListByRepoOptions{
		State: "all", Creator: self, Sort: "created", Direction: "desc",
		ListOptions: gh.ListOptions{PerPage: api.PageSize},
	}
	for range incidentPages {
		raw, resp, err := c.conn.Lane(gate.Completion).Issues.ListByRepo(ctx, p.Owner, p.Repo, opts)
		if err != nil {
			return nil, api.Normalize(err)
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
