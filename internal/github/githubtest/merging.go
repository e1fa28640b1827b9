package githubtest

import (
	"errors"
	"fmt"
	"time"
)

// errNotMergeable is the answer to a merge that must not be: a conflict, a draft, a closed pull request, or protection.
var errNotMergeable = errors.New("Pull Request is not mergeable") //nolint:staticcheck // GitHub's own words

// mergeable_state of what may be merged: failing checks that nobody demands do not stand in the way.
var mayMerge = map[string]bool{"clean": true, "unstable": true}

// mergeRequest is how a pull request is merged.
type mergeRequest struct {
	squash         bool
	title, message string // of the commit; "" for GitHub's own
}

// mergePull merges a pull request, really if there is git, and returns the commit that the base branch is at
// then. s.mu is held.
func (s *Server) mergePull(r *repo, i *issue, u *user, m mergeRequest) (string, error) {
	s.followHeads(r, i.Author)
	if i.Closed || !mayMerge[s.mergeState(r, i)] {
		return "", errNotMergeable
	}
	sha := madeUp(i.Pull.commits(), "merge")
	if s.opts.DataDir != "" {
		var err error
		if sha, err = s.commitMerge(r, i, u, m); err != nil {
			return "", err
		}
	} else {
		r.Branches[i.Base] = sha
	}
	s.merged(r, i, u, sha)
	s.followHeads(r, u) // of the others: their base has moved
	return sha, nil
}

// commitMerge makes the commit and moves the base branch to it.
func (s *Server) commitMerge(r *repo, i *issue, u *user, m mergeRequest) (string, error) {
	p, dir := i.Pull, s.bare(r.fullName())
	title, message := fmt.Sprintf("Merge pull request #%d from %s/%s", i.Number, r.Owner.login, i.Head), i.Title
	args := []string{"commit-tree", s.testMerge(r, i).tree, "-p", p.BaseSHA}
	if m.squash {
		title, message = fmt.Sprintf("%s (#%d)", i.Title, i.Number), i.Body
	} else {
		args = append(args, "-p", p.HeadSHA)
	}
	if m.title != "" {
		title = m.title
	}
	if m.message != "" {
		message = m.message
	}
	at := s.now().Format(time.RFC3339)
	sha, err := git(dir, []string{
		"GIT_AUTHOR_NAME=" + u.login, "GIT_AUTHOR_EMAIL=" + u.login + "@example.com", "GIT_AUTHOR_DATE=" + at,
		"GIT_COMMITTER_NAME=GitHub stand-in", "GIT_COMMITTER_EMAIL=noreply@example.com", "GIT_COMMITTER_DATE=" + at,
	}, append(args, "-m", title, "-m", message)...)
	if err != nil {
		return "", err
	}
	_, err = git(dir, nil, "update-ref", "refs/heads/"+i.Base, sha, p.BaseSHA)
	return sha, err
}
