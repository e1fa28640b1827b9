package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// Inbox reads changes in repositories: issues, comments and dependencies.
type Inbox struct {
	conn   *api.Conn
	read   *tracker.Reader
	looked api.Memory[looked] // cached dependencies, by key or list, in lower case
}

// New returns an Inbox.
func New(conn *api.Conn, read *tracker.Reader) *Inbox {
	return &Inbox{conn: conn, read: read, looked: api.NewMemory[looked](mostLooked)}
}

// Limits on one Poll.
const (
	pollPages = 10 // the next poll reads the rest
	// cursorOverlap is subtracted from the first cursor, because GitHub's lists may lag behind its clock.
	cursorOverlap = 10 * time.Second
	sameSecond    = 100 // maximum number of requests for a poll in which many entries have the same update time
)

// Page is the result of one Poll.
type Page struct {
	// Issues lists the changed issues without pull requests, in the order of their last change. An issue may be listed
	// again by the next Poll, because the cursor has a resolution of one second and includes that second.
	Issues []tracker.Issue
	// PullRequests maps the numbers of changed pull requests to the times of the changes. The next Poll may list one
	// again, as with Issues.
	PullRequests map[int]time.Time
	Closed       []string // keys of the closed pull requests
	Cursor       string   // for the next Poll; the caller must store it together with its decisions about Issues
	Same         bool     // GitHub reports no change since the last identical request
}

// Poll lists the changes since the cursor of an earlier Poll. If there are no changes, it sends one conditional
// request, which does not count against the hourly limit.
//
// For the first Poll of a repository, cursor is empty. This Poll lists only the open issues with the task, claimed or
// blocked label, and needs one list per label. Its new cursor is shortly before GitHub's time at the first list.
func (c *Inbox) Poll(ctx context.Context, repo, cursor string) (Page, error) {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return Page{}, err
	}
	if cursor == "" {
		return c.firstPoll(ctx, p)
	}
	since, err := time.Parse(time.RFC3339, cursor)
	if err != nil {
		return Page{}, api.Permanent("cursor %q: want a cursor from an earlier poll, or an empty one", cursor)
	}
	return c.pollSince(ctx, p, since.UTC())
}

func (c *Inbox) firstPoll(ctx context.Context, p api.Place) (Page, error) {
	var start time.Time
	issues := issuesByNumber{}
	for _, label := range append([]string{c.read.Labels.Task, c.read.Labels.Claimed, c.read.Labels.Blocked},
		c.read.FormerNames(c.read.Labels.Claimed, c.read.Labels.Blocked)...) {
		page := 0
		for range pollPages {
			raw, resp, err := c.list(ctx, p, url.Values{
				"state": {"open"}, "labels": {label}, "sort": {"updated"},
				"direction": {"desc"},
			}, page)
			if err != nil {
				return Page{}, err
			}
			if start.IsZero() {
				start = api.ServerTime(resp.Header, time.Now())
			}
			c.add(issues, p, raw)
			if page = resp.NextPage; page == 0 {
				break
			}
		}
	}
	return issues.page(start.Add(-cursorOverlap)), nil
}

func (c *Inbox) pollSince(ctx context.Context, p api.Place, since time.Time) (Page, error) {
	issues, same := issuesByNumber{}, true
	cursor, err := readSince(since, func(since time.Time, page int) ([]*tracker.RawIssue, error) {
		raw, resp, err := c.list(ctx, p, url.Values{
			"state": {"all"}, "sort": {"updated"}, "direction": {"asc"},
			"since": {api.Format(since)},
		}, page)
		c.add(issues, p, raw)
		same = same && err == nil && resp.Header.Get(api.SameHeader) != ""
		return raw, err
	}, func(i *tracker.RawIssue) (int64, time.Time) { return int64(i.GetNumber()), i.GetUpdatedAt().UTC() })
	if errors.Is(err, errSameSecond) {
		err = api.Permanent("more than %d issues in %s were changed in one second", sameSecond*api.PageSize/2,
			p.FullName())
	}
	if err != nil {
		return Page{}, err
	}
	page := issues.page(cursor)
	page.Same = same
	return page, nil
}

var errSameSecond = errors.New("inbox: too many changes in one second")

// readSince reads a list that is sorted by the time of the last change, starting with the entries that changed in the
// second of since. The argument list reads a page, and the argument what returns an entry's id and time. The next read
// continues at cursor.
//
// readSince requests the next page by time rather than page number, because an entry that changes between requests
// moves to the end of the list. Later entries then move forward to the previous page, and readSince would miss them. It
// uses page numbers only if the entries of one second fill a page. It then rereads the pages until they contain only
// known entries. Unchanged pages do not count against the hourly limit.
func readSince[T any](since time.Time, list func(since time.Time, page int) ([]T, error),
	what func(T) (int64, time.Time),
) (cursor time.Time, err error) {
	page, fresh, known := 0, 0, map[int64]bool{}
	for asked := 1; asked <= sameSecond; asked++ {
		raw, err := list(since, page)
		if err != nil {
			return time.Time{}, err
		}
		newest := since
		for _, entry := range raw {
			id, at := what(entry)
			if at.After(newest) {
				newest = at
			}
			if !at.After(since) && !known[id] {
				known[id] = true
				fresh++
			}
		}
		full, advanced := len(raw) >= api.PageSize, newest.After(since)
		switch {
		case full && !advanced:
			page = max(page, 1) + 1
			continue
		case page > 1 && fresh > 0:
			page, fresh = 0, 0
			continue
		case !full || asked >= pollPages:
			return newest, nil
		}
		since, page, fresh, known = newest, 0, 0, map[int64]bool{}
	}
	return time.Time{}, errSameSecond
}

// issuesByNumber holds the issues of a poll by number. If an issue is on two pages, the later version wins.
type issuesByNumber map[int]tracker.Issue

func (c *Inbox) add(n issuesByNumber, p api.Place, raw []*tracker.RawIssue) {
	for _, r := range raw {
		i := c.read.ToIssue(p, r)
		c.noteState(i.Key, i.State)
		n[r.GetNumber()] = i
	}
}

func (n issuesByNumber) page(cursor time.Time) Page {
	issues := slices.SortedFunc(maps.Values(n), func(a, b tracker.Issue) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.Number, b.Number))
	})
	page := Page{Cursor: api.Format(cursor), PullRequests: map[int]time.Time{}}
	for _, i := range issues {
		if i.IsPullRequest {
			page.PullRequests[i.Number] = i.UpdatedAt
			if i.State != "open" {
				page.Closed = append(page.Closed, i.Key)
			}
		} else {
			page.Issues = append(page.Issues, i)
		}
	}
	return page
}

func (c *Inbox) list(ctx context.Context, p api.Place, query url.Values, page int) ([]*tracker.RawIssue, *gh.Response,
	error,
) {
	query.Set("per_page", strconv.Itoa(api.PageSize))
	if page > 0 {
		query.Set("page", strconv.Itoa(page))
	}
	raw, resp, err := c.read.ReadIssues(ctx, gate.Reads, fmt.Sprintf("repos/%s/%s/issues", p.Owner, p.Repo), query)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = api.Transient("list issues: unexpected status "+resp.Status, nil)
	}
	return raw, resp, err
}
