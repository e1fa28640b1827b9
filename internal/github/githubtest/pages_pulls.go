package githubtest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// pullView is what the page of a pull request shows beyond that of an issue.
type pullView struct {
	Draft, Open, Own bool // Own: the person's, who cannot approve it
	Mergeable        bool
	State, Verdict   string // mergeable_state, and what it says
	MergedBy, Commit string
	Conflicts        []string // files
	Checks           []checkLine
	Reviews          []reviewLine
}

type reviewLine struct {
	Who, Text string
	Outcome   outcome
}

// verdicts say what stands in the way of a merge, for each mergeable_state. %s is the base branch.
var verdicts = map[string]string{
	"clean":    "No conflicts with %s. This can be merged.",
	"unstable": "No conflicts with %s. Not all checks have succeeded, but this can be merged.",
	"behind":   "This branch is behind %s and must be brought up to date before it can be merged.",
	"blocked":  "Merging is blocked: a review or a check that the repository demands is missing.",
	"draft":    "This is still a draft. Mark it as ready for review before it is merged.",
	"dirty":    "This branch has conflicts with %s that must be resolved before it can be merged.",
}

// opinions are the states of reviews in words.
var opinions = map[string]reviewLine{
	stateApproved:  {Text: "approved these changes", Outcome: outcomeGood},
	stateChanges:   {Text: "requested changes", Outcome: outcomeBad},
	stateCommented: {Text: "reviewed", Outcome: outcomePending},
	stateDismissed: {Text: "review was dismissed", Outcome: outcomePending},
}

// badge is the state of an issue or pull request in one word.
func (i *issue) badge() string {
	switch {
	case i.pull == nil:
		return i.state()
	case !i.pull.mergedAt.IsZero():
		return "merged"
	case i.pull.draft && !i.closed:
		return "draft"
	}
	return i.state()
}

// pullView is nil for an issue. s.mu is held.
func (s *Server) pullView(r *repo, i *issue) *pullView {
	p := i.pull
	if p == nil {
		return nil
	}
	v := &pullView{
		Draft: p.draft, Open: !i.closed, Own: i.author.login == s.opts.Person, Checks: r.checksOf(p.headSHA),
		MergedBy: p.mergedBy.orNone(),
	}
	for _, o := range p.lastReviews() {
		line := opinions[o.state]
		v.Reviews = append(v.Reviews, reviewLine{o.author.login, line.Text, line.Outcome})
	}
	if p.mergeSHA != "" {
		v.Commit = short(p.mergeSHA)
	}
	if v.Open {
		v.State = s.mergeState(r, i)
		v.Mergeable = mayMerge[v.State]
		v.Verdict = strings.ReplaceAll(verdicts[v.State], "%s", i.base)
		v.Conflicts = p.merge.files
	}
	return v
}

// short is a commit's name as people see it.
func short(sha string) string { return sha[:min(7, len(sha))] }

// reviewItems are the reviews of a pull request for its timeline.
func (p *pullRequest) reviewItems(r *repo) (all []item) {
	if p == nil {
		return nil
	}
	for _, v := range p.reviews {
		it := item{
			ID: v.id, Author: v.author.login, Role: strings.ToLower(r.association(v.author)), Body: v.body,
			Bot:       v.author.bot,
			IsComment: true, At: v.submitted, Review: opinions[v.state],
		}
		for _, m := range v.comments {
			it.Inline = append(it.Inline, Inline{m.path, m.line, m.body})
		}
		all = append(all, it)
	}
	return all
}

// actOnPull does what the buttons of a pull request's page stand for. It returns a sentence if it cannot be
// done. s.mu is held.
func (s *Server) actOnPull(r *repo, i *issue, u *user, do, body string) string {
	said := strings.TrimSpace(body) != ""
	switch {
	case do == "approve", do == "changes":
		switch {
		case u == i.author:
			return "You cannot approve or refuse your own pull request."
		case do == "approve":
			s.addReview(r, i, u, stateApproved, body, nil)
		case !said:
			return "Say what should be changed: it is the text of your review."
		default:
			s.addReview(r, i, u, stateChanges, body, nil)
		}
		return ""
	case said:
		s.comment(r, i, u, body)
	}
	switch do {
	case "ready":
		s.ready(r, i, u)
	case "reopen":
		if _, there := s.tip(r, i.head); !there || !i.pull.mergedAt.IsZero() {
			return "This pull request cannot be opened again: it was merged, or its branch is gone."
		}
	case "merge", "squash":
		if _, err := s.mergePull(r, i, u, mergeRequest{squash: do == "squash"}); err != nil {
			return "This pull request cannot be merged: reload its page to see why. (" + err.Error() + ")"
		}
	}
	return ""
}

// checkPage is the page of a check run.
func (s *Server) checkPage(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	s.mu.Lock()
	p, _ := s.locate(r)
	var v *pageData
	if p != nil {
		if at := slices.IndexFunc(p.checks, func(c *checkRun) bool { return c.id == id }); at >= 0 {
			c := p.checks[at]
			v = &pageData{
				Title: c.name, Repo: p.fullName(), Check: &checkView{c.sha, c.word(), c.title, c.outcome()},
				Body: c.summary, Diff: c.text,
			}
		}
	}
	s.mu.Unlock()
	if v == nil {
		s.missing(w, "There is no such check.")
		return
	}
	s.show(w, http.StatusOK, "check.html", *v)
}

type checkView struct {
	SHA, Word, Title string
	Outcome          outcome
}
