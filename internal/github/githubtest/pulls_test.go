package githubtest

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// clone is a work tree of the stand-in's real repository, with a branch "work" that changes a line of f.
type clone struct {
	t   *testing.T
	dir string
}

func (c clone) git(args ...string) string {
	c.t.Helper()
	out, err := git(c.dir, []string{
		"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@example.com", "GIT_COMMITTER_NAME=x",
		"GIT_COMMITTER_EMAIL=x@example.com",
	}, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// push creates a branch at from, commits a file to it, and pushes it over HTTP. It returns the SHA of the commit.
func (c clone) push(branch, from, file, text string) string {
	c.t.Helper()
	c.git("fetch", "-q", "origin")
	c.git("checkout", "-q", "-B", branch, "origin/"+from)
	if err := os.WriteFile(filepath.Join(c.dir, file), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "Change "+file)
	c.git("push", "-q", "origin", branch)
	return c.git("rev-parse", "HEAD")
}

// newGitSim returns a stand-in with git, and a work tree of its repository.
func newGitSim(t *testing.T) (*Server, clone) {
	t.Helper()
	seed := t.TempDir()
	if err := os.WriteFile(filepath.Join(seed, "f"), []byte("one\ntwo\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := New(Options{DataDir: t.TempDir()})
	s.AddUser("bot", "secret")
	if err := s.AddRepo(repoName, seed, map[string]string{"bot": "write", "octocat": "admin"}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c := clone{t, filepath.Join(t.TempDir(), "w")}
	if _, err := git("", nil, "clone", "-q", strings.Replace(srv.URL, "http://", "http://bot:secret@", 1)+"/"+repoName+
		".git", c.dir); err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestGitMergesAndConflicts(t *testing.T) {
	s, c := newGitSim(t)
	const pull = "/repos/acme/widgets/pulls/1"
	c.push("work", "main", "f", "one\nTWO\nthree\n")
	c.push("other", "main", "f", "one\n2\nthree\n")
	c.push("third", "main", "g", "new\n")
	work := s.CreatePull(repoName, "bot", "Work", "Fixes #4", "work", "main", false)
	other := s.CreatePull(repoName, "bot", "Other", "", "other", "main", false)
	third := s.CreatePull(repoName, "bot", "Third", "Body", "third", "main", false)
	s.CreateIssue(repoName, "acme", "x", "")
	for _, want := range []string{`"mergeable":null`, `"mergeable":true,"mergeable_state":"clean"`} {
		if _, body := ask(t, s, "GET", pull, ""); !strings.Contains(body, want) {
			t.Errorf("got %s, want %s", body, want)
		}
	}
	if err := s.Merge(work, "octocat"); err != nil {
		t.Fatal(err)
	}
	c.git("fetch", "-q", "origin")
	if parents := c.git("rev-list", "--parents", "-1", "origin/main"); len(strings.Fields(parents)) != 3 ||
		c.git("show", "origin/main:f") != "one\nTWO\nthree" {
		t.Errorf("main = %s", parents)
	}
	if v := s.Issue(work); v.State != "closed" || v.MergedBy != "octocat" || s.Issue(repoName+"#4").State != "closed" {
		t.Errorf("merged = %+v", v)
	}

	// The base branch has moved, and the merge now conflicts. The first answer does not show this yet.
	for _, want := range []string{`"mergeable":null`, `"mergeable":false,"mergeable_state":"dirty"`} {
		if _, body := ask(t, s, "GET", "/repos/acme/widgets/pulls/2", ""); !strings.Contains(body, want) {
			t.Errorf("got %s, want %s", body, want)
		}
	}
	if err := s.Merge(other, "octocat"); !errors.Is(err, errNotMergeable) {
		t.Errorf("a conflict was merged: %v", err)
	}
	if resp, body := ask(t, s, "PUT", "/repos/acme/widgets/pulls/3/merge",
		`{"merge_method":"squash"}`); resp.StatusCode != 200 {
		t.Errorf("squash: %d %s", resp.StatusCode, body)
	}
	c.git("fetch", "-q", "origin")
	if got := c.git("log", "-1", "--format=%P|%an|%B", "origin/main"); strings.Count(got, " ") == 0 ||
		!strings.Contains(got, "|bot|Third (#3)\n\nBody") {
		t.Errorf("squashed = %q", got)
	}
	// The conflict is resolved by a push.
	before := s.Issue(other).HeadSHA
	c.git("checkout", "-q", "other")
	c.git("merge", "-q", "-X", "ours", "origin/main")
	c.git("push", "-q", "origin", "other")
	if s.Issue(other).HeadSHA == before {
		t.Error("the stand-in did not notice the push")
	}
	if err := s.Merge(other, "octocat"); err != nil {
		t.Errorf("after the push: %v", err)
	}
	if s.Issue(third).State != "closed" {
		t.Error("the third pull request was opened")
	}
}

func TestProtectionAndBranches(t *testing.T) {
	s, c := newGitSim(t)
	c.push("work", "main", "f", "one\nTWO\nthree\n")
	pull := s.CreatePull(repoName, "bot", "Work", "", "work", "main", true)
	state := func(want string) {
		t.Helper()
		ask(t, s, "GET", "/repos/acme/widgets/pulls/1", "")
		if _, body := ask(t, s, "GET", "/repos/acme/widgets/pulls/1", ""); !strings.Contains(body,
			`"mergeable_state":"`+want+`"`) {
			t.Errorf("got %s, want %s", body, want)
		}
	}
	state("draft")
	s.SetDraft(pull, "bot", false)
	state("clean")
	s.Protect(repoName, Protection{Approvals: 1, Checks: []string{"ci"}, UpToDate: true})
	state("blocked")
	s.Review(pull, "octocat", "APPROVED", "")
	state("blocked")
	s.SetCheck(pull, "ci", "", "")
	state("blocked")
	s.SetCheck(pull, "ci", "success", "fine")
	state("clean")
	s.Review(pull, "octocat", "CHANGES_REQUESTED", "no", Inline{"f", 2, "why capitals?"})
	state("blocked")
	s.Review(pull, "octocat", "COMMENTED", "a comment does not change a review")
	state("blocked")
	id := s.Review(pull, "octocat", "CHANGES_REQUESTED", "no")
	s.DismissReview(pull, "acme", id)
	s.Review(pull, "passer-by", "APPROVED", "nobody asked")
	state("blocked")
	s.Review(pull, "acme", "APPROVED", "")
	state("clean")
	s.SetStatus(pull, "deploy", "pending", "")
	state("unstable")
	c.push("main", "main", "g", "new\n")
	state("behind")
	s.SetConflict(pull, true)
	state("dirty")
	c.git("push", "-q", "origin", "--delete", "work")
	if resp, _ := ask(t, s, "GET", "/repos/acme/widgets/git/ref/heads/work", ""); resp.StatusCode != 404 ||
		s.Issue(pull).State != "closed" {
		t.Errorf("the branch is gone: %d %+v", resp.StatusCode, s.Issue(pull))
	}
}

func TestRulesJudgeEveryNewHead(t *testing.T) {
	s, c := newGitSim(t)
	var judged []string
	s.AddCheckRule("ci", func(repo, branch, sha string) (string, string) {
		judged = append(judged, branch+" "+sha)
		if _, body := ask(t, s, "GET", "/repos/acme/widgets/commits/"+sha+"/check-runs", ""); !strings.Contains(body,
			"in_progress") {
			t.Errorf("before the judgement: %s", body)
		}
		if text, _ := git(s.bare(repo), nil, "show", sha+":f"); strings.Contains(text, "good") {
			return "success", "fine"
		}
		return "failure", "f is not good"
	})
	bad := c.push("work", "main", "f", "bad\n")
	if resp, body := ask(t, s, "POST", "/repos/acme/widgets/pulls",
		`{"title":"x","head":"work","base":"main"}`); resp.StatusCode != 201 {
		t.Fatal(body)
	}
	if _, body := ask(t, s, "GET", "/repos/acme/widgets/commits/work/check-runs", ""); !strings.Contains(body,
		`"conclusion":"failure"`) || !strings.Contains(body, bad) {
		t.Errorf("checks = %s", body)
	}
	good := c.push("work", "work", "f", "good\n")
	if _, body := ask(t, s, "GET", "/repos/acme/widgets/commits/"+good+"/check-runs", ""); !strings.Contains(body,
		`"conclusion":"success"`) {
		t.Errorf("checks = %s", body)
	}
	if !slices.Equal(judged, []string{"work " + bad, "work " + good}) {
		t.Errorf("judged %q", judged)
	}
}

// TestWhatChangesAPullRequest checks which changes update updated_at. Checks do not, so clients must request them.
func TestWhatChangesAPullRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, Options{})
		pull := s.CreatePull(repoName, "bot", "Work", "", "work", "main", false)
		for _, x := range []struct {
			what    string
			do      func()
			changes bool
		}{
			{"check", func() { s.SetCheck(pull, "ci", "failure", "") }, false},
			{"status", func() { s.SetStatus(pull, "ci", "failure", "") }, false},
			{"conflict", func() { s.SetConflict(pull, true) }, false},
			{"comment", func() { s.AddComment(pull, "octocat", "x") }, true},
			{"review", func() { s.Review(pull, "octocat", "COMMENTED", "x") }, true},
			{"push", func() { s.Push(repoName, "work", "") }, true},
			{"close", func() { s.Close(pull, "octocat") }, true},
		} {
			// Read the pull request twice, so that the stand-in has determined whether it can be merged.
			for range 2 {
				ask(t, s, "GET", "/repos/acme/widgets/pulls/1", "")
			}
			before, _ := ask(t, s, "GET", "/repos/acme/widgets/issues?state=all", "")
			time.Sleep(time.Minute)
			x.do()
			after, _ := ask(t, s, "GET", "/repos/acme/widgets/issues?state=all", "", "If-None-Match",
				before.Header.Get("ETag"))
			if (after.StatusCode == 200) != x.changes {
				t.Errorf("after a %s: %d", x.what, after.StatusCode)
			}
		}
	})
}

func TestUnchangedPullsAndChecksAreFree(t *testing.T) {
	s := newSim(t, Options{})
	pull := s.CreatePull(repoName, "bot", "Work", "", "work", "main", false)
	review := itoa(s.Review(pull, "octocat", "CHANGES_REQUESTED", "no", Inline{"f", 2, "why?"}))
	s.AddComment(pull, "octocat", "x")
	sha := s.Issue(pull).HeadSHA
	ask(t, s, "GET", "/repos/acme/widgets/pulls/1", "")
	for _, path := range []string{
		"pulls/1", "pulls?state=all", "pulls/1/reviews", "pulls/1/comments", "pulls/1/reviews/" + review + "/comments",
		"commits/" + sha + "/check-runs", "commits/work/status", "issues/comments?sort=updated&direction=asc",
		"git/ref/heads/work",
	} {
		first, _ := ask(t, s, "GET", "/repos/acme/widgets/"+path, "")
		second, body := ask(t, s, "GET", "/repos/acme/widgets/"+path, "", "If-None-Match", first.Header.Get("ETag"))
		if first.StatusCode != 200 || second.StatusCode != 304 || body != "" ||
			second.Header.Get("X-RateLimit-Remaining") != first.Header.Get("X-RateLimit-Remaining") {
			t.Errorf("%s: %d, then %d %q %v", path, first.StatusCode, second.StatusCode, body, second.Header)
		}
	}
	s.MarkPending(pull)
	if _, body := ask(t, s, "GET", "/repos/acme/widgets/pulls/1", ""); !strings.Contains(body, `"mergeable":null`) {
		t.Errorf("pending: %s", body)
	}
}

// TestCommentsOfTheRepository lists the comments on issues and pull requests together, in the order of their changes,
// starting at since.
func TestCommentsOfTheRepository(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, Options{})
		issue := s.CreateIssue(repoName, "acme", "x", "")
		pull := s.CreatePull(repoName, "bot", "Work", "", "work", "main", false)
		first := s.AddComment(issue, "acme", "one")
		time.Sleep(time.Minute)
		s.AddComment(pull, "acme", "two")
		time.Sleep(time.Minute)
		since := time.Now().UTC().Format(time.RFC3339)
		s.AddComment(issue, "acme", "three")
		time.Sleep(time.Minute)
		s.EditComment(issue, "acme", first, "ONE")
		for query, want := range map[string]string{
			"": "ONE two three", "?sort=updated&direction=asc": "two three ONE", "?sort=updated": "ONE three two",
			"?direction=desc": "ONE two three",
			"?sort=updated&direction=asc&since=" + since:    "three ONE",
			"?sort=updated&direction=asc&per_page=1&page=2": "three",
		} {
			_, body := ask(t, s, "GET", "/repos/acme/widgets/issues/comments"+query, "")
			var got []string
			for _, part := range strings.Split(body, `"body":"`)[1:] {
				text, _, _ := strings.Cut(part, `"`)
				got = append(got, text)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
		if resp, _ := ask(t, s, "GET", "/repos/acme/widgets/issues/comments?since=yesterday",
			""); resp.StatusCode != 422 {
			t.Errorf("an invalid since: %d", resp.StatusCode)
		}
	})
}
