package githubtest

import (
	"slices"
	"strconv"
	"strings"
)

// withPull runs f on a pull request. It panics if issueKey is not the key of a pull request.
func (s *Server) withPull(issueKey string, f func(*repo, *issue)) {
	s.with(issueKey, func(r *repo, i *issue) {
		if i.Pull == nil {
			panic("githubtest: no pull request " + issueKey)
		}
		s.followHeads(r, i.Author)
		f(r, i)
	})
}

// CreatePull opens a pull request as author and returns its key. With git, the branches must exist.
func (s *Server) CreatePull(fullName, author, title, body, head, base string, draft bool) string {
	s.mu.Lock()
	defer s.unlock()
	r := s.find(fullName)
	if r == nil {
		panic("githubtest: no repository " + fullName)
	}
	return key(r, s.newPull(r, s.user(author), title, body, head, base, draft))
}

// Push moves a branch to a commit and returns the SHA. It is only for servers without git. If sha is empty, Push
// invents a commit.
func (s *Server) Push(fullName, branch, sha string) string {
	s.mu.Lock()
	defer s.unlock()
	r := s.find(fullName)
	if r == nil || s.opts.DataDir != "" {
		panic("githubtest: Push needs an existing repository without git: " + fullName)
	}
	if sha == "" {
		sha = madeUp(r.Branches[branch], branch)
	}
	r.Branches[branch] = sha
	s.followHeads(r, r.Owner)
	return sha
}

// SetCheck adds a check run to the head of a pull request, or changes the conclusion of the run with that name
// (success, failure, neutral, cancelled, skipped, timed_out or action_required). An empty conclusion leaves the run
// in progress.
func (s *Server) SetCheck(issueKey, name, conclusion, summary string) {
	s.withPull(issueKey, func(r *repo, i *issue) { s.setCheck(r, i.Pull.HeadSHA, name, conclusion, summary) })
}

// SetStatus gives the head of a pull request a commit status: pending, success, failure or error.
func (s *Server) SetStatus(issueKey, context, state, description string) {
	s.withPull(issueKey, func(r *repo, i *issue) {
		s.setStatus(r, r.Owner, commitStatus{
			SHA: i.Pull.HeadSHA, Context: context, State: state,
			Description: description,
		})
	})
}

// Review reviews the head of a pull request (APPROVED, CHANGES_REQUESTED or COMMENTED) and returns the review's id.
func (s *Server) Review(issueKey, login, state, body string, inline ...Inline) (id int64) {
	s.withPull(issueKey, func(r *repo, i *issue) { id = s.addReview(r, i, s.user(login), state, body, inline).ID })
	return id
}

// DismissReview dismisses a review.
func (s *Server) DismissReview(issueKey, login string, id int64) {
	s.withPull(issueKey, func(r *repo, i *issue) {
		for _, v := range i.Pull.Reviews {
			if v.ID == id {
				s.dismiss(r, i, s.user(login), v)
			}
		}
	})
}

// Merge merges a pull request with a merge commit. It fails if GitHub would not allow the merge.
func (s *Server) Merge(issueKey, login string) (err error) {
	s.withPull(issueKey, func(r *repo, i *issue) { _, err = s.mergePull(r, i, s.user(login), mergeRequest{}) })
	return err
}

// Close closes an issue or a pull request.
func (s *Server) Close(issueKey, login string) { s.SetState(issueKey, login, "closed") }

// SetDraft converts a pull request to a draft, or marks it as ready for review.
func (s *Server) SetDraft(issueKey, login string, draft bool) {
	s.withPull(issueKey, func(r *repo, i *issue) {
		s.setDraft(r, i, s.user(login), draft)
	})
}

// SetConflict sets or clears a conflict in addition to conflicts that git finds.
func (s *Server) SetConflict(issueKey string, conflict bool) {
	s.withPull(issueKey, func(_ *repo, i *issue) { i.Pull.Conflict = conflict })
}

// MarkPending discards the result of the merge test, so mergeable is null in the next answer.
func (s *Server) MarkPending(issueKey string) {
	s.withPull(issueKey, func(_ *repo, i *issue) { i.Pull.merge = mergeTest{} })
}

// Protect sets the requirements that a repository's pull requests must meet before a merge.
func (s *Server) Protect(fullName string, p Protection) {
	s.mu.Lock()
	defer s.unlock()
	s.find(fullName).Protection = p
}

// AddCheckRule adds a check run to every new head of a pull request. The request that updates the head calls judge
// while the check is in progress. If judge returns an empty conclusion, the check stays in progress until SetCheck. The
// rule is not in the state file.
func (s *Server) AddCheckRule(name string, judge func(repo, branch, sha string) (conclusion, summary string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(slices.Clone(s.rules), checkRule{name, judge})
}

// find returns the repository with that name, or nil. s.mu is held.
func (s *store) find(fullName string) *repo { return s.repos[strings.ToLower(fullName)] }

// Block marks an issue as blocked by another issue in the same repository. The relation is not in the state file.
func (s *Server) Block(key, by string) {
	s.relate(key, by, func(i, other *issue) { i.blockedBy = append(i.blockedBy, other) })
}

// AddSubIssue makes an issue a sub-issue of another issue in the same repository.
func (s *Server) AddSubIssue(parent, child string) {
	s.relate(parent, child, func(i, other *issue) { other.parent = i })
}

func (s *Server) relate(key, other string, do func(i, other *issue)) {
	s.mu.Lock()
	defer s.unlock()
	name, n, _ := strings.Cut(key, "#")
	_, m, _ := strings.Cut(other, "#")
	r := s.find(name)
	a, _ := strconv.Atoi(n)
	b, _ := strconv.Atoi(m)
	do(r.issue(a), r.issue(b))
	r.issue(a).Updated = s.now()
}

func (r *repo) subIssues(parent *issue) (subs []*issue) {
	for _, i := range r.Issues {
		if i.parent == parent {
			subs = append(subs, i)
		}
	}
	return subs
}

// open counts the open issues.
func open(issues []*issue) (n int) {
	for _, i := range issues {
		if !i.Closed && !i.Deleted {
			n++
		}
	}
	return n
}
