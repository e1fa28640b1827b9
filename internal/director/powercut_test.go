package director

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"retake/internal/safefile"
	"retake/internal/sys/powercut"
)

// worksUntilCut waits for runs in the first task, and for the power cut in the first attempt of the second task.
func (a *fakeWorker) worksUntilCut(ctx context.Context, runs <-chan struct{}) int {
	if strings.HasSuffix(a.task, "#1") {
		select {
		case <-runs:
			// after this work, only the journal changes
		case <-ctx.Done():
			return 1
		}
	}
	if strings.HasSuffix(a.task, "#2") && a.plan.Attempt == 1 {
		<-ctx.Done() // until the power is cut
		return 1
	}
	if err := os.WriteFile(filepath.Join(a.checkout, "work.txt"), []byte("done\n"), 0o644); err != nil {
		return 1
	}
	if err := safefile.SyncDisk(a.checkout); err != nil { // as the real worker does
		return 1
	}
	return a.succeed(ctx)
}

// githubUnless disconnects GitHub while dark is set, because a machine without power cannot send requests.
func (s *harness) githubUnless(dark *atomic.Bool) {
	at, err := url.Parse(s.config.GitHub.APIURL)
	must(s.t, err)
	github := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if dark.Load() {
			panic(http.ErrAbortHandler)
		}
		github.ServeHTTP(w, r)
	}))
	s.t.Cleanup(web.Close)
	s.config.GitHub.APIURL = web.URL + at.Path
}

// TestPowerCutOfTheWholeMachine cuts the power while one issue is delivered and another is worked on. The next director
// continues on the same disk. It does not repeat the first delivery, and finishes the second issue in another attempt.
func TestPowerCutOfTheWholeMachine(t *testing.T) {
	t.Parallel()
	disk := powercut.New(t)
	runs := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.worksUntilCut(ctx, runs) })
	must(t, os.WriteFile(filepath.Join(disk.Dir, "worker"), []byte("\x7fELFplayed"), 0o755))
	beside := s.config.Director.DataDir // next to the server's repositories, on a disk that keeps its power
	s.config.Director.DataDir = filepath.Join(disk.Dir, "data")
	var dark atomic.Bool
	s.githubUnless(&dark)

	first := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "", "agent-task")
	second := s.github.CreateIssue(repo, "octocat", "Add another", "", "agent-task")
	s.start()
	s.until("both attempts", func() bool { return s.runtime.running(first) != "" && s.runtime.running(second) != "" })
	close(runs)
	s.until("the first delivery", s.labelled(first, "agent-review"))

	dark.Store(true)
	disk.Cut()
	s.runtime.killFromOutside(s.runtime.running(second))
	s.cancel(context.Canceled)
	s.cancel = nil
	<-s.ended // the director may already have noticed the missing disk
	disk.Restore()
	dark.Store(false)

	s.start()
	s.until("the second delivery", s.labelled(second, "agent-review"))
	s.stop()
	s.config.Director.DataDir = beside
	if got := s.git("for-each-ref", "--format=%(refname:short)", "refs/heads/retake/1-*"); strings.TrimSpace(
		got) != "retake/1-a1" {
		t.Errorf("branches of the first issue: %q", got)
	}
	if got := s.github.Issue(first).Labels; len(got) != 1 || got[0] != "agent-review" {
		t.Errorf("labels of the first issue: %q", got)
	}
	if v := s.verdicts(second); len(v) != 1 || v[0] != "worker_lost" {
		t.Errorf("verdicts on the second: %q, want worker_lost", v)
	}
	if files := s.git("ls-tree", "--name-only", "retake/2-a2"); !strings.Contains(files, "work.txt") {
		t.Errorf("the second branch has %q", files)
	}
}
