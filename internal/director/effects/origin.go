package effects

import (
	"net/url"

	"retake/internal/fsm"
	"retake/internal/workspace"
)

// Origin derives the git URLs of repositories from the configuration.
type Origin struct {
	APIURL     string
	BaseBranch func(repo string) string
}

// Remote returns a repository's git URL: on the host of the API, or at github.com for the public API.
func (o Origin) Remote(repo string) string {
	u, err := url.Parse(o.APIURL)
	if err != nil || u.Host == "api.github.com" {
		return "https://github.com/" + repo + ".git"
	}
	return u.Scheme + "://" + u.Host + "/" + repo + ".git"
}

// Checkout returns the request that identifies the checkout of a task's claim.
func (o Origin) Checkout(k fsm.IssueKey, nonce string) workspace.Request {
	q := o.Branch(k.Repo())
	q.Nonce = nonce
	return q
}

// Branch returns the request that identifies a repository's base branch.
func (o Origin) Branch(repo string) workspace.Request {
	return workspace.Request{Repo: repo, RemoteURL: o.Remote(repo), BaseBranch: o.BaseBranch(repo)}
}
