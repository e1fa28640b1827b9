package deliver

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/prose"
	"retake/internal/github/tracker"
)

// States of a pull request.
const (
	PullOpen   = "open"
	PullMerged = "merged"
	PullClosed = "closed" // without being merged
)

// PullRequest is the state of a delivery in review. The fields after Draft are set only while it is open.
type PullRequest struct {
	Number int
	URL    string
	State  string // PullOpen, PullMerged or PullClosed
	By     string // login of the person who merged or closed it, or ""
	Head   string // SHA
	Draft  bool

	// Determined means that GitHub has checked whether the branch can be merged, which takes a few seconds after a
	// push. Conflict means that it cannot be merged.
	Determined bool
	Conflict   bool

	Settled bool            // all checks of Head have finished
	Failing []FailedCheck   // failed checks of Head, by name
	Changes []ChangeRequest // oldest first
}

// FailedCheck is a check run or a commit status that failed.
type FailedCheck struct{ Name, URL, Text string }

// ChangeRequest is the latest review by a person with write access, if it requests changes.
type ChangeRequest struct {
	ID   int64 // the review's ID
	By   string
	At   time.Time
	Text string // the review, and its comments as "path:line: text"
}

const (
	changeLimit    = 16_000 // maximum length of one change request, in characters
	failureLimit   = 4_000  // maximum length of one failed check's text, in characters
	failuresListed = 50
)

// badConclusions lists the conclusions of failed check runs. Cancelled and stale runs do not mean that the work is bad.
var badConclusions = []string{"failure", "timed_out", "action_required", "startup_failure"}

// PullRequest reads a pull request in the repository of an issue, with its checks and change requests. Even for an
// unchanged pull request, it uses at least one request of the hourly limit. GitHub's answer contains the repository's
// counters, so its ETag changes with every push and issue.
func (c *Deliveries) PullRequest(ctx context.Context, key string, number int) (PullRequest, error) {
	p, err := api.ParseKey(key)
	if err != nil {
		return PullRequest{}, err
	}
	p.Number = number
	raw, _, err := c.conn.Lane(gate.Reads).PullRequests.Get(ctx, p.Owner, p.Repo, number)
	if err != nil {
		return PullRequest{}, api.Normalize(err)
	}
	pr := PullRequest{
		Number: number, URL: raw.GetHTMLURL(), State: PullOpen, Head: raw.GetHead().GetSHA(),
		Draft: raw.GetDraft(),
	}
	switch {
	case raw.GetMerged():
		pr.State, pr.By = PullMerged, raw.GetMergedBy().GetLogin()
		return pr, nil
	case raw.GetState() != "open":
		pr.State = PullClosed
		// GitHub reports who closed a pull request only on its issue.
		about, _, err := c.conn.Lane(gate.Reads).Issues.Get(ctx, p.Owner, p.Repo, number)
		pr.By = about.GetClosedBy().GetLogin()
		return pr, api.Normalize(err)
	}
	pr.Determined, pr.Conflict = raw.Mergeable != nil, raw.Mergeable != nil && !*raw.Mergeable
	err = c.readVerdicts(ctx, p, &pr)
	return pr, err
}

// Refresh reads the checks and change requests of an open pull request again, and copies the other fields from last.
// Its requests are conditional, so an unchanged pull request does not count against the hourly limit.
func (c *Deliveries) Refresh(ctx context.Context, key string, last PullRequest) (PullRequest, error) {
	p, err := api.ParseKey(key)
	if err != nil {
		return PullRequest{}, err
	}
	p.Number = last.Number
	err = c.readVerdicts(ctx, p, &last)
	return last, err
}

// BranchHead returns the SHA of a branch, or "" if the branch does not exist.
func (c *Deliveries) BranchHead(ctx context.Context, repo, branch string) (string, error) {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return "", err
	}
	ref, _, err := c.conn.Lane(gate.Reads).Git.GetRef(ctx, p.Owner, p.Repo, "heads/"+branch)
	if api.KindOf(err) == api.KindNotFound {
		return "", nil
	}
	return ref.GetObject().GetSHA(), api.Normalize(err)
}

// readVerdicts reads the checks of the head commit and the change requests.
func (c *Deliveries) readVerdicts(ctx context.Context, p api.Place, pr *PullRequest) (err error) {
	pr.Settled, pr.Failing = true, nil
	if err := c.checkRuns(ctx, p, pr); err != nil {
		return err
	}
	if err := c.statuses(ctx, p, pr); err != nil {
		return err
	}
	slices.SortStableFunc(pr.Failing, func(a, b FailedCheck) int { return cmp.Compare(a.Name, b.Name) })
	pr.Failing = pr.Failing[:min(len(pr.Failing), failuresListed)]
	pr.Changes, err = c.changeRequests(ctx, p)
	return err
}

// checkRuns reads the latest run of each check.
func (c *Deliveries) checkRuns(ctx context.Context, p api.Place, pr *PullRequest) error {
	err := api.EachPage(func(page gh.ListOptions) (*gh.Response, error) {
		list, resp, err := c.conn.Lane(gate.Reads).Checks.ListCheckRunsForRef(ctx, p.Owner, p.Repo, pr.Head,
			&gh.ListCheckRunsOptions{ListOptions: page})
		if err != nil {
			return nil, err
		}
		for _, run := range list.CheckRuns {
			pr.Settled = pr.Settled && run.GetStatus() == "completed"
			if slices.Contains(badConclusions, run.GetConclusion()) {
				about := run.GetOutput()
				text := about.GetTitle() + "\n" + about.GetSummary() + "\n" + about.GetText()
				pr.fails(run.GetName(), cmp.Or(run.GetDetailsURL(), run.GetHTMLURL()),
					cmp.Or(strings.TrimSpace(text), run.GetConclusion()))
			}
		}
		return resp, nil
	})
	return c.unlessForbidden(err, p, "checks")
}

// statuses reads the latest commit status of each context.
func (c *Deliveries) statuses(ctx context.Context, p api.Place, pr *PullRequest) error {
	err := api.EachPage(func(page gh.ListOptions) (*gh.Response, error) {
		list, resp, err := c.conn.Lane(gate.Reads).Repositories.GetCombinedStatus(ctx, p.Owner, p.Repo, pr.Head, &page)
		if err != nil {
			return nil, err
		}
		for _, s := range list.Statuses {
			switch s.GetState() {
			case "pending":
				pr.Settled = false
			case "failure", "error":
				pr.fails(s.GetContext(), s.GetTargetURL(), cmp.Or(s.GetDescription(), s.GetState()))
			}
		}
		return resp, nil
	})
	return c.unlessForbidden(err, p, "commit statuses")
}

func (pr *PullRequest) fails(name, address, text string) {
	pr.Failing = append(pr.Failing, FailedCheck{
		Name: prose.Printable(name), URL: address,
		Text: prose.Clip(prose.Printable(text), failureLimit),
	})
}

// unlessForbidden logs and ignores an error that means the token may not read a resource, because people can still see
// that resource on GitHub.
func (c *Deliveries) unlessForbidden(err error, p api.Place, what string) error {
	if api.StatusOf(err) != http.StatusForbidden || api.KindOf(err) != api.KindPermanent {
		return err
	}
	c.conn.Log.Warn("the token cannot read "+what+", so Retake does not see failures there; give it read access",
		zap.String("issue", p.Key()), zap.Error(err))
	return nil
}

// opinions lists the review states that override the same person's earlier reviews. A review that only comments does
// not override them.
var opinions = []string{"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}

// changeRequests returns each person's latest review, if it requests changes and the person has write access.
func (c *Deliveries) changeRequests(ctx context.Context, p api.Place) ([]ChangeRequest, error) {
	latest := map[string]*gh.PullRequestReview{}
	err := api.EachPage(func(page gh.ListOptions) (*gh.Response, error) {
		list, resp, err := c.conn.Lane(gate.Reads).PullRequests.ListReviews(ctx, p.Owner, p.Repo, p.Number, &page)
		for _, v := range list { // oldest first
			if tracker.IsPerson(v.GetUser()) && slices.Contains(opinions, v.GetState()) {
				latest[strings.ToLower(v.GetUser().GetLogin())] = v
			}
		}
		return resp, err
	})
	if err != nil {
		return nil, err
	}
	var all []ChangeRequest
	for login, v := range latest {
		if v.GetState() != "CHANGES_REQUESTED" {
			continue
		}
		may, err := c.read.MayWriteAt(ctx, p, login, v.GetSubmittedAt().UTC())
		if err != nil {
			return nil, err
		}
		if may {
			all = append(all, ChangeRequest{
				ID: v.GetID(), By: v.GetUser().GetLogin(), At: v.GetSubmittedAt().UTC(),
				Text: strings.TrimSpace(v.GetBody()),
			})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	slices.SortFunc(all, func(a, b ChangeRequest) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return all, c.addInline(ctx, p, all)
}

// addInline adds the inline comments to each review's text.
func (c *Deliveries) addInline(ctx context.Context, p api.Place, all []ChangeRequest) error {
	err := api.EachPage(func(page gh.ListOptions) (*gh.Response, error) {
		list, resp, err := c.conn.Lane(gate.Reads).PullRequests.ListComments(ctx, p.Owner, p.Repo, p.Number,
			&gh.PullRequestListCommentsOptions{ListOptions: page})
		for _, r := range list { // oldest first
			at := slices.IndexFunc(all, func(v ChangeRequest) bool { return v.ID == r.GetPullRequestReviewID() })
			if at < 0 {
				continue
			}
			where := r.GetPath()
			if line := cmp.Or(r.GetLine(), r.GetOriginalLine()); line > 0 {
				where = fmt.Sprintf("%s:%d", where, line)
			}
			all[at].Text += "\n\n" + where + ": " + strings.TrimSpace(r.GetBody())
		}
		return resp, err
	})
	for i := range all {
		all[i].Text = prose.Clip(strings.TrimSpace(prose.Printable(all[i].Text)), changeLimit)
	}
	return err
}
