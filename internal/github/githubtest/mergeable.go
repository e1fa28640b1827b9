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
	if p.conflict {
		return p.baseSHA + " " + p.headSHA + " conflict"
	}
	return p.baseSHA + " " + p.headSHA
}

// testMerge tries the merge unless the same was tried before. s.mu is held.
func (s *Server) testMerge(r *repo, i *issue) mergeTest {
	p := i.pull
	if p.merge.of == p.commits() {
		return p.merge
	}
	p.merge = mergeTest{of: p.commits(), clean: true}
	if s.opts.DataDir != "" {
		out, err := git(s.bare(r.fullName()), nil, "merge-tree", "--write-tree", "--name-only", "--no-messages",
			p.baseSHA, p.headSHA)
		lines := strings.Split(out, "\n")
		p.merge.tree, p.merge.clean = lines[0], err == nil
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 1 {
			p.merge.files = lines[1:]
		}
	}
	p.merge.clean = p.merge.clean && !p.conflict
	return p.merge
}

// mergeState is GitHub's mergeable_state: the first thing that stands in the way. s.mu is held.
func (s *Server) mergeState(r *repo, i *issue) string {
	p := i.pull
	switch checks := r.checksOf(p.headSHA); {
	case !s.testMerge(r, i).clean:
		return "dirty"
	case p.draft:
		return "draft"
	case r.blocks(p, checks):
		return "blocked"
	case r.protection.UpToDate && !s.holdsBase(r, p):
		return "behind"
	case slices.ContainsFunc(checks, func(c checkLine) bool { return c.Outcome != outcomeGood }):
		return "unstable"
	}
	return "clean"
}

// blocks reports whether the repository's protection forbids a merge.
func (r *repo) blocks(p *pullRequest, checks []checkLine) bool {
	for _, name := range r.protection.Checks {
		if !slices.ContainsFunc(checks, func(c checkLine) bool { return c.Name == name && c.Outcome == outcomeGood }) {
			return true
		}
	}
	approvals := 0
	for _, v := range p.lastReviews() {
		switch {
		case !r.mayWrite(v.author):
		case v.state == stateApproved:
			approvals++
		case v.state == stateChanges && r.protection.Approvals > 0:
			return true
		}
	}
	return approvals < r.protection.Approvals
}

// holdsBase reports whether the head has all of the base branch. Without git nobody knows, and it has.
func (s *Server) holdsBase(r *repo, p *pullRequest) bool {
	if s.opts.DataDir == "" {
		return true
	}
	_, err := git(s.bare(r.fullName()), nil, "merge-base", "--is-ancestor", p.baseSHA, p.headSHA)
	return err == nil
}
