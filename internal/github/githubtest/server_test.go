package githubtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const repoName = "acme/widgets"

func newSim(t *testing.T, o Options) *Server {
	t.Helper()
	s := New(o)
	s.AddUser("bot", "secret")
	if err := s.AddRepo(repoName, "", map[string]string{"bot": "write", "octocat": "admin"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// answer is the relevant part of a response.
type answer struct {
	StatusCode int
	Header     http.Header
}

// ask sends a request in-process.
func ask(t *testing.T, s *Server, method, path, body string, header ...string) (*answer, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://github.test/api/v3"+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Transport().RoundTrip(r)
	if err != nil {
		return nil, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &answer{resp.StatusCode, resp.Header}, string(text)
}

func TestUnchangedIs304AndFree(t *testing.T) {
	s := newSim(t, Options{})
	key := s.CreateIssue(repoName, "acme", "x", "")
	first, _ := ask(t, s, "GET", "/repos/acme/widgets/issues?state=all", "")
	second, body := ask(t, s, "GET", "/repos/acme/widgets/issues?state=all", "", "If-None-Match",
		first.Header.Get("ETag"))
	if second.StatusCode != 304 || body != "" ||
		second.Header.Get("X-RateLimit-Remaining") != first.Header.Get("X-RateLimit-Remaining") {
		t.Errorf("second = %d %q %v", second.StatusCode, body, second.Header)
	}
	s.AddLabel(key, "acme", "bug")
	if third, _ := ask(t, s, "GET", "/repos/acme/widgets/issues?state=all", "", "If-None-Match",
		first.Header.Get("ETag")); third.StatusCode != 200 {
		t.Errorf("third = %d, want 200 after a change", third.StatusCode)
	}
}

func TestThePrimaryLimitIsReal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, Options{RateLimit: 2})
		for _, want := range []int{200, 200, 403, 403} {
			if resp, body := ask(t, s, "GET", "/user", ""); resp.StatusCode != want {
				t.Errorf("status = %d %s, want %d", resp.StatusCode, body, want)
			}
		}
		if s.Violations() != 1 {
			t.Errorf("%d violations, want the one after the first refusal", s.Violations())
		}
		time.Sleep(time.Hour)
		if resp, _ := ask(t, s, "GET", "/user", ""); resp.StatusCode != 200 {
			t.Errorf("status = %d in the next hour", resp.StatusCode)
		}
	})
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, Options{})
		key := s.CreateIssue(repoName, "acme", "x", "")
		inject := func(f Fault) {
			t.Helper()
			if err := s.Inject(f); err != nil {
				t.Fatal(err)
			}
		}
		comments := "/repos/acme/widgets/issues/1/comments"
		inject(Fault{CutBefore: true}.On("POST", "/comments$"))
		inject(Fault{CutAfter: true, Skip: 1}.On("POST", "/comments$"))
		for i, want := range []int{0, 1, 2} { // cut before, passed, cut after
			resp, text := ask(t, s, "POST", comments, `{"body":"x"}`)
			if (resp == nil) != (i != 1) || len(s.Issue(key).Comments) != want {
				t.Errorf("%d: answer %q, %d comments, want %d", i, text, len(s.Issue(key).Comments), want)
			}
		}
		start := time.Now()
		inject(Fault{Delay: 3 * time.Second, Times: 2})
		if resp, _ := ask(t, s, "GET", "/user", ""); resp.StatusCode != 200 || time.Since(start) != 3*time.Second {
			t.Errorf("delayed = %d after %s", resp.StatusCode, time.Since(start))
		}
		inject(SecondaryLimit(403, 0))
		_, _ = ask(t, s, "GET", "/user", "") // the second delay
		if resp, _ := ask(t, s, "GET", "/user", ""); resp.StatusCode != 403 || resp.Header.Get("Retry-After") != "" {
			t.Errorf("secondary = %d %v", resp.StatusCode, resp.Header)
		}
		_, _ = ask(t, s, "GET", "/user", "")
		time.Sleep(time.Minute)
		_, _ = ask(t, s, "GET", "/user", "")
		if s.Violations() != 1 {
			t.Errorf("%d violations, want the one within the minute", s.Violations())
		}
		var faults []string
		for _, r := range s.Requests() {
			faults = append(faults, r.Fault)
		}
		if got := strings.Join(faults, ","); got != "cut before,,cut after,delay,delay,status 403,," {
			t.Errorf("faults in the log = %q", got)
		}
	})
}

func TestWhoMayDoWhat(t *testing.T) {
	s := newSim(t, Options{})
	s.AddUser("mallory", "m")
	s.CreateIssue(repoName, "acme", "x", "")
	for name, tc := range map[string]struct {
		token, method, path, body string
		want                      int
	}{
		"no such token":        {"Bearer nope", "GET", "/user", "", 401},
		"an outsider comments": {"token m", "POST", "/repos/acme/widgets/issues/1/comments", `{"body":"x"}`, 201},
		"an outsider labels":   {"token m", "POST", "/repos/acme/widgets/issues/1/labels", `{"labels":["x"]}`, 403},
		"bad json":             {"token secret", "POST", "/repos/acme/widgets/issues/1/comments", `{`, 400},
		"an empty comment":     {"token secret", "POST", "/repos/acme/widgets/issues/1/comments", `{"body":" "}`, 422},
		"a comment too long": {"token secret", "POST", "/repos/acme/widgets/issues/1/comments", `{"body":"` +
			strings.Repeat("x", 65537) + `"}`, 422},
		"a label that is not on": {"token secret", "DELETE", "/repos/acme/widgets/issues/1/labels/x", "", 404},
		"a label that exists": {
			"token secret", "POST", "/repos/acme/widgets/labels",
			`{"name":"Bug","color":"ffffff"}`, 422,
		},
		"labels as a bare array": {"token secret", "POST", "/repos/acme/widgets/issues/1/labels", `["bug"]`, 200},
		"no such repository":     {"token secret", "GET", "/repos/acme/nope", "", 404},
		"no such endpoint":       {"token secret", "GET", "/nope", "", 404},
		"an invalid colour": {
			"token secret", "POST", "/repos/acme/widgets/labels", `{"name":"n","color":"red"}`,
			422,
		},
		"a pull request, no base": {
			"token secret", "POST", "/repos/acme/widgets/pulls", `{"title":"x","head":"y"}`,
			422,
		},
	} {
		s.AddLabel(repoName+"#1", "acme", "bug")
		if resp, body := ask(t, s, tc.method, tc.path, tc.body, "Authorization", tc.token); resp.StatusCode != tc.want {
			t.Errorf("%s: status %d %s, want %d", name, resp.StatusCode, body, tc.want)
		}
	}
}

// TestGitOverHTTP clones, pushes and opens a pull request with the real git. Git sends the push in chunks, because it
// is large.
func TestGitOverHTTP(t *testing.T) {
	seed, data := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(seed, "go.mod"), []byte("module example.com/widgets\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := New(Options{DataDir: data})
	s.AddUser("bot", "secret")
	if err := s.AddRepo(repoName, seed, map[string]string{"bot": "write"}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()

	work := filepath.Join(t.TempDir(), "work")
	run := func(dir string, args ...string) string {
		t.Helper()
		out, err := git(dir, nil, append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	run("", "clone", "-q", srv.URL+"/"+repoName+".git", work)
	noise := make([]byte, 3<<20)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	if err := os.WriteFile(filepath.Join(work, "big"), noise, 0o644); err != nil {
		t.Fatal(err)
	}
	run(work, "add", "-A")
	run(work, "commit", "-q", "-m", "Add <big>")
	if _, err := git(work, nil, "push", "-q", "origin", "HEAD:refs/heads/retake/1-a1"); err == nil {
		t.Error("pushed without a token")
	}
	withToken := strings.Replace(srv.URL, "http://", "http://x-access-token:secret@", 1) + "/" + repoName + ".git"
	run(work, "push", "-q", withToken, "HEAD:refs/heads/retake/1-a1")
	sha, ok := s.commitOf(repoName, "retake/1-a1")
	if !ok || sha != run(work, "rev-parse", "HEAD") {
		t.Errorf("the remote has %q", sha)
	}
	if resp, body := ask(t, s, "POST", "/repos/acme/widgets/pulls",
		`{"title":"x","head":"nope","base":"main"}`); resp.StatusCode != 422 {
		t.Errorf("pull request of a missing branch: %d %s", resp.StatusCode, body)
	}
	resp, body := ask(t, s, "POST", "/repos/acme/widgets/pulls", `{"title":"x","head":"retake/1-a1","base":"main"}`)
	if resp.StatusCode != 201 || !strings.Contains(body, sha) {
		t.Errorf("pull request: %d %s", resp.StatusCode, body)
	}
	for path, want := range map[string]string{
		"/acme/widgets": "Add &lt;big&gt;", "/acme/widgets/pull/1": "Binary files",
		"/acme/widgets/tree/retake/1-a1": "big", "/": repoName,
	} {
		if page := fetch(t, srv.URL+path); !strings.Contains(page, want) {
			t.Errorf("%s lacks %q", path, want)
		}
	}
}

func fetch(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %d, %v", address, resp.StatusCode, err)
	}
	return string(body)
}

func TestAdministration(t *testing.T) {
	s := newSim(t, Options{})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/_sim/faults",
		strings.NewReader(`{"method":"GET","status":503,"body":"{}"}`)))
	if resp, _ := ask(t, s, "GET", "/user", ""); w.Code != 204 || resp.StatusCode != 503 {
		t.Errorf("fault: %d, then %d", w.Code, resp.StatusCode)
	}
	w = httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/_sim/requests", nil))
	var log []Request
	if err := json.Unmarshal(w.Body.Bytes(), &log); err != nil || len(log) != 1 || log[0].Path != "/user" ||
		log[0].Status != 503 || log[0].User != "bot" {
		t.Errorf("log = %s, %v", w.Body, err)
	}
}

func TestSameCallsSameAnswers(t *testing.T) {
	var answers [2]string
	for i := range answers {
		s := newSim(t, Options{Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) }})
		s.CreateIssue(repoName, "acme", "x", "", "b", "a")
		_, answers[i] = ask(t, s, "GET", "/repos/acme/widgets/issues", "")
	}
	if answers[0] != answers[1] || !bytes.Contains([]byte(answers[0]), []byte("2026-01-02T03:04:05Z")) {
		t.Errorf("answers differ: %s\n%s", answers[0], answers[1])
	}
}
