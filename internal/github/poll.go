package github

import (
	"cmp"
	"context"
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

// Page is one look at a repository.
type Page struct {
	// Issues in the order of their last change, without pull requests. The same issue may come again: a cursor has a
	// resolution of one second and includes it.
	Issues []Issue
	Cursor string // for the next Poll; keep it together with what was made of Issues
	// NotModified: GitHub said 304 and the cursor stays. Issues then holds what it held the last time.
	NotModified bool
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
	var page Page
	var start time.Time
	seen := map[int]bool{}
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
			for _, r := range raw {
				if !r.IsPullRequest() && !seen[r.GetNumber()] {
					seen[r.GetNumber()] = true
					page.Issues = append(page.Issues, toIssue(p, r))
				}
			}
			if opts.Page = resp.NextPage; opts.Page == 0 {
				break
			}
		}
	}
	sortByUpdate(page.Issues)
	page.Cursor = format(start.Add(-cursorOverlap))
	return page, nil
}

// pollSince goes on by time, not by page number: an issue that changes between two pages moves to the end of the
// list, and everything behind it one place forward, over the edge of the page.
func (c *Client) pollSince(ctx context.Context, p place, since time.Time) (Page, error) {
	page := Page{}
	opts := &gh.IssueListByRepoOptions{
		State: "all", Sort: "updated", Direction: "asc", Since: since,
		ListOptions: gh.ListOptions{PerPage: pageSize},
	}
	seen := map[int]int{}
	for asked := 0; asked < sameSecond; asked++ {
		raw, resp, err := c.list(ctx, p, opts)
		if err != nil {
			return Page{}, err
		}
		newest := opts.Since
		for _, r := range raw {
			if at := r.GetUpdatedAt().UTC(); at.After(newest) {
				newest = at
			}
			page.add(seen, p, r)
		}
		full := len(raw) >= pageSize
		advanced := newest.After(opts.Since)
		if asked == 0 {
			page.NotModified = !full && !advanced && resp.Header.Get(unchangedHeader) != ""
		}
		if advanced {
			opts.Since, opts.Page = newest, 0
		} else {
			opts.Page = max(opts.Page, 1) + 1 // a whole page of the same second
		}
		page.Cursor = format(opts.Since)
		if !full || advanced && asked+1 >= pollPages {
			sortByUpdate(page.Issues)
			return page, nil
		}
	}
	return Page{}, permanent("more than %d issues of %s were changed in one second", sameSecond*pageSize, p.fullName())
}

// add appends an issue, or replaces what an earlier page said of it.
func (page *Page) add(seen map[int]int, p place, r *gh.Issue) {
	if r.IsPullRequest() {
		return
	}
	i := toIssue(p, r)
	if at, ok := seen[i.Number]; ok {
		page.Issues[at] = i
		return
	}
	seen[i.Number] = len(page.Issues)
	page.Issues = append(page.Issues, i)
}

func (c *Client) list(ctx context.Context, p place, opts *gh.IssueListByRepoOptions) ([]*gh.Issue, *gh.Response, error) {
	raw, resp, err := c.lanes[laneReads].Issues.ListByRepo(ctx, p.owner, p.repo, opts)
	if err != nil {
		return nil, nil, normal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, transient("a list of issues with status "+resp.Status, nil)
	}
	return raw, resp, nil
}

func format(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }

func sortByUpdate(issues []Issue) {
	slices.SortStableFunc(issues, func(a, b Issue) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.Number, b.Number))
	})
}
