package github

import (
	"context"
	"net/http"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// Credential is GitHub's information about the current credential. GitHub provides Login for every kind of credential,
// but may omit the other fields.
type Credential struct {
	Login   string
	Bot     bool
	Told    bool      // GitHub provided Scopes
	Scopes  []string  // scopes of a classic token
	Expires time.Time // expiry of the token, in UTC, or zero
	Date    time.Time // GitHub's clock, in whole seconds; UTC
}

// Headers of GitHub's answers that describe the token.
const (
	scopesHeader  = "X-Oauth-Scopes"
	expiresHeader = "Github-Authentication-Token-Expiration"
	expiresForm   = "2006-01-02 15:04:05 MST"
)

// Inspect returns GitHub's information about the credential and its account.
func (c *Client) Inspect(ctx context.Context) (Credential, error) {
	if c.API.IsApp() { // an App has no user
		login, err := c.API.Self(ctx, gate.Reads)
		if err != nil {
			return Credential{}, err
		}
		_, resp, err := c.API.Lane(gate.Reads).RateLimit.Get(ctx) // free, and every credential may use it
		if err != nil {
			return Credential{}, api.Normalize(err)
		}
		return Credential{Login: login, Bot: true, Date: dateOf(resp.Header)}, nil
	}
	u, resp, err := c.API.Lane(gate.Reads).Users.Get(ctx, "")
	if err != nil {
		return Credential{}, api.Normalize(err)
	}
	found := Credential{Login: u.GetLogin(), Bot: !tracker.IsPerson(u), Date: dateOf(resp.Header)}
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

// About is GitHub's information about a repository.
type About struct {
	Push          bool // true if the account may push or GitHub omits the permission
	Archived      bool
	HasIssues     bool
	DefaultBranch string
}

// About reads a repository from GitHub.
func (c *Client) About(ctx context.Context, repo string) (About, error) {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return About{}, err
	}
	r, _, err := c.API.Lane(gate.Reads).Repositories.Get(ctx, p.Owner, p.Repo)
	if err != nil {
		return About{}, api.Normalize(err)
	}
	may := r.GetPermissions()
	return About{
		Push: may == nil || may["push"] || may["maintain"] || may["admin"], Archived: r.GetArchived(),
		HasIssues: r.GetHasIssues(), DefaultBranch: r.GetDefaultBranch(),
	}, nil
}

// MissingLabels returns our labels that are missing from a repository. It does not create them.
func (c *Client) MissingLabels(ctx context.Context, repo string) ([]string, error) {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return nil, err
	}
	missing, err := c.Labels.MissingLabels(ctx, p)
	return tracker.Names(missing), err
}

// MayRead tries each kind of read request that a director needs, on a repository and a branch. It returns the names of
// the permissions missing from the credential, such as "pull_requests".
func (c *Client) MayRead(ctx context.Context, repo, branch string) (lacks []string, err error) {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return nil, err
	}
	client, few := c.API.Lane(gate.Reads), gh.ListOptions{PerPage: 1}
	for _, r := range []struct {
		permission string
		read       func() error
	}{
		{"issues", func() error {
			_, _, err := client.Issues.ListByRepo(ctx, p.Owner, p.Repo, &gh.IssueListByRepoOptions{ListOptions: few})
			return err
		}},
		{"pull_requests", func() error {
			_, _, err := client.PullRequests.List(ctx, p.Owner, p.Repo, &gh.PullRequestListOptions{ListOptions: few})
			return err
		}},
		{"contents", func() error {
			_, _, err := client.Git.GetRef(ctx, p.Owner, p.Repo, "heads/"+branch)
			return err
		}},
		{"statuses", func() error {
			_, _, err := client.Repositories.GetCombinedStatus(ctx, p.Owner, p.Repo, branch, &few)
			return err
		}},
		{"checks", func() error {
			_, _, err := client.Checks.ListCheckRunsForRef(ctx, p.Owner, p.Repo, branch,
				&gh.ListCheckRunsOptions{ListOptions: few})
			return err
		}},
	} {
		switch err := api.Normalize(r.read()); {
		case api.StatusOf(err) == http.StatusForbidden && api.KindOf(err) == api.KindPermanent:
			lacks = append(lacks, r.permission)
		case err != nil && api.KindOf(err) != api.KindNotFound && api.StatusOf(err) != http.StatusConflict &&
			api.StatusOf(err) != http.StatusUnprocessableEntity:
			// Statuses 404, 409 and 422 are not errors here: the repository is empty or the branch is missing, but
			// GitHub has granted the permission.
			return lacks, err
		}
	}
	return lacks, nil
}

// Account returns the login that our credential acts as, and whether it belongs to a bot.
func (c *Client) Account(ctx context.Context) (login string, bot bool, err error) {
	if c.API.IsApp() {
		login, err = c.API.Self(ctx, gate.Reads)
		return login, true, err
	}
	u, _, err := c.API.Lane(gate.Reads).Users.Get(ctx, "")
	if err != nil {
		return "", false, api.Normalize(err)
	}
	return u.GetLogin(), !tracker.IsPerson(u), nil
}

// HasBranch returns a permanent *api.Error if a branch of a repository does not exist. The error names the
// configuration key to change, or asks for a first commit if the missing branch is the default branch.
func (c *Client) HasBranch(ctx context.Context, repo, branch string) error {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return err
	}
	_, _, err = c.API.Lane(gate.Reads).Git.GetRef(ctx, p.Owner, p.Repo, "heads/"+branch)
	if err = api.Normalize(err); !api.IsGone(err) {
		return err
	}
	about, _, err := c.API.Lane(gate.Reads).Repositories.Get(ctx, p.Owner, p.Repo)
	if err != nil {
		return api.Normalize(err) // the repository does not exist
	}
	if about.GetDefaultBranch() == branch {
		return api.Permanent("%s has no branch %s, although GitHub calls it the default branch. If the repository is "+
			"empty, push a first commit to it", repo, branch)
	}
	return api.Permanent("%s has no branch %s: set github.base_branch to the branch that work starts from (the "+
		"default branch is %s)", repo, branch, about.GetDefaultBranch())
}
