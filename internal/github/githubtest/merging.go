package githubtest

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// errNotMergeable is the error for a pull request that has conflicts, is a draft or closed, or does not meet the
// requirements of Protection.
var errNotMergeable = errors.New("Pull Request is not mergeable") //nolint:staticcheck // GitHub's own words

// mayMerge is the set of mergeable_state values that allow a merge. State unstable means that a check fails, but is not
// required.
var mayMerge = map[string]bool{"clean": true, "unstable": true}

// mergeRequest selects how to merge a pull request.
type mergeRequest struct {
	squash         bool
	title, message string // title and message of the commit; "" for GitHub's default
}

// mergePull merges a pull request, with git if it is enabled, and returns the new commit of the base branch. s.mu is
// held.
func (s *store) mergePull(r *repo, i *issue, u *user, m mergeRequest) (string, error) {
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
	s.followHeads(r, u) // the base of other pull requests has changed
	return sha, nil
}

// commitMerge creates the commit for a merge and moves the base branch to it.
func (s *store) commitMerge(r *repo, i *issue, u *user, m mergeRequest) (string, error) {
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

// mergeTest is the result of a test merge of one head into one base. GitHub computes it in the background, so the first
// request after a change gets null.
type mergeTest struct {
	of    string // the tested commits, or "" before the first request
	clean bool
	tree  string // tree of the merge; empty without git
	files []string
}

// commits identifies the input of a merge test: the two commits, and the conflict that SetConflict may have set.
func (p *pullRequest) commits() string {
	if p.Conflict {
		return p.BaseSHA + " " + p.HeadSHA + " conflict"
	}
	return p.BaseSHA + " " + p.HeadSHA
}

// testMerge returns the result of a test merge, from the cache if the commits are unchanged. s.mu is held.
func (s *store) testMerge(r *repo, i *issue) mergeTest {
	p := i.Pull
	if p.merge.of == p.commits() {
		return p.merge
	}
	p.merge = mergeTest{of: p.commits(), clean: true}
	if s.opts.DataDir != "" {
		out, err := git(s.bare(r.fullName()), nil, "merge-tree", "--write-tree", "--name-only", "--no-messages",
			p.BaseSHA, p.HeadSHA)
		lines := strings.Split(out, "\n")
		p.merge.tree, p.merge.clean = lines[0], err == nil
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 1 {
			p.merge.files = lines[1:]
		}
	}
	p.merge.clean = p.merge.clean && !p.Conflict
	return p.merge
}

// mergeState returns GitHub's mergeable_state, which names the first obstacle. s.mu is held.
func (s *store) mergeState(r *repo, i *issue) string {
	p := i.Pull
	switch checks := r.checksOf(p.HeadSHA); {
	case !s.testMerge(r, i).clean:
		return "dirty"
	case p.Draft:
		return "draft"
	case r.blocks(p, checks):
		return "blocked"
	case r.Protection.UpToDate && !s.holdsBase(r, p):
		return "behind"
	case slices.ContainsFunc(checks, func(c checkLine) bool { return c.Outcome != outcomeGood }):
		return "unstable"
	}
	return "clean"
}

// blocks reports whether branch protection forbids a merge.
func (r *repo) blocks(p *pullRequest, checks []checkLine) bool {
	for _, name := range r.Protection.Checks {
		if !slices.ContainsFunc(checks, func(c checkLine) bool { return c.Name == name && c.Outcome == outcomeGood }) {
			return true
		}
	}
	approvals := 0
	for _, v := range p.lastReviews() {
		switch {
		case !r.mayWrite(v.Author):
		case v.State == stateApproved:
			approvals++
		case v.State == stateChanges && r.Protection.Approvals > 0:
			return true
		}
	}
	return approvals < r.Protection.Approvals
}

// holdsBase reports whether the head contains the whole base branch. Without git, every head does.
func (s *store) holdsBase(r *repo, p *pullRequest) bool {
	if s.opts.DataDir == "" {
		return true
	}
	_, err := git(s.bare(r.fullName()), nil, "merge-base", "--is-ancestor", p.BaseSHA, p.HeadSHA)
	return err == nil
}
