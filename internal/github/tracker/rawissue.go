package tracker

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
)

// RawIssue is an issue with fields that go-github does not support.
type RawIssue struct {
	gh.Issue
	Dependencies struct {
		BlockedBy int `json:"blocked_by"` // number of open issues that block this one
	} `json:"issue_dependencies_summary"`
	SubIssues struct {
		Total     int `json:"total"`
		Completed int `json:"completed"`
	} `json:"sub_issues_summary"`
}

// RawIssue reads one issue.
func (c *Reader) RawIssue(ctx context.Context, l gate.Lane, p api.Place) (*RawIssue, error) {
	raw := &RawIssue{}
	path := fmt.Sprintf("repos/%s/%s/issues/%d", p.Owner, p.Repo, p.Number)
	_, err := c.conn.Do(ctx, l, http.MethodGet, path, nil, raw)
	return raw, err
}

// ReadIssues reads one page of a list of issues.
func (c *Reader) ReadIssues(ctx context.Context, l gate.Lane, path string,
	query url.Values,
) ([]*RawIssue, *gh.Response, error) {
	var raw []*RawIssue
	resp, err := c.conn.Do(ctx, l, http.MethodGet, path+"?"+query.Encode(), nil, &raw)
	return raw, resp, err
}

// EventsLag is the maximum delay before a change to an issue appears in GitHub's list of events.
const EventsLag = time.Minute
