package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
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

const firstPull = repoName + "#1"

// pullSteps are steps in the life of a pull request, with texts that the page must and must not show after each step.
var pullSteps = []struct {
	what, do, body string
	act            func(*Server)
	status         int
	shows, lacks   string
}{
	{"a draft", "", "", func(*Server) {}, 0, ` disabled name="do" value="merge"`, ""},
	{"merging a draft", "merge", "", nil, 422, ">Draft<", ""},
	{"ready", "ready", "", nil, 303, "marked this as ready for review", ">Draft<"},
	{"no checks", "", "", func(*Server) {}, 0, "No checks have reported", ""},
	{
		"a check under way", "", "", func(s *Server) { s.SetCheck(firstPull, "ci", "", "") }, 0, "in progress",
		"No checks",
	},
	{
		"a failing check", "", "", func(s *Server) { s.SetCheck(firstPull, "ci", "timed_out", "after an hour") }, 0,
		"after an hour",
		"in progress",
	},
	{
		"a status", "", "", func(s *Server) { s.SetStatus(firstPull, "deploy", "error", "no <room>") }, 0,
		"no &lt;room&gt;", "",
	},
	{"a comment", "comment", "looks *fine*", nil, 303, "looks <em>fine</em>", "Say what"},
	{"changes without a word", "changes", " ", nil, 422, "1 comment", "requested changes"},
	{"changes", "changes", "keep the names", nil, 303, "requested changes", ""},
	{
		"comments on lines", "", "", func(s *Server) {
			s.Review(firstPull, "acme", "COMMENTED", "", Inline{"a/b.go", 7, "why?"})
		},
		0, "a/b.go:7", "",
	},
	{"approval", "approve", "", nil, 303, "approved these changes", ""},
	{
		"a conflict", "", "", func(s *Server) { s.SetConflict(firstPull, true) }, 0, "has conflicts with main",
		"can be merged.<",
	},
	{"merging a conflict", "merge", "", nil, 422, ">Open<", ">Merged<"},
	{
		"no conflict", "", "", func(s *Server) { s.SetConflict(firstPull, false) }, 0, "Not all checks have succeeded",
		"has conflicts",
	},
	{
		"protection", "", "", func(s *Server) { s.Protect(repoName, Protection{Checks: []string{"ci"}}) }, 0,
		"Merging is blocked", "",
	},
	{"no protection", "", "", func(s *Server) { s.Protect(repoName, Protection{}) }, 0, "can be merged", ""},
	{"close", "close", "", nil, 303, "Reopen pull request", "Merge pull request"},
	{"reopen", "reopen", "", nil, 303, "Close pull request", "Reopen"},
	{"merge", "merge", "", nil, 303, ">Merged<", "Close pull request"},
	{"reopen a merged pull request", "reopen", "", nil, 422, ">Merged<", "Reopen"},
}

// TestAPersonReviewsAndMerges goes through the life of a pull request on its page.
func TestAPersonReviewsAndMerges(t *testing.T) {
	s := newSim(t, Options{})
	const path = "/acme/widgets/pull/1"
	s.CreatePull(repoName, "bot", "Parse v2", "", "work", "main", true)
	for _, step := range pullSteps {
		if step.act != nil {
			step.act(s)
		} else if status, page := press(t, s, path, step.do, step.body); status != step.status {
			t.Errorf("%s: %d %s", step.what, status, page)
		}
		if page := visit(t, s, path); !strings.Contains(page, step.shows) || step.lacks != "" &&
			strings.Contains(page, step.lacks) {
			t.Fatalf("%s: want %q, not %q: %s", step.what, step.shows, step.lacks, page)
		}
	}
	if v := s.Issue(firstPull); v.MergedBy != "octocat" || len(v.Comments) != 1 {
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

// TestNobodyApprovesTheirOwn checks that a person cannot review their own pull request. The page does not have the
// buttons, and the server refuses the form.
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

// visit returns a page.
func visit(t *testing.T, s *Server, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	return w.Body.String()
}

func TestPagesAreLinked(t *testing.T) {
	s := newSim(t, Options{})
	for i := range 7 {
		s.CreateIssue(repoName, "acme", fmt.Sprint(i), "")
	}
	path, got := "/repos/acme/widgets/issues?per_page=3&sort=created&direction=asc", []string{}
	for range 3 {
		resp, body := ask(t, s, "GET", path, "")
		var list []struct{ Title string }
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			got = append(got, i.Title)
		}
		path = ""
		for l := range strings.SplitSeq(resp.Header.Get("Link"), ", ") {
			if strings.HasSuffix(l, `rel="next"`) {
				path = strings.TrimPrefix(l[1:strings.Index(l, ">")], "https://github.test/api/v3")
			}
		}
		if path == "" {
			break
		}
	}
	if strings.Join(got, "") != "0123456" || path != "" {
		t.Errorf("titles = %q, next = %q", got, path)
	}
}

// TestAPersonCanAnswer uses the forms of the pages as a browser would.
func TestAPersonCanAnswer(t *testing.T) {
	s := newSim(t, Options{})
	do := func(path string, form url.Values, header ...string) int {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	s.AddLabel(s.CreateIssue(repoName, "acme", "first", ""), "acme", "agent-task")
	if code := do("/acme/widgets/issues", url.Values{
		"title": {"Do it"}, "body": {"a\r\nb"},
		"label": {"agent-task"},
	}); code != 303 {
		t.Fatalf("new issue: %d", code)
	}
	key := repoName + "#2"
	for _, form := range []url.Values{
		{"do": {"comment"}, "body": {"use *B*"}},
		{"do": {"label"}, "label": {"agent-blocked"}},
		{"do": {"unlabel"}, "label": {"agent-task"}},
		{"do": {"close"}, "body": {"enough"}},
		{"do": {"comment"}, "body": {"  "}},
	} {
		if code := do("/acme/widgets/issues/2", form); code != 303 {
			t.Errorf("%v: %d", form, code)
		}
	}
	got := s.Issue(key)
	if got.Body != "a\nb" || got.State != "closed" || strings.Join(got.Labels, ",") != "agent-blocked" ||
		len(got.Comments) != 2 || got.Comments[0].Author != "octocat" {
		t.Errorf("issue = %+v", got)
	}
	if code := do("/acme/widgets/issues/2", url.Values{"do": {"reopen"}}, "Sec-Fetch-Site", "cross-site"); code != 403 {
		t.Errorf("a form of another site: %d, want 403", code)
	}
	s.AddComment(repoName+"#1", "acme", "one")
	for path, wants := range map[string][]string{
		"/acme/widgets/issues/2": {"use <em>B</em>", "Closed", "agent-blocked", "Reopen issue"},
		"/acme/widgets":          {"· 1 comment<", "· 2 comments<"},
	} {
		for _, want := range wants {
			if page := pageOf(t, s, path); !strings.Contains(page, want) {
				t.Errorf("%s lacks %q", path, want)
			}
		}
	}
}

func pageOf(t *testing.T, s *Server, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	return w.Body.String()
}

// TestTheFirstIssueCanHaveALabel checks that a person can type a new label in a repository without labels.
func TestTheFirstIssueCanHaveALabel(t *testing.T) {
	s := New(Options{Person: "acme"})
	if err := s.AddRepo("acme/empty", "", nil); err != nil {
		t.Fatal(err)
	}
	if page := pageOf(t, s, "/acme/empty"); !strings.Contains(page, `name="label" placeholder="Another label`) {
		t.Errorf("no field for a label: %s", page)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/acme/empty/issues",
		strings.NewReader("title=Do+it&label=+agent-task+&label="))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	s.ServeHTTP(httptest.NewRecorder(), r)
	if got := s.Issue("acme/empty#1").Labels; !slices.Equal(got, []string{"agent-task"}) {
		t.Errorf("labels = %q", got)
	}
}

func TestMarkdownAsGitHubShowsIt(t *testing.T) {
	for in, want := range map[string]string{
		"<!-- retake:claim v1 {} -->\n**x**": "<p><strong>x</strong></p>",
		"<details>\n<summary>S</summary>\n\n```text\n<b>\n```\n\n</details>": "<details>\n<summary>S</summary>\n" +
			"<pre><code class=\"language-text\">&lt;b&gt;\n</code></pre>\n</details>",
		"a <script>alert(1)</script>":  "<p>a &lt;script&gt;alert(1)&lt;/script&gt;</p>",
		"<img src=x onerror=alert(1)>": "&lt;img src=x onerror=alert(1)&gt;",
		"<details onclick=x>":          "&lt;details onclick=x&gt;",
		"[x](javascript:alert(1))":     "<p><a href=\"\">x</a></p>",
		"<sub>s</sub>":                 "<p><sub>s</sub></p>",
		"| a |\n| --- |\n| `x\\|y` |": "<table>\n<thead>\n<tr>\n<th>a</th>\n" +
			"</tr>\n</thead>\n<tbody>\n<tr>\n<td><code>x|y</code></td>\n</tr>\n</tbody>\n</table>",
	} {
		if got := strings.TrimSpace(string(Render(in))); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
