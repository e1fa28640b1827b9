package director

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"retake/internal/container"
	"retake/internal/director/operator"
	"retake/internal/github/githubtest"
)

// TestStartWithoutGitHub checks that a start waits, with a reason, while all repositories are unreachable.
func TestStartWithoutGitHub(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	fault := githubtest.ServerError(502).On("GET", "/repos/"+repo)
	fault.Times = 3
	must(t, s.github.Inject(fault))
	s.start()
	s.until("health names the unreachable repository", func() bool { return strings.Contains(s.health(), "502") })
	s.until("healthy", func() bool { return strings.HasPrefix(s.health(), "healthy: ") })
	if s.logs.FilterMessage("cannot use repository; retrying at each poll").Len() == 0 {
		t.Error("the log does not name the unreachable repository")
	}
}

// TestStartWaitsForTheEngine checks a boot that starts the director before its container engine. Health shows the
// wait. Then the director reads the report of the worker that ended in the meantime, without a question to a person.
func TestStartWaitsForTheEngine(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return a.work(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Before the boot", "", "agent-task")
	s.start()
	s.until("running", func() bool { return s.runtime.running(key) != "" })
	s.stop()
	close(goOn)
	s.runtime.fail(&container.Error{
		Kind: container.ErrDaemon, Transient: true,
		Doing: "no answer from unix:///var/run/docker.sock",
	})
	s.start()
	s.until("health names the unreachable engine", func() bool {
		return strings.Contains(s.health(), "waiting for the container engine: container: Docker daemon: no answer")
	})
	s.runtime.fail(nil)
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); len(v) > 0 || s.runtime.begun() != 1 {
		t.Errorf("verdicts %q, attempts %q; want no verdict and one attempt", v, s.runtime.attempts())
	}
}

// TestOneRepositoryOfTwoIsMissing checks that the director reports the missing repository and works on the other one.
func TestOneRepositoryOfTwoIsMissing(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.GitHub.Repositories = []string{"acme/none", repo}
	key := s.github.CreateIssue(repo, "octocat", "All the same", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if h := s.health(); !strings.HasPrefix(h, "healthy, but director: cannot use repository acme/none") {
		t.Errorf("health says %q", h)
	}
}

// slowFor delays every answer about a repository until it is released.
type slowFor struct {
	repo   string
	open   chan struct{}
	gaveUp atomic.Bool // the sender of a request did not wait for the answer
}

func (s *slowFor) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/repos/"+s.repo) {
		select {
		case <-s.open:
		case <-r.Context().Done():
			s.gaveUp.Store(true)
			return nil, r.Context().Err()
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A director starts as soon as one repository is usable, regardless of the number of repositories. After a takeover,
// workers are waiting for it.
func TestABeginWaitsForOneRepository(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	must(t, s.github.AddRepo("acme/slow", "", map[string]string{"retake-bot": "write"}))
	slow := &slowFor{repo: "acme/slow", open: make(chan struct{})}
	s.transport, s.config.GitHub.Repositories = slow, []string{repo, "acme/slow"}
	s.start()
	s.until("it begins", func() bool { return s.logs.FilterMessage("director started").Len() > 0 })
	if slow.gaveUp.Load() {
		t.Error("the director waited for the other repository until its timeout")
	}
	close(slow.open)
}

// TestNoRepositoryCanBeUsed checks that a start reports a mistake at once.
func TestNoRepositoryCanBeUsed(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.GitHub.Repositories = []string{"acme/none"}
	s.start()
	err := <-s.ended
	s.cancel = nil
	if err == nil || !strings.Contains(err.Error(), "cannot use repository acme/none") {
		t.Errorf("the director ends with %v", err)
	}
}

// While GitHub does not answer, health and status report it. They stop when it does answer again.
func TestHealthAndStatusSayThatGitHubIsAway(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.start()
	s.until("healthy", func() bool { return strings.HasPrefix(s.health(), "healthy: ") })
	must(t, s.github.Inject(githubtest.Fault{Status: http.StatusBadGateway, Times: 1000}.On("GET", "/issues")))
	s.until("health says so", func() bool {
		return strings.HasPrefix(s.health(),
			"healthy, but cannot read "+repo+", so Retake retries every 300ms: github: ")
	})
	if now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir); err != nil ||
		!strings.HasPrefix(now.Director.Problem, "cannot read "+repo) {
		t.Errorf("status: %+v, %v", now.Director, err)
	}
	s.github.Repair()
	s.until("healthy again", func() bool { return strings.HasPrefix(s.health(), "healthy: ") })
}

// Status also has each problem that makes health report an unhealthy director.
func TestStatusSaysWhatIsWrongWithTheDisk(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.smallDisk("64m")
	s.config.Director.DiskWatermark = 0.1
	s.start()
	s.until("health says so", func() bool { return strings.Contains(s.health(), "director.disk_watermark") })
	if now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir); err != nil ||
		!strings.Contains(now.Director.Problem, "director.disk_watermark") {
		t.Errorf("status: %+v, %v", now.Director, err)
	}
}
