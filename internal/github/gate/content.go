package gate

import (
	"path"
	"regexp"
	"strings"
	"time"
)

// GitHub's documented limits on new content, per credential.
const (
	contentPerMinute = 80
	contentPerHour   = 500
)

// Lower limits for less urgent requests. Progress edits may use progressPerHour of the hourly limit, and claims may use
// claimsPerMinute of the per-minute limit. Only escalations may use the two reserves.
const (
	progressPerHour = 400
	contentReserve  = 20
	minuteReserve   = 10
	claimsPerMinute = 50
)

// strictFor is the period in which every change counts as content after GitHub's secondary limit refuses an admitted
// write.
const strictFor = hour

// creating lists the requests that create content. For REST, these are the requests for which GitHub's description
// (github/rest-api-description) warns of "creating content too quickly". mutation is the equivalent in GraphQL, if any.
var creating = []struct{ method, path, mutation string }{
	{"POST", "/repos/*/*/issues", "createIssue"},
	{"POST", "/repos/*/*/issues/*/comments", "addComment"},
	{"POST", "/repos/*/*/issues/*/dependencies/blocked_by", "addBlockedBy"},
	{"DELETE", "/repos/*/*/issues/*/dependencies/blocked_by/*", "removeBlockedBy"},
	{"POST", "/repos/*/*/issues/*/issue-field-values", ""},
	{"PUT", "/repos/*/*/issues/*/issue-field-values", ""},
	{"DELETE", "/repos/*/*/issues/*/issue-field-values/*", ""},
	{"POST", "/repos/*/*/issues/*/sub_issues", "addSubIssue"},
	{"DELETE", "/repos/*/*/issues/*/sub_issue", "removeSubIssue"},
	{"POST", "/repos/*/*/pulls", "createPullRequest"},
	{"PUT", "/repos/*/*/pulls/*/merge", "mergePullRequest"},
	{"POST", "/repos/*/*/pulls/*/requested_reviewers", "requestReviews"},
}

// Creates reports whether a REST request creates content. The path may have a prefix, as on GitHub Enterprise Server.
func Creates(method, urlPath string) bool {
	at := strings.Index(urlPath, "/repos/")
	if at < 0 {
		return false
	}
	for _, c := range creating {
		if match, _ := path.Match(c.path, urlPath[at:]); match && c.method == method {
			return true
		}
	}
	return false
}

var creatingMutation = func() *regexp.Regexp {
	var names []string
	for _, c := range creating {
		if c.mutation != "" {
			names = append(names, c.mutation)
		}
	}
	return regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\s*\(`)
}()

// mutation matches the input of a mutation in a GraphQL request. Every mutation has exactly one input.
var mutation = regexp.MustCompile(`\(\s*input\s*:`)

// Mutations returns how many changes a GraphQL request makes, and how many of them create content.
func Mutations(text []byte) (changes, content int) {
	return len(mutation.FindAll(text, -1)), len(creatingMutation.FindAll(text, -1))
}

// contentBudget counts content in the last hour and the last minute.
type contentBudget struct{ hour, minute window }

func newContentBudget() contentBudget {
	return contentBudget{window{span: hour}, window{span: minute}}
}

func (b *contentBudget) take(now time.Time, n int) {
	b.hour.take(now, n)
	b.minute.take(now, n)
}

// counted returns the budget that applies to a request, and the request's cost.
func (g *Gate) counted(r *Request, now time.Time) (*contentBudget, int) {
	if now.Before(g.strict) {
		return &g.all, r.Changes
	}
	return &g.created, r.Content
}

// contentWait returns how long the limits on content delay r. A claim must also leave enough of the hourly limit for
// the comments and pull requests that claimed issues still need, up to half of the limit.
func (g *Gate) contentWait(r *Request, now time.Time) time.Duration {
	budget, n := g.counted(r, now)
	if n == 0 {
		return 0
	}
	hourly, minutely := contentPerHour-contentReserve, contentPerMinute-minuteReserve
	switch r.Lane {
	case Progress:
		hourly = progressPerHour
	case Escalation:
		hourly, minutely = contentPerHour, contentPerMinute
	case Claim:
		hourly -= min(g.Owed(), hourly/2)
		minutely = claimsPerMinute
	}
	return max(budget.hour.wait(now, n, hourly), budget.minute.wait(now, n, minutely))
}
