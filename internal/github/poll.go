package github

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	gh "github.com/google/go-github/v60/github"
)

// Bounds of one Poll.
const (
	pageSize  = 100 // GitHub's maximum
	pollPages = 10  // what is left comes with the next poll
	// cursorOverlap is taken off the first cursor: GitHub's lists may lag behind its clock.
	cursorOverlap = 10 * time.Second
	sameSecond    = 100 // pages of issues with one and the same update time, before we give up
)

// Page is the result of one Poll.
type Page struct {
	// Issues in the order of their last change, without pull requests. The same issue may come again: a cursor has a
	// resolution of one second and includes it.
	Issues []Issue
	Cursor string // for the next Poll; store it together with what follows from Issues
}

// Poll lists what changed since the cursor that an earlier Poll returned: one conditional request while
// nothing changes, which costs nothing of the hourly limit.
//
// The first Poll of a repository has no cursor. It does not read history: it lists the open issues that carry the task,
// claimed or blocked label (one list per label), and its cursor is GitHub's time before the first of them.
func (c *Client) Poll(ctx context.Context, repo, cursor string) (Page, error) {
	p, err := parseRepo(repo)
	if err != nil {
		return Page{}, err
	}
	if cursor == "" {
		return c.firstPoll(ctx, p)
	}
	since, err := time.Parse(time.RFC3339, cursor)
	if err != nil {
		return Page{}, permanent("cursor %q: want what an earlier poll returned, or nothing", cursor)
	}
	return c.pollSince(ctx, p, since.UTC())
}

func (c *Client) firstPoll(ctx context.Context, p place) (Page, error) {
	var start time.Time
	issues := issuesByNumber{}
	for _, label := range []string{c.labels.Task, c.labels.Claimed, c.labels.Blocked} {
		opts := &gh.IssueListByRepoOptions{
			State: "open", Labels: []string{label}, Sort: "updated", Direction: "desc",
			ListOptions: gh.ListOptions{PerPage: pageSize},
		}
		for range pollPages {
			raw, resp, err := c.list(ctx, p, opts)
			if err != nil {
				return Page{}, err
			}
			if start.IsZero() {
				start = serverTime(resp.Header, time.Now())
			}
			issues.add(p, raw)
			if opts.Page = resp.NextPage; opts.Page == 0 {
				break
			}
		}
	}
	return issues.page(start.Add(-cursorOverlap)), nil
}

// pollSince goes on by time, not by page number: an issue that changes between two pages moves to the end of the
// list, and everything behind it one place forward, over the edge of the page.
func (c *Client) pollSince(ctx context.Context, p place, since time.Time) (Page, error) {
	opts := &gh.IssueListByRepoOptions{
		State: "all", Sort: "updated", Direction: "asc", Since: since,
		ListOptions: gh.ListOptions{PerPage: pageSize},
	}
	issues := issuesByNumber{}
	for asked := 0; asked < sameSecond; asked++ {
		raw, _, err := c.list(ctx, p, opts)
		if err != nil {
			return Page{}, err
		}
		newest := opts.Since
		for _, r := range raw {
			if at := r.GetUpdatedAt().UTC(); at.After(newest) {
				newest = at
			}
		}
		issues.add(p, raw)
		full := len(raw) >= pageSize
		advanced := newest.After(opts.Since)
		if advanced {
			opts.Since, opts.Page = newest, 0
		} else {
			opts.Page = max(opts.Page, 1) + 1 // a whole page of the same second
		}
		if !full || advanced && asked+1 >= pollPages {
			return issues.page(opts.Since), nil
		}
	}
	return Page{}, permanent("more than %d issues of %s were changed in one second", sameSecond*pageSize, p.fullName())
}

// issuesByNumber are the issues of a poll, by number: of one that is on two pages the later version counts.
type issuesByNumber map[int]Issue

func (all issuesByNumber) add(p place, raw []*gh.Issue) {
	for _, r := range raw {
		if !r.IsPullRequest() {
			all[r.GetNumber()] = toIssue(p, r)
		}
	}
}

func (all issuesByNumber) page(cursor time.Time) Page {
	issues := slices.SortedFunc(maps.Values(all), func(a, b Issue) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.Number, b.Number))
	})
	return Page{Issues: issues, Cursor: format(cursor)}
}

func (c *Client) list(ctx context.Context, p place, opts *gh.IssueListByRepoOptions) ([]*gh.Issue, *gh.Response, error) {
	raw, resp, err := c.lanes[laneReads].Issues.ListByRepo(ctx, p.owner, p.repo, opts)
	if err != nil {
		return nil, nil, normalize(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, transient("a list of issues with status "+resp.Status, nil)
	}
	return raw, resp, nil
}

func format(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
