package githubtest

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
)

// mergeTest is what is known of merging one head into one base. GitHub finds out in the background: the first
// to ask after a change is told that it does not know yet.
type mergeTest struct {
	of    string // the commits, "" before anybody asked
	clean bool
	tree  string // of the merge; empty without git
	files []string
}

// commits are what a test of the merge is of.
func (p *pullRequest) commits() string {
	if p.Conflict {
		return p.BaseSHA + " " + p.HeadSHA + " conflict"
	}
	return p.BaseSHA + " " + p.HeadSHA
}

// testMerge tries the merge unless the same was tried before. s.mu is held.
func (s *Server) testMerge(r *repo, i *issue) mergeTest {
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

// mergeState is GitHub's mergeable_state: the first thing that stands in the way. s.mu is held.
func (s *Server) mergeState(r *repo, i *issue) string {
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

// blocks reports whether the repository's protection forbids a merge.
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

// holdsBase reports whether the head has all of the base branch. Without git nobody knows, and it has.
func (s *Server) holdsBase(r *repo, p *pullRequest) bool {
	if s.opts.DataDir == "" {
		return true
	}
	_, err := git(s.bare(r.fullName()), nil, "merge-base", "--is-ancestor", p.BaseSHA, p.HeadSHA)
	return err == nil
}
