package githubtest

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// checkRun is the result of one check of a commit.
type checkRun struct {
	ID         int64     `json:"id"`
	SHA        string    `json:"sha"`
	Name       string    `json:"name"`
	Status     string    `json:"status"`               // queued | in_progress | completed
	Conclusion string    `json:"conclusion,omitempty"` // empty unless completed
	Title      string    `json:"title,omitempty"`
	Summary    string    `json:"summary,omitempty"`
	Text       string    `json:"text,omitempty"`
	Details    string    `json:"details,omitempty"`
	External   string    `json:"external,omitempty"`
	Started    time.Time `json:"started"`
	Completed  time.Time `json:"completed,omitzero"`
}

// commitStatus is a commit status, the older form of a check. Only the latest status of each context counts.
type commitStatus struct {
	ID          int64     `json:"id"`
	SHA         string    `json:"sha"`
	Context     string    `json:"context"`
	State       string    `json:"state"` // pending | success | failure | error
	Description string    `json:"description,omitempty"`
	Target      string    `json:"target,omitempty"`
	Creator     *user     `json:"creator"`
	Created     time.Time `json:"created"`
}

const (
	checkQueued     = "queued"
	checkInProgress = "in_progress"
	checkCompleted  = "completed"
)

// outcome is the outcome of a check or status.
type outcome string

const (
	outcomeGood    outcome = "good"
	outcomeBad     outcome = "bad"
	outcomePending outcome = "pending"
)

// word returns the conclusion or the status of the check for people, such as "timed out".
func (c *checkRun) word() string {
	return strings.ReplaceAll(cmp.Or(c.Conclusion, c.Status), "_", " ")
}

// about describes the result in one line. The check's page shows more.
func (c *checkRun) about() string {
	if c.Title != c.word() {
		return c.Title
	}
	first, _, _ := strings.Cut(c.Summary, "\n")
	return first
}

// badConclusions lists the conclusions that GitHub shows with a red cross.
var badConclusions = []string{"failure", "timed_out", "action_required", "startup_failure", "cancelled", "stale"}

func (c *checkRun) outcome() outcome {
	switch {
	case c.Status != checkCompleted:
		return outcomePending
	case slices.Contains(badConclusions, c.Conclusion):
		return outcomeBad
	}
	return outcomeGood
}

func (c *commitStatus) outcome() outcome {
	return map[string]outcome{
		"pending": outcomePending, "success": outcomeGood, "failure": outcomeBad,
		"error": outcomeBad,
	}[c.State]
}

// checkLine is a check run or a commit status as a person sees it.
type checkLine struct {
	Name, Word, Text, URL string
	Outcome               outcome
}

// latestChecks returns the check runs of a commit, the latest of each name, in the order of their ids.
func (r *repo) latestChecks(sha string) []*checkRun {
	var out []*checkRun
	for _, c := range r.Checks {
		if c.SHA == sha {
			out = slices.DeleteFunc(out, func(o *checkRun) bool { return o.Name == c.Name })
			out = append(out, c)
		}
	}
	return out
}

// latestStatuses returns the statuses of a commit, the latest of each context, in the order of their ids.
func (r *repo) latestStatuses(sha string) []*commitStatus {
	var out []*commitStatus
	for _, c := range r.Statuses {
		if c.SHA == sha {
			out = slices.DeleteFunc(out, func(o *commitStatus) bool { return o.Context == c.Context })
			out = append(out, c)
		}
	}
	return out
}

// checksOf returns the latest check runs and statuses of a commit.
func (r *repo) checksOf(sha string) (all []checkLine) {
	for _, c := range r.latestChecks(sha) {
		all = append(all, checkLine{
			c.Name, c.word(), c.about(), "/" + r.fullName() + "/runs/" + itoa(c.ID),
			c.outcome(),
		})
	}
	for _, c := range r.latestStatuses(sha) {
		all = append(all, checkLine{c.Context, c.State, c.Description, c.Target, c.outcome()})
	}
	return all
}

// setCheck adds a check run to a commit, or changes the outcome of the run with that name. An empty conclusion leaves
// the run in progress. The first line of the summary is the title. s.mu is held.
func (s *store) setCheck(r *repo, sha, name, conclusion, summary string) {
	all := r.latestChecks(sha)
	at := slices.IndexFunc(all, func(c *checkRun) bool { return c.Name == name })
	var c *checkRun
	if at >= 0 {
		c = all[at]
	} else {
		c = &checkRun{ID: s.id(), SHA: sha, Name: name, Started: s.now()}
		r.Checks = append(r.Checks, c)
	}
	c.Status, c.Completed = checkInProgress, time.Time{}
	if c.Conclusion = conclusion; conclusion != "" {
		c.Status, c.Completed = checkCompleted, s.now()
	}
	title, rest, _ := strings.Cut(summary, "\n")
	c.Title, c.Summary = cmp.Or(title, c.word()), rest
}

// setStatus gives a commit a status. s.mu is held.
func (s *store) setStatus(r *repo, u *user, c commitStatus) *commitStatus {
	c.ID, c.Creator, c.Created = s.id(), u, s.now()
	r.Statuses = append(r.Statuses, &c)
	return &c
}

// dueHead is the head of a pull request for which the check rules have not run yet.
type dueHead struct{ repo, branch, sha string }

// checkRule creates a check for every new head of a pull request.
type checkRule struct {
	name  string
	judge func(repo, branch, sha string) (conclusion, summary string)
}

// runRules runs the check rules for new heads. A check is in progress while its rule runs. The caller must not hold
// s.mu.
func (s *store) runRules() {
	s.mu.Lock()
	due, rules := s.due, s.rules
	s.due = nil
	s.mu.Unlock()
	set := func(d dueHead, name, conclusion, summary string) {
		s.mu.Lock()
		defer s.unlock()
		if r := s.find(d.repo); r != nil {
			s.setCheck(r, d.sha, name, conclusion, summary)
		}
	}
	for _, d := range due {
		for _, rule := range rules {
			set(d, rule.name, "", "")
			conclusion, summary := rule.judge(d.repo, d.branch, d.sha)
			set(d, rule.name, conclusion, summary)
		}
	}
}
