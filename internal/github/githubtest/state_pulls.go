package githubtest

import (
	"cmp"
	"time"
)

type savedPull struct {
	Draft    bool          `json:"draft,omitempty"`
	HeadSHA  string        `json:"head_sha"`
	BaseSHA  string        `json:"base_sha"`
	Conflict bool          `json:"conflict,omitempty"`
	MergedAt time.Time     `json:"merged_at,omitzero"`
	MergedBy string        `json:"merged_by,omitempty"`
	MergeSHA string        `json:"merge_sha,omitempty"`
	Reviews  []savedReview `json:"reviews,omitempty"`
}

type savedReview struct {
	ID        int64         `json:"id"`
	Author    string        `json:"author"`
	State     string        `json:"state"`
	Body      string        `json:"body,omitempty"`
	SHA       string        `json:"sha"`
	Submitted time.Time     `json:"submitted"`
	Comments  []savedInline `json:"comments,omitempty"`
}

type savedInline struct {
	ID      int64     `json:"id"`
	Path    string    `json:"path"`
	Line    int       `json:"line"`
	Body    string    `json:"body"`
	Created time.Time `json:"created"`
}

type savedCheck struct {
	ID         int64     `json:"id"`
	SHA        string    `json:"sha"`
	Name       string    `json:"name"`
	Status     string    `json:"status"`
	Conclusion string    `json:"conclusion,omitempty"`
	Title      string    `json:"title,omitempty"`
	Summary    string    `json:"summary,omitempty"`
	Text       string    `json:"text,omitempty"`
	Details    string    `json:"details,omitempty"`
	External   string    `json:"external,omitempty"`
	Started    time.Time `json:"started"`
	Completed  time.Time `json:"completed,omitzero"`
}

type savedStatus struct {
	ID          int64     `json:"id"`
	SHA         string    `json:"sha"`
	Context     string    `json:"context"`
	State       string    `json:"state"`
	Description string    `json:"description,omitempty"`
	Target      string    `json:"target,omitempty"`
	Creator     string    `json:"creator"`
	Created     time.Time `json:"created"`
}

func (u *user) orNone() string {
	if u == nil {
		return ""
	}
	return u.login
}

func (s *Server) userOrNone(login string) *user {
	if login == "" {
		return nil
	}
	return s.user(login)
}

func (p *pullRequest) toSaved() *savedPull {
	if p == nil {
		return nil
	}
	v := &savedPull{
		Draft: p.draft, HeadSHA: p.headSHA, BaseSHA: p.baseSHA, Conflict: p.conflict, MergedAt: p.mergedAt,
		MergedBy: p.mergedBy.orNone(), MergeSHA: p.mergeSHA,
	}
	for _, w := range p.reviews {
		sr := savedReview{
			ID: w.id, Author: w.author.login, State: w.state, Body: w.body, SHA: w.sha,
			Submitted: w.submitted,
		}
		for _, m := range w.comments {
			sr.Comments = append(sr.Comments, savedInline{m.id, m.path, m.line, m.body, m.created})
		}
		v.Reviews = append(v.Reviews, sr)
	}
	return v
}

// pullFromSaved reads a pull request; states of earlier versions have no more than its branches.
func (s *Server) pullFromSaved(r *repo, i savedIssue) *pullRequest {
	if i.Head == "" {
		return nil
	}
	v := i.Pull
	if v == nil {
		if s.opts.DataDir == "" {
			r.makeBranches(i.Head, i.Base)
		}
		head, _ := s.tip(r, i.Head)
		base, _ := s.tip(r, i.Base)
		v = &savedPull{HeadSHA: cmp.Or(head, madeUp(i.Head)), BaseSHA: cmp.Or(base, madeUp(i.Base))}
	}
	p := &pullRequest{
		draft: v.Draft, headSHA: v.HeadSHA, baseSHA: v.BaseSHA, conflict: v.Conflict, mergedAt: v.MergedAt,
		mergedBy: s.userOrNone(v.MergedBy), mergeSHA: v.MergeSHA,
	}
	for _, w := range v.Reviews {
		o := &review{
			id: w.ID, author: s.user(w.Author), state: w.State, body: w.Body, sha: w.SHA,
			submitted: w.Submitted,
		}
		for _, m := range w.Comments {
			o.comments = append(o.comments, &reviewComment{m.ID, m.Path, m.Body, m.Line, m.Created})
		}
		p.reviews = append(p.reviews, o)
	}
	return p
}

func (r *repo) saveChecks(v *savedRepo) {
	v.Branches, v.Protection = r.branches, r.protection
	for _, c := range r.checks {
		v.Checks = append(v.Checks, savedCheck{
			c.id, c.sha, c.name, c.status, c.conclusion, c.title, c.summary, c.text, c.details, c.external, c.started,
			c.completed,
		})
	}
	for _, c := range r.statuses {
		v.Statuses = append(v.Statuses, savedStatus{
			c.id, c.sha, c.context, c.state, c.description, c.target,
			c.creator.login, c.created,
		})
	}
}

func (s *Server) loadChecks(r *repo, v savedRepo) {
	r.branches, r.protection = v.Branches, v.Protection
	if r.branches == nil {
		r.branches = map[string]string{}
		r.makeBranches(mainBranch)
	}
	for _, c := range v.Checks {
		r.checks = append(r.checks, &checkRun{
			id: c.ID, sha: c.SHA, name: c.Name, status: c.Status, conclusion: c.Conclusion, title: c.Title,
			summary: c.Summary, text: c.Text,
			details: c.Details, external: c.External, started: c.Started, completed: c.Completed,
		})
	}
	for _, c := range v.Statuses {
		r.statuses = append(r.statuses, &commitStatus{
			id: c.ID, sha: c.SHA, context: c.Context, state: c.State, description: c.Description, target: c.Target,
			creator: s.user(c.Creator), created: c.Created,
		})
	}
}
