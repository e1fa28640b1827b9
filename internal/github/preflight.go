package github

import (
	"context"
	"net/http"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/gate"
)

// Credential is what GitHub says of the credential in use. Everything but Login may be missing: GitHub does not
// tell it of every kind.
type Credential struct {
	Login   string
	Bot     bool
	Told    bool      // Scopes are what GitHub says
	Scopes  []string  // of a classic token
	Expires time.Time // of a token that ends; UTC
	Date    time.Time // GitHub's clock, in whole seconds; UTC
}

// Headers of an answer that are about the token.
const (
	scopesHeader  = "X-Oauth-Scopes"
	expiresHeader = "Github-Authentication-Token-Expiration"
	expiresForm   = "2006-01-02 15:04:05 MST"
)

// Inspect asks GitHub for the account of the credential, and returns what the answer tells of it.
func (c *Client) Inspect(ctx context.Context) (Credential, error) {
	if c.opts.Login != nil { // an App has no user
		login, err := c.self(ctx, gate.Reads)
		if err != nil {
			return Credential{}, err
		}
		_, resp, err := c.lanes[gate.Reads].RateLimit.Get(ctx) // anybody may, for nothing
		if err != nil {
			return Credential{}, normalize(err)
		}
		return Credential{Login: login, Bot: true, Date: dateOf(resp.Header)}, nil
	}
	u, resp, err := c.lanes[gate.Reads].Users.Get(ctx, "")
	if err != nil {
		return Credential{}, normalize(err)
	}
	found := Credential{Login: u.GetLogin(), Bot: !isPerson(u), Date: dateOf(resp.Header)}
	if scopes, told := resp.Header[scopesHeader]; told {
		found.Told, found.Scopes = true, strings.FieldsFunc(strings.Join(scopes, ","),
			func(r rune) bool { return r == ',' || r == ' ' })
	}
	if at, err := time.Parse(expiresForm, resp.Header.Get(expiresHeader)); err == nil {
		found.Expires = at.UTC()
	}
	return found, nil
}

func dateOf(h http.Header) time.Time {
	at, _ := http.ParseTime(h.Get("Date"))
	return at.UTC()
}

// About is what GitHub says of a repository.
type About struct {
	Push          bool // the account may, or it is not told
	Archived      bool
	HasIssues     bool
	DefaultBranch string
}

// About reads what GitHub says of a repository.
func (c *Client) About(ctx context.Context, repo string) (About, error) {
	p, err := parseRepo(repo)
	if err != nil {
		return About{}, err
	}
	r, _, err := c.lanes[gate.Reads].Repositories.Get(ctx, p.owner, p.repo)
	if err != nil {
		return About{}, normalize(err)
	}
	may := r.GetPermissions()
	return About{
		Push: may == nil || may["push"] || may["maintain"] || may["admin"], Archived: r.GetArchived(),
		HasIssues: r.GetHasIssues(), DefaultBranch: r.GetDefaultBranch(),
	}, nil
}

// MissingLabels are ours that a repository lacks. It reads only.
func (c *Client) MissingLabels(ctx context.Context, repo string) ([]string, error) {
	p, err := parseRepo(repo)
	if err != nil {
		return nil, err
	}
	missing, err := c.missingLabels(ctx, p)
	return names(missing), err
}

// MayRead returns the permissions, in GitHub's words, without which the credential cannot read what a director
// reads of a repository at a branch.
func (c *Client) MayRead(ctx context.Context, repo, branch string) (lacks []string, err error) {
	p, err := parseRepo(repo)
	if err != nil {
		return nil, err
	}
	api, few := c.lanes[gate.Reads], gh.ListOptions{PerPage: 1}
	for _, r := range []struct {
		permission string
		read       func() error
	}{
		{"issues", func() error {
			_, _, err := api.Issues.ListByRepo(ctx, p.owner, p.repo, &gh.IssueListByRepoOptions{ListOptions: few})
			return err
		}},
		{"pull_requests", func() error {
			_, _, err := api.PullRequests.List(ctx, p.owner, p.repo, &gh.PullRequestListOptions{ListOptions: few})
			return err
		}},
		{"contents", func() error {
			_, _, err := api.Git.GetRef(ctx, p.owner, p.repo, "heads/"+branch)
			return err
		}},
		{"statuses", func() error {
			_, _, err := api.Repositories.GetCombinedStatus(ctx, p.owner, p.repo, branch, &few)
			return err
		}},
		{"checks", func() error {
			_, _, err := api.Checks.ListCheckRunsForRef(ctx, p.owner, p.repo, branch,
				&gh.ListCheckRunsOptions{ListOptions: few})
			return err
		}},
	} {
		switch err := normalize(r.read()); {
		case statusOf(err) == http.StatusForbidden && kindOf(err) == KindPermanent:
			lacks = append(lacks, r.permission)
		case err != nil && kindOf(err) != KindNotFound && statusOf(err) != http.StatusConflict &&
			statusOf(err) != http.StatusUnprocessableEntity:
			// an empty repository, or no such branch
			return lacks, err
		}
	}
	return lacks, nil
}

// Rights are the permissions of the App's installation, as GitHub calls them, each read, write or admin. It
// asks for a token unless there is one.
func (a *App) Rights(ctx context.Context) (map[string]string, error) {
	if _, err := a.Token(ctx); err != nil {
		return nil, err
	}
	p, err := a.in.Permissions()
	if err != nil {
		return nil, normalize(err)
	}
	rights := map[string]string{}
	for name, level := range map[string]*string{
		"metadata": p.Metadata, "issues": p.Issues, "contents": p.Contents, "pull_requests": p.PullRequests,
		"statuses": p.Statuses, "checks": p.Checks,
	} {
		if level != nil {
			rights[name] = *level
		}
	}
	return rights, nil
}
