package githubtest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// pullView holds the data for the parts of a page that only pull requests have.
type pullView struct {
	Draft, Open, Own bool // Own: Options.Person opened the pull request, and so cannot approve it
	Mergeable        bool
	State, Verdict   string // mergeable_state and its explanation
	MergedBy, Commit string
	Conflicts        []string // files
	Checks           []checkLine
	Reviews          []reviewLine
}

type reviewLine struct {
	Who, Text string
	Outcome   outcome
}

// verdicts explain each mergeable_state. %s is the base branch.
var verdicts = map[string]string{
	"clean":    "No conflicts with %s. This can be merged.",
	"unstable": "No conflicts with %s. Not all checks have succeeded, but this can be merged.",
	"behind":   "This branch is behind %s and must be brought up to date before it can be merged.",
	"blocked":  "Merging is blocked, because a required review or check is missing.",
	"draft":    "This is still a draft. Mark it as ready for review before merging it.",
	"dirty":    "This branch has conflicts with %s that must be resolved before it can be merged.",
}

// opinions describes each state of a review.
var opinions = map[string]reviewLine{
	stateApproved:  {Text: "approved these changes", Outcome: outcomeGood},
	stateChanges:   {Text: "requested changes", Outcome: outcomeBad},
	stateCommented: {Text: "reviewed", Outcome: outcomePending},
	stateDismissed: {Text: "left a review that was dismissed", Outcome: outcomePending},
}

// badge returns the state of an issue or pull request in one word.
func (i *issue) badge() string {
	switch {
	case i.Pull == nil:
		return i.state()
	case !i.Pull.MergedAt.IsZero():
		return "merged"
	case i.Pull.Draft && !i.Closed:
		return "draft"
	}
	return i.state()
}

// pullView returns the view of a pull request, or nil for an issue. s.mu is held.
func (s *site) pullView(r *repo, i *issue) *pullView {
	p := i.Pull
	if p == nil {
		return nil
	}
	v := &pullView{
		Draft: p.Draft, Open: !i.Closed, Own: i.Author.login == s.opts.Person, Checks: r.checksOf(p.HeadSHA),
		MergedBy: p.MergedBy.orNone(),
	}
	for _, o := range p.lastReviews() {
		line := opinions[o.State]
		v.Reviews = append(v.Reviews, reviewLine{o.Author.login, line.Text, line.Outcome})
	}
	if p.MergeSHA != "" {
		v.Commit = short(p.MergeSHA)
	}
	if v.Open {
		v.State = s.mergeState(r, i)
		v.Mergeable = mayMerge[v.State]
		v.Verdict = strings.ReplaceAll(verdicts[v.State], "%s", i.Base)
		v.Conflicts = p.merge.files
	}
	return v
}

// short returns the abbreviated SHA of a commit.
func short(sha string) string { return sha[:min(7, len(sha))] }

// reviewItems returns the reviews of a pull request for its timeline.
func (p *pullRequest) reviewItems(r *repo) (all []item) {
	if p == nil {
		return nil
	}
	for _, v := range p.Reviews {
		it := item{
			ID: v.ID, Author: v.Author.login, Role: strings.ToLower(r.association(v.Author)), Body: v.Body,
			Bot:       v.Author.bot,
			IsComment: true, At: v.Submitted, Review: opinions[v.State],
		}
		for _, m := range v.Comments {
			it.Inline = append(it.Inline, Inline{m.Path, m.Line, m.Body})
		}
		all = append(all, it)
	}
	return all
}

// checkPage shows the page of a check run.
func (s *site) checkPage(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	s.mu.Lock()
	p, _ := s.locate(r)
	var v *pageData
	if p != nil {
		if at := slices.IndexFunc(p.Checks, func(c *checkRun) bool { return c.ID == id }); at >= 0 {
			c := p.Checks[at]
			v = &pageData{
				Title: c.Name, Repo: p.fullName(), Check: &checkView{c.SHA, c.word(), c.Title, c.outcome()},
				Body: c.Summary, Diff: c.Text,
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
