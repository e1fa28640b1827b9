package githubtest

import (
	"crypto/sha1" //nolint:gosec // names of commits
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// pullRequest holds the fields that only pull requests have.
type pullRequest struct {
	Draft    bool      `json:"draft,omitempty"`
	HeadSHA  string    `json:"head_sha"` // this and BaseSHA: tips of the branches while the pull request was open
	BaseSHA  string    `json:"base_sha"`
	Conflict bool      `json:"conflict,omitempty"` // set by SetConflict, in addition to git's result
	MergedAt time.Time `json:"merged_at,omitzero"`
	MergedBy *user     `json:"merged_by,omitempty"`
	MergeSHA string    `json:"merge_sha,omitempty"`
	Reviews  []*review `json:"reviews,omitempty"`
	merge    mergeTest
}

// Protection lists the requirements that a pull request must meet before a merge. The zero value does not require
// anything.
type Protection struct {
	// number of people with write access who must approve; a change request blocks the merge
	Approvals int      `json:"approvals,omitempty"`
	Checks    []string `json:"checks,omitempty"`     // names of check runs, or contexts of statuses, that must succeed
	UpToDate  bool     `json:"up_to_date,omitempty"` // the head must contain the whole base branch
}

// madeUp returns a fake SHA that depends only on words, for servers without git.
func madeUp(words ...string) string {
	h := sha1.New() //nolint:gosec // names of commits
	for _, w := range words {
		_, _ = h.Write([]byte(w + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// tip returns the commit at the tip of a branch. s.mu is held.
func (s *store) tip(r *repo, branch string) (string, bool) {
	if s.opts.DataDir != "" {
		return s.commitOf(r.fullName(), branch)
	}
	sha, ok := r.Branches[branch]
	return sha, ok
}

// newPull opens a pull request between existing branches. Without git, it creates missing branches. s.mu is held.
func (s *store) newPull(r *repo, u *user, title, body, head, base string, draft bool) *issue {
	if s.opts.DataDir == "" {
		r.makeBranches(head, base)
	}
	i := s.newIssue(r, u, title, body, nil)
	i.Head, i.Base, i.Pull = head, base, &pullRequest{Draft: draft}
	s.followHeads(r, u)
	return i
}

func (r *repo) makeBranches(names ...string) {
	for _, name := range names {
		if _, ok := r.Branches[name]; !ok {
			r.Branches[name] = madeUp(r.fullName(), name)
		}
	}
}

// followHeads updates open pull requests to the current commits of their branches. For a new head, it records an event,
// and schedules the check rules. As on GitHub, it closes a pull request if its head branch was deleted. s.mu is held.
func (s *store) followHeads(r *repo, actor *user) {
	for _, i := range r.Issues {
		p := i.Pull
		if p == nil || i.Closed {
			continue
		}
		head, ok := s.tip(r, i.Head)
		if !ok {
			s.moved = true
			s.setState(r, i, actor, "closed")
			continue
		}
		if base, ok := s.tip(r, i.Base); ok {
			p.BaseSHA = base
		}
		if head == p.HeadSHA {
			continue
		}
		if p.HeadSHA != "" {
			s.event(r, i, actor, "synchronized", head)
		}
		p.HeadSHA, s.moved = head, true
		if len(s.rules) > 0 {
			s.due = append(s.due, dueHead{r.fullName(), i.Head, head})
		}
	}
}

// setDraft makes a pull request a draft, or marks a draft as ready for review. s.mu is held.
func (s *store) setDraft(r *repo, i *issue, u *user, draft bool) {
	if i.Pull.Draft == draft {
		return
	}
	i.Pull.Draft = draft
	kind := "ready_for_review"
	if draft {
		kind = "convert_to_draft"
	}
	s.event(r, i, u, kind, "")
}

// merged records that a pull request was merged as the commit sha. If the base is the default branch, it also closes
// the issues named after a closing keyword in the pull request. s.mu is held.
func (s *store) merged(r *repo, i *issue, u *user, sha string) {
	p := i.Pull
	p.MergedAt, p.MergedBy, p.MergeSHA = s.now(), u, sha
	s.event(r, i, u, "merged", sha)
	s.setState(r, i, u, "closed")
	if i.Base != mainBranch {
		return
	}
	for _, m := range closing.FindAllStringSubmatch(i.Title+"\n"+i.Body, -1) {
		n, _ := strconv.Atoi(m[1])
		if other := r.issue(n); other != nil && other.Pull == nil {
			s.setState(r, other, u, "closed")
		}
	}
}

const mainBranch = "main"

// closing matches GitHub's keywords that close an issue when a pull request is merged.
var closing = regexp.MustCompile(`(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)\b`)

// lastReviews returns each person's latest review that approves, requests changes or was dismissed, oldest first. As on
// GitHub, a later review that only comments does not replace it.
func (p *pullRequest) lastReviews() []*review {
	var last []*review
	for _, v := range p.Reviews {
		if v.State == stateCommented {
			continue
		}
		last = slices.DeleteFunc(last, func(o *review) bool { return o.Author == v.Author })
		last = append(last, v)
	}
	return last
}
