package githubtest

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// press sends a form of a page as a browser would.
func press(t *testing.T, s *Server, path, do, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", path,
		strings.NewReader(url.Values{"do": {do}, "body": {body}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestAPersonReviewsAndMerges goes through the life of a pull request on its page. Each step says what the page
// shows then, and what it does not.
func TestAPersonReviewsAndMerges(t *testing.T) {
	s := newSim(t, Options{})
	const path = "/acme/widgets/pull/1"
	pull := s.CreatePull(repoName, "bot", "Parse v2", "", "work", "main", true)
	for _, step := range []struct {
		what, do, body string
		act            func()
		status         int
		shows, lacks   string
	}{
		{"a draft", "", "", func() {}, 0, ` disabled name="do" value="merge"`, ""},
		{"merging a draft", "merge", "", nil, 422, ">Draft<", ""},
		{"ready", "ready", "", nil, 303, "marked this as ready for review", ">Draft<"},
		{"no checks", "", "", func() {}, 0, "No checks have reported", ""},
		{"a check under way", "", "", func() { s.SetCheck(pull, "ci", "", "") }, 0, "in progress", "No checks"},
		{
			"a failing check", "", "", func() { s.SetCheck(pull, "ci", "timed_out", "after an hour") }, 0, "after an hour",
			"in progress",
		},
		{"a status", "", "", func() { s.SetStatus(pull, "deploy", "error", "no <room>") }, 0, "no &lt;room&gt;", ""},
		{"a comment", "comment", "looks *fine*", nil, 303, "looks <em>fine</em>", "Say what"},
		{"changes without a word", "changes", " ", nil, 422, "1 comment", "requested changes"},
		{"changes", "changes", "keep the names", nil, 303, "requested changes", ""},
		{
			"comments on lines", "", "", func() { s.Review(pull, "acme", "COMMENTED", "", Inline{"a/b.go", 7, "why?"}) },
			0, "a/b.go:7", "",
		},
		{"approval", "approve", "", nil, 303, "approved these changes", ""},
		{"a conflict", "", "", func() { s.SetConflict(pull, true) }, 0, "has conflicts with main", "can be merged.<"},
		{"merging a conflict", "merge", "", nil, 422, ">Open<", ">Merged<"},
		{
			"no conflict", "", "", func() { s.SetConflict(pull, false) }, 0, "Not all checks have succeeded",
			"has conflicts",
		},
		{
			"protection", "", "", func() { s.Protect(repoName, Protection{Checks: []string{"ci"}}) }, 0,
			"Merging is blocked", "",
		},
		{"no protection", "", "", func() { s.Protect(repoName, Protection{}) }, 0, "can be merged", ""},
		{"close", "close", "", nil, 303, "Reopen pull request", "Merge pull request"},
		{"reopen", "reopen", "", nil, 303, "Close pull request", "Reopen"},
		{"merge", "merge", "", nil, 303, ">Merged<", "Close pull request"},
		{"reopen what is merged", "reopen", "", nil, 422, ">Merged<", "Reopen"},
	} {
		if step.act != nil {
			step.act()
		} else if status, page := press(t, s, path, step.do, step.body); status != step.status {
			t.Errorf("%s: %d %s", step.what, status, page)
		}
		if page := visit(t, s, path); !strings.Contains(page, step.shows) || step.lacks != "" &&
			strings.Contains(page, step.lacks) {
			t.Fatalf("%s: want %q, not %q: %s", step.what, step.shows, step.lacks, page)
		}
	}
	if v := s.Issue(pull); v.MergedBy != "octocat" || len(v.Comments) != 1 {
		t.Errorf("pull request = %+v", v)
	}
	page := visit(t, s, path)
	at := strings.Index(page, "/acme/widgets/runs/")
	if at < 0 {
		t.Fatalf("no link to the check: %s", page)
	}
	link, _, _ := strings.Cut(page[at:], `"`)
	if check := visit(t, s, link); !strings.Contains(check, "after an hour") || !strings.Contains(check, "timed out") {
		t.Errorf("%s: %s", link, check)
	}
	if list := visit(t, s, "/acme/widgets"); !strings.Contains(list, "pull request #1 · merged ·") {
		t.Errorf("list: %s", list)
	}
}

// TestNobodyApprovesTheirOwn: the page of one's own pull request has no such buttons, and a form is refused.
func TestNobodyApprovesTheirOwn(t *testing.T) {
	s := newSim(t, Options{Person: "bot"})
	s.CreatePull(repoName, "bot", "Parse v2", "", "work", "main", false)
	if status, _ := press(t, s, "/acme/widgets/pull/1", "approve", ""); status != 422 {
		t.Errorf("approved: %d", status)
	}
	if page := visit(t, s, "/acme/widgets/pull/1"); strings.Contains(page, "Approve") ||
		!strings.Contains(page, "Merge pull request") {
		t.Errorf("page = %s", page)
	}
}
