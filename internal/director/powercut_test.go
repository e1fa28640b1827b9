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

// TestPowerCutOfTheWholeMachine: the power is cut while one issue is delivered and another is worked on. The
// next director, on what the disk has left, leaves the first alone and finishes the second, whose attempt was
// cut short.
func TestPowerCutOfTheWholeMachine(t *testing.T) {
	t.Parallel()
	disk := powercut.New(t)
	runs := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if strings.HasSuffix(a.task, "#1") {
			select {
			case <-runs:
				// so that the last that is written through is its work: what is decided after that is up to the
				// journal alone
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
	})
	must(t, os.WriteFile(filepath.Join(disk.Dir, "worker"), []byte("\x7fELFplayed"), 0o755))
	beside := s.config.Director.DataDir // the server's repositories
	s.config.Director.DataDir = filepath.Join(disk.Dir, "data")
	at, err := url.Parse(s.config.GitHub.APIURL)
	must(t, err)
	github := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host})
	var dark atomic.Bool // a machine without power asks nobody for anything
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if dark.Load() {
			panic(http.ErrAbortHandler)
		}
		github.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	s.config.GitHub.APIURL = web.URL + at.Path

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
	<-s.ended // it may have found the disk gone first
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
		t.Errorf("verdicts on the second: %q, want that its worker is lost", v)
	}
	if files := s.git("ls-tree", "--name-only", "retake/2-a2"); !strings.Contains(files, "work.txt") {
		t.Errorf("the second branch has %q", files)
	}
}
