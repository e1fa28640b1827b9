package inbox

import (
	"context"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// Found is the state of a task according to GitHub, for a director that lost its journal.
type Found struct {
	tracker.Issue
	// Nonce identifies our fleet's claim that holds the issue. It is empty if the issue is not claimed, or if another
	// claim holds the issue, in which case Others is true.
	Nonce  string
	Others bool
	// Ended lists the nonces of our fleet's claims that were delivered, merged or released according to a marker.
	Ended []string
	// Attempt is the highest attempt number in the claim comment or the branch of its pull request, or 0.
	Attempt int
	// Question identifies the latest question of the claim, as in Escalation.Block, or is empty. Landed reports whether
	// the blocked label is set, or was changed after AskedAt. Answered reports whether the blocked label was removed
	// and we added the claimed label later, as we do after an answer.
	Question string
	AskedAt  time.Time
	Landed   bool
	Answered bool
	// Pull is the newest pull request with the claim's marker, or nil.
	Pull *FoundPull
}

// FoundPull is a pull request by our account.
type FoundPull struct {
	Number            int
	URL, Branch, Head string
	// Change is the ID of the newest review that requested changes to an earlier head, or 0. The current head probably
	// addresses it.
	Change int64
}

// findPages is the maximum number of pages that FindTasks reads from each list. It is enough for the latest 1,000
// entries.
const findPages = pollPages

// FindTasks finds our claims in a repository. It reads the issues with our labels, which may be closed unless they have
// only the review label, and the issues of our pull requests. It also reads the issues in the map called also, which
// lists their claims known from other sources, most likely first. In addition to the lists, each issue costs two to
// five requests. FindTasks omits deleted issues. If it cannot read an issue, it adds the error to unread and continues
// with the other issues.
func (c *Inbox) FindTasks(ctx context.Context, repo string,
	also map[int][]string,
) (found []Found, unread map[int]error, err error) {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return nil, nil, err
	}
	self, err := c.conn.Self(ctx, gate.Reads)
	if err != nil {
		return nil, nil, err
	}
	pulls, err := c.deliveries(ctx, p, self)
	if err != nil {
		return nil, nil, err
	}
	issues := issuesByNumber{}
	for _, label := range []string{c.read.Labels.Claimed, c.read.Labels.Blocked, c.read.Labels.Review} {
		for _, name := range append([]string{label}, c.read.FormerNames(label)...) {
			// Retake never removes the review label of a delivery that it does not watch, so skip closed issues with
			// this label.
			if err := c.labelled(ctx, p, name, label == c.read.Labels.Review, issues); err != nil {
				return nil, nil, err
			}
		}
	}
	unread = map[int]error{}
	for _, n := range slices.Concat(issuesOf(pulls), slices.Sorted(maps.Keys(also))) {
		if _, known := issues[n]; known {
			continue
		}
		switch i, err := c.read.IssueAt(ctx, gate.Reads, api.Place{Owner: p.Owner, Repo: p.Repo, Number: n}); {
		case err == nil:
			issues[n] = i
		case concernsAll(ctx, err):
			return nil, nil, err
		case !api.IsGone(err):
			unread[n] = err
		}
	}
	for _, i := range issues.page(time.Time{}).Issues {
		switch f, err := c.find(ctx, i, pulls, also[i.Number]); {
		case err == nil:
			found = append(found, f)
		case concernsAll(ctx, err):
			return nil, nil, err
		case !api.IsGone(err):
			unread[i.Number] = err
		}
	}
	return found, unread, nil
}

// concernsAll reports whether the error from a request for one issue would affect all other issues as well.
func concernsAll(ctx context.Context, err error) bool {
	kind := api.KindOf(err)
	return ctx.Err() != nil || kind == api.KindRateLimited || kind == api.KindUnauthorized
}

// labelled adds the issues with a label to issues. If open is set, it skips closed issues.
func (c *Inbox) labelled(ctx context.Context, p api.Place, label string, open bool, issues issuesByNumber) error {
	page := 0
	for range findPages {
		raw, resp, err := c.list(ctx, p, url.Values{
			"state": {"all"}, "labels": {label}, "sort": {"updated"},
			"direction": {"desc"},
		}, page)
		if err != nil {
			return err
		}
		c.add(issues, p, slices.DeleteFunc(raw,
			func(i *tracker.RawIssue) bool { return open && i.GetState() != "open" }))
		if page = resp.NextPage; page == 0 {
			break
		}
	}
	return nil
}

// deliveries returns our pull requests by the nonce of their claim. If a claim has several, it returns the newest.
func (c *Inbox) deliveries(ctx context.Context, p api.Place, self string) (map[string]*gh.PullRequest, error) {
	pulls := map[string]*gh.PullRequest{}
	opts := &gh.PullRequestListOptions{
		State: "all", Sort: "updated", Direction: "desc",
		ListOptions: gh.ListOptions{PerPage: api.PageSize},
	}
	for range findPages {
		raw, resp, err := c.conn.Lane(gate.Reads).PullRequests.List(ctx, p.Owner, p.Repo, opts)
		if err != nil {
			return nil, api.Normalize(err)
		}
		for _, pr := range raw {
			m, ok := tracker.ReadMarker(pr.GetBody())
			if !ok || m.Kind != tracker.MarkDelivery || m.Fleet != c.read.Fleet ||
				!strings.EqualFold(pr.GetUser().GetLogin(), self) {
				continue
			}
			if old := pulls[m.Nonce]; old == nil || old.GetNumber() < pr.GetNumber() {
				pulls[m.Nonce] = pr
			}
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return pulls, nil
}

var ownBranch = regexp.MustCompile(`^retake/([1-9][0-9]{0,8})-a([1-9][0-9]{0,4})$`)

// issuesOf returns the issue numbers in the branch names of our pull requests.
func issuesOf(pulls map[string]*gh.PullRequest) (numbers []int) {
	for _, pr := range pulls {
		if m := ownBranch.FindStringSubmatch(pr.GetHead().GetRef()); m != nil {
			n, _ := strconv.Atoi(m[1]) // nine digits at most
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// find derives the state of a task from the comments and label events of an issue.
func (c *Inbox) find(ctx context.Context, i tracker.Issue, pulls map[string]*gh.PullRequest, known []string) (Found,
	error,
) {
	f := Found{Issue: i}
	t, err := c.read.ThreadComments(ctx, gate.Reads, i.Key)
	if err != nil {
		return f, err
	}
	for _, r := range t.Comments {
		if r.Mark != nil && r.Mark.Fleet == c.read.Fleet &&
			(r.Mark.Kind == tracker.MarkRelease || r.Mark.Kind == tracker.MarkClaim &&
				r.Mark.Ended != "") {
			f.Ended = append(f.Ended, r.Mark.Nonce)
		}
	}
	if f.Nonce, f.Others = c.claimOf(&t, f, known); f.Nonce == "" {
		return f, nil
	}
	for _, r := range t.OwnComments(tracker.Marker{Kind: tracker.MarkClaim, Fleet: c.read.Fleet, Nonce: f.Nonce}) {
		f.Attempt = max(f.Attempt, shownAttempt(r.Body))
	}
	if questions := t.OwnComments(tracker.Marker{
		Kind: tracker.MarkBlocked, Fleet: c.read.Fleet,
		Nonce: f.Nonce,
	}); len(questions) > 0 {
		last := questions[len(questions)-1]
		f.Question, f.AskedAt = last.Mark.Attempt, last.At
		f.Landed = i.Has(c.read.Labels.Blocked)
		if !f.Landed {
			h, err := c.read.LabelHistory(ctx, gate.Reads, t.Place)
			if err != nil {
				return f, err
			}
			f.Landed = h.Since(h.Last(c.read.Labels.Blocked), last.At)
			on := h.Lastly("labeled", c.read.Labels.Claimed)
			f.Answered = f.Landed && h.Since(on, last.At) && h.ByUs(h.Events[on]) &&
				on > h.Lastly("labeled", c.read.Labels.Blocked)
		}
	}
	pr := pulls[f.Nonce]
	if pr == nil {
		return f, nil
	}
	f.Pull = &FoundPull{
		Number: pr.GetNumber(), URL: pr.GetHTMLURL(), Branch: pr.GetHead().GetRef(),
		Head: pr.GetHead().GetSHA(),
	}
	if m := ownBranch.FindStringSubmatch(f.Pull.Branch); m != nil { // named after the first delivered attempt
		first, _ := strconv.Atoi(m[2])
		f.Attempt = max(f.Attempt, first)
	}
	f.Pull.Change, err = c.followed(ctx, t.Place, f.Pull)
	return f, err
}

// claimOf returns the nonce of our claim that holds an issue. If the claim comment or its marker was edited or deleted,
// claimOf returns the first known claim that has not ended. It also finds known claims in our questions and in the last
// line of a comment without a marker. If no label or question indicates a claim, the known claims count as ended.
func (c *Inbox) claimOf(t *tracker.Thread, f Found, known []string) (nonce string, others bool) {
	holder, held := t.Holder()
	switch {
	case held && !t.IsOwnClaim(c.read.Fleet, holder, holder.Mark.Nonce):
		return "", true
	case held && slices.Contains(known, holder.Mark.Nonce):
		return holder.Mark.Nonce, false
	}
	labelled := f.Has(c.read.Labels.Claimed) || f.Has(c.read.Labels.Blocked)
	if labelled {
		known = append(slices.Clone(known), t.Named(c.read.Fleet, holder.ID)...)
	}
	for _, nonce := range known {
		if slices.Contains(f.Ended, nonce) {
			continue
		}
		t.Adopt(c.read.Fleet, nonce)
		if now, ok := t.Holder(); ok && now.Mark.Nonce == nonce {
			return nonce, false
		}
		if asked := t.OwnComments(tracker.Marker{
			Kind: tracker.MarkBlocked, Fleet: c.read.Fleet,
			Nonce: nonce,
		}); !held &&
			(labelled || f.Has(c.read.Labels.Review) || len(asked) > 0) {
			return nonce, false
		}
	}
	if held {
		return holder.Mark.Nonce, false
	}
	return "", false
}

// followed returns the newest change request for a head other than the current head.
func (c *Inbox) followed(ctx context.Context, p api.Place, pull *FoundPull) (id int64, err error) {
	err = api.EachPage(func(page gh.ListOptions) (*gh.Response, error) {
		list, resp, err := c.conn.Lane(gate.Reads).PullRequests.ListReviews(ctx, p.Owner, p.Repo, pull.Number, &page)
		for _, v := range list {
			if v.GetState() == "CHANGES_REQUESTED" && v.GetCommitID() != pull.Head {
				id = max(id, v.GetID())
			}
		}
		return resp, err
	})
	return id, err
}

// attemptInState matches the attempt number in the first line of our claim comment. It must not be used on later lines,
// because they may quote agents and people.
var attemptInState = regexp.MustCompile(`\battempt ([1-9][0-9]{0,4})\b`)

func shownAttempt(body string) (n int) {
	_, text, _ := strings.Cut(body, "\n")
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	for _, m := range attemptInState.FindAllStringSubmatch(first, -1) {
		shown, _ := strconv.Atoi(m[1]) // five digits at most
		n = max(n, shown)
	}
	return n
}
