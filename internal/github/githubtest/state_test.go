package githubtest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestReactions(t *testing.T) {
	s := newSim(t, Options{})
	s.AddUser("mallory", "m")
	key := s.CreateIssue(repoName, "acme", "x", "")
	id := itoa(s.AddComment(key, "acme", "/agent retry"))
	at := "/repos/acme/widgets/issues/comments/" + id
	for _, tc := range []struct {
		token, method, path, body string
		want                      int
	}{
		{"secret", "POST", at + "/reactions", `{"content":"+1"}`, 201},
		{"secret", "POST", at + "/reactions", `{"content":"+1"}`, 200},
		{"m", "POST", at + "/reactions", `{"content":"+1"}`, 201},
		{"m", "POST", at + "/reactions", `{"content":"confused"}`, 201},
		{"secret", "POST", at + "/reactions", `{"content":"agree"}`, 422},
		{"secret", "POST", "/repos/acme/widgets/issues/comments/9/reactions", `{"content":"+1"}`, 404},
		{"secret", "DELETE", at + "/reactions/9", "", 404},
	} {
		if resp, body := ask(t, s, tc.method, tc.path, tc.body, "Authorization", "Bearer "+
			tc.token); resp.StatusCode != tc.want {
			t.Errorf("%s %s: %d %s, want %d", tc.method, tc.body, resp.StatusCode, body, tc.want)
		}
	}
	if _, body := ask(t, s, "GET", at, ""); !strings.Contains(body, `"+1":2`) ||
		!strings.Contains(body, `"total_count":3`) {
		t.Errorf("comment = %s", body)
	}
	if _, body := ask(t, s, "GET", at+"/reactions?content=confused", ""); strings.Count(body, `"content"`) != 1 {
		t.Errorf("confused = %s", body)
	}
	if page := visit(t, s, "/acme/widgets/issues/1"); !strings.Contains(page, `<b>&#43;1</b> bot, mallory<`) {
		t.Errorf("the page does not show the reactions: %s", page)
	}
}

func TestPermissionLevels(t *testing.T) {
	for permission, want := range map[string]struct {
		level, role            string
		label, create, comment int
	}{
		"admin": {"admin", "admin", 200, 201, 200}, "maintain": {"write", "maintain", 200, 201, 200},
		"write":  {"write", "write", 200, 201, 200},
		"triage": {"read", "triage", 200, 403, 403}, "read": {"read", "read", 403, 403, 403},
		"": {"read", "read", 403, 403, 403},
	} {
		s := newSim(t, Options{})
		key := s.CreateIssue(repoName, "acme", "x", "")
		id := itoa(s.AddComment(key, "acme", "x"))
		s.AddUser("them", "t")
		s.SetPermission(repoName, "them", permission)
		_, body := ask(t, s, "GET", "/repos/acme/widgets/collaborators/them/permission", "")
		if !strings.Contains(body, `"permission":"`+want.level+`","role_name":"`+want.role+`"`) {
			t.Errorf("%s: %s", permission, body)
		}
		for path, status := range map[string]int{
			"POST /repos/acme/widgets/issues/1/labels":        want.label,
			"POST /repos/acme/widgets/labels":                 want.create,
			"PATCH /repos/acme/widgets/issues/comments/" + id: want.comment,
		} {
			method, path, _ := strings.Cut(path, " ")
			if resp, body := ask(t, s, method, path, `{"labels":["a"],"name":"b","body":"y"}`, "Authorization",
				"Bearer t"); resp.StatusCode != status {
				t.Errorf("%q %s %s: %d %s, want %d", permission, method, path, resp.StatusCode, body, status)
			}
		}
	}
}

// keptChanges are requests for every type of change. The test replaces the texts in braces by the id of a comment and
// the SHA of a commit.
var keptChanges = [][3]string{
	{"POST", "/repos/acme/widgets/issues/comments/{comment}/reactions", `{"content":"+1"}`},
	{"POST", "/repos/acme/widgets/issues/1/comments", `{"body":"second"}`},
	{"DELETE", "/repos/acme/widgets/issues/1/labels/bug", ""},
	{"POST", "/repos/acme/widgets/labels", `{"name":"new","color":"ff0000","description":"about"}`},
	{"POST", "/repos/acme/widgets/pulls", `{"title":"p","head":"h","base":"main","draft":true}`},
	{
		"POST", "/repos/acme/widgets/pulls/2/reviews",
		`{"event":"COMMENT","body":"r","comments":[{"path":"f","line":2,"body":"i"}]}`,
	},
	{"POST", "/repos/acme/widgets/check-runs", `{"name":"ci","head_sha":"{head}","conclusion":"failure","output":{"title":"t","summary":"s"}}`},
	{"POST", "/repos/acme/widgets/statuses/{head}", `{"state":"error","description":"d"}`},
	{"POST", "/repos/acme/widgets/issues", `{"title":"closed"}`},
	{"PATCH", "/repos/acme/widgets/issues/3", `{"state":"closed"}`},
	{"POST", "/repos/acme/widgets/issues", `{"title":"gone"}`},
	{"POST", "/repos/acme/widgets/issues", `{"title":"moved"}`},
}

// keptPaths lists the paths for which both servers must give the same answers.
var keptPaths = []string{
	"/repos/acme/widgets/pulls/2", "/repos/acme/widgets/pulls/6", "/repos/acme/widgets/pulls/2/reviews",
	"/repos/acme/widgets/pulls/2/comments",
	"/repos/acme/widgets/commits/h/check-runs", "/repos/acme/widgets/commits/h/status",
	"/repos/acme/widgets/git/ref/heads/main",
	"/repos/acme/widgets", "/repos/acme/widgets/issues?state=all", "/repos/acme/widgets/issues/1",
	"/repos/acme/widgets/issues/1/comments",
	"/repos/acme/widgets/issues/1/events", "/repos/acme/widgets/labels", "/repos/acme/widgets/pulls?state=all",
	"/repos/acme/widgets/issues/4",
	"/repos/acme/widgets/issues/5", "/repos/acme/other", "/repos/acme/third/issues?state=all",
	"/repos/acme/widgets/collaborators/octocat/permission",
}

// TestStateOutlivesTheProcess compares the answers of a second stand-in, which has read the state file, with the
// answers of the first.
func TestStateOutlivesTheProcess(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	o := Options{
		StateFile: filepath.Join(t.TempDir(), "sub", "state.json"),
		Now:       func() time.Time { now = now.Add(time.Second); return now },
	}
	first := openState(t, o)
	key := first.CreateIssue(repoName, "octocat", "Keep <this>", "body\n`code`", "agent-task", "bug")
	id := first.AddComment(key, "tidy[bot]", "hello")
	change(t, o, first, id)
	first.Delete(repoName + "#4")
	first.Transfer(repoName+"#5", "acme/other")
	first.EditComment(key, "octocat", id, "edited")
	first.Rename("acme/other", "third")
	first.SetPermission(repoName, "octocat", "maintain")
	merged := first.CreatePull(repoName, "bot", "m", "", "merged", "main", false)
	if err := first.Merge(merged, "octocat"); err != nil {
		t.Fatal(err)
	}
	first.Protect(repoName, Protection{Approvals: 1})
	ask(t, first, "GET", "/repos/acme/widgets/pulls/2", "") // so that both know whether it can be merged
	ask(t, first, "GET", "/repos/acme/widgets/pulls/2", "")

	second := openState(t, o)
	ask(t, second, "GET", "/repos/acme/widgets/pulls/2", "")
	compareStates(t, first, second)
	if fresh := second.CreateIssue(repoName, "octocat", "next", ""); fresh != repoName+"#7" {
		t.Errorf("the next issue is %s", fresh)
	}
	if later := second.AddComment(key, "octocat", "x"); later <= id {
		t.Errorf("ids start again: %d after %d", later, id)
	}
}

func openState(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s.AddUser("bot", "secret")
	for _, name := range []string{repoName, "acme/other"} {
		if err := s.AddRepo(name, "", map[string]string{"bot": "write"}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// change sends keptChanges, and checks that the server saves each change before it answers.
func change(t *testing.T, o Options, s *Server, comment int64) {
	t.Helper()
	fill := strings.NewReplacer("{comment}", itoa(comment), "{head}", madeUp(repoName, "h"))
	for _, change := range keptChanges {
		if resp, body := ask(t, s, change[0], fill.Replace(change[1]),
			fill.Replace(change[2])); resp.StatusCode >= 300 {
			t.Fatalf("%v: %d %s", change, resp.StatusCode, body)
		}
		killed, err := Open(o)
		if err != nil || savedJSON(t, killed) != savedJSON(t, s) || len(killed.Events("")) != len(s.Events("")) {
			t.Errorf("%v is not kept: %v", change, err)
		}
	}
}

func savedJSON(t *testing.T, s *Server) string {
	t.Helper()
	data, err := json.Marshal(s.toSaved().Repos)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func compareStates(t *testing.T, first, second *Server) {
	t.Helper()
	if got, want := second.Issues(repoName), first.Issues(repoName); !reflect.DeepEqual(got, want) {
		t.Errorf("issues = %+v\nwant %+v", got, want)
	}
	if got, want := second.Events(""), first.Events(""); !reflect.DeepEqual(got, want) {
		t.Errorf("events = %+v\nwant %+v", got, want)
	}
	for _, path := range keptPaths {
		a, want := ask(t, first, "GET", path, "")
		b, got := ask(t, second, "GET", path, "")
		if a.StatusCode != b.StatusCode || got != want || a.Header.Get("ETag") != b.Header.Get("ETag") {
			t.Errorf("%s: %d %s\nwant %d %s", path, b.StatusCode, got, a.StatusCode, want)
		}
	}
	if got := visit(t, second, "/acme/widgets/issues/1"); got != visit(t, first, "/acme/widgets/issues/1") {
		t.Errorf("page = %s", got)
	}
}

func TestStateThatCannotBeKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	for _, text := range []string{`{"version":1,`, `{"version":99}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{StateFile: file}); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: %v, want an error with the next step", text, err)
		}
	}
	// A directory in place of the file cannot be replaced.
	var lost []error
	dir := t.TempDir()
	s, err := Open(Options{
		StateFile: filepath.Join(dir, "f", "state.json"),
		StateLost: func(err error) { lost = append(lost, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "f", "state.json", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.AddUser("bot", "secret")
	var path *os.LinkError
	if len(lost) != 1 || !errors.As(lost[0], &path) {
		t.Errorf("lost = %v", lost)
	}
}

// TestAnEarlierStateHasItsPullRequests reads a file of an earlier version, which stored only the two branches of a pull
// request.
func TestAnEarlierStateHasItsPullRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	text := `{"version":1,"last_id":9,"users":[{"id":1,"login":"acme","token":"secret"}],"repos":[{"id":2,"owner":"acme","name":"widgets","issues":[
		{"id":3,"number":1,"title":"x","author":"acme","head":"work","base":"main","created":"2026-01-01T00:00:00Z","updated":"2026-01-01T00:00:00Z"}]}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{StateFile: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"mergeable":null`, `"mergeable":true,"mergeable_state":"clean"`} {
		if resp, body := ask(t, s, "GET", "/repos/acme/widgets/pulls/1", ""); resp.StatusCode != 200 ||
			!strings.Contains(body, want) || !strings.Contains(body, `"state":"open"`) {
			t.Errorf("%d %s, want %s", resp.StatusCode, body, want)
		}
	}
	if len(s.Events("")) != 0 {
		t.Errorf("reading it has changed it: %+v", s.Events(""))
	}
}
