package director

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/director/operator"
)

// roads is a transport to GitHub that can be closed. It records the times of requests while it is closed.
type roads struct {
	mu     sync.Mutex
	closed func() (*http.Response, error) // answers requests while closed; nil while open
	when   func(*http.Request) bool       // selects the request that closes the transport; may be nil
	how    func() (*http.Response, error) // the value of closed after that
	lost   []time.Time                    // times of the requests that did not reach GitHub
}

func (r *roads) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	if r.when != nil && r.when(req) {
		r.closed, r.when = r.how, nil
	}
	fail := r.closed
	if fail != nil {
		r.lost = append(r.lost, time.Now())
	}
	r.mu.Unlock()
	if fail == nil {
		return http.DefaultTransport.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	resp, err := fail()
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

// close blocks all requests, starting with the first one for which when returns true. If when is nil, it blocks all
// requests from now on.
func (r *roads) close(when func(*http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.when = when; when == nil {
		r.closed = r.how
	}
}

func (r *roads) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.when = nil, nil
}

func (r *roads) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed != nil
}

func (r *roads) attempts() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Time{}, r.lost...)
}

func refused() (*http.Response, error) {
	return nil, errors.New("dial tcp 192.0.2.1:443: connect: connection refused")
}

func badGateway() (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusBadGateway, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader("<html>502</html>")),
	}, nil
}

func tooLate() (*http.Response, error) {
	time.Sleep(100 * time.Millisecond)
	return nil, context.DeadlineExceeded
}

// outage describes how requests to GitHub fail, and when that begins.
type outage struct {
	how   func() (*http.Response, error)
	begin func(s *harness, r *roads, key string, finish func()) // starts the director, and closes the roads
}

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet }

// outages lists the outages, keyed by the director's activity when they begin.
var outages = map[string]outage{
	"at the start": {refused, func(s *harness, r *roads, _ string, _ func()) {
		r.close(nil)
		s.start()
	}},
	"while it polls": {badGateway, func(s *harness, r *roads, key string, _ func()) {
		s.start()
		s.until("running", func() bool { return s.runtime.running(key) != "" })
		r.close(nil)
	}},
	"while it claims": {badGateway, func(s *harness, r *roads, _ string, _ func()) {
		r.close(func(q *http.Request) bool {
			return isWrite(q) &&
				!strings.HasSuffix(q.URL.Path, "/widgets/labels")
		})
		s.start()
	}},
	"while it delivers": {tooLate, func(s *harness, r *roads, key string, finish func()) {
		s.start()
		s.until("running", func() bool { return s.runtime.running(key) != "" })
		s.until("the claim's comment names the outage", func() bool {
			c := s.github.Issue(key).Comments
			return len(c) == 1 && len(s.labels(key)) == 1
		})
		r.close(isWrite)
		finish()
	}},
}

// The pauses of the gate, a hundredth of the real ones, and an outage of ten minutes at the same scale.
const (
	firstPause   = 40 * time.Millisecond
	longestPause = 15 * firstPause
	awayFor      = 6 * time.Second
)

// TestGitHubAway checks that after three failures the director sends one request per pause, and that phase, health and
// status show the outage. The running worker continues without a question, and the director resumes work afterwards.
func TestGitHubAway(t *testing.T) {
	for name, o := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.happens(t, name == "while it polls")
		})
	}
}

// happens runs a task through the outage. polled is set if the task's worker runs before the outage begins.
func (o outage) happens(t *testing.T, polled bool) {
	goOn := make(chan struct{})
	finish := sync.OnceFunc(func() { close(goOn) })
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		select {
		case <-goOn:
		case <-ctx.Done():
			return 1
		}
		return a.work(ctx)
	})
	t.Cleanup(finish)
	way := &roads{how: o.how}
	s.transport, s.firstProbe, s.config.GitHub.Delivery = way, firstPause, "pull_request"
	key := s.github.CreateIssue(repo, "octocat", "All the same", "", "agent-task")
	o.begin(s, way, key, finish)
	s.until("it is away", way.isClosed)
	before := s.runtime.begun()
	s.until("phase COOLDOWN", func() bool {
		all, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir)
		return err == nil && all.Director.Phase == "COOLDOWN" && strings.Contains(all.Director.Problem,
			"GitHub has not responded since ")
	})
	if h := s.health(); !strings.HasPrefix(h, "healthy, but GitHub has not responded since ") {
		t.Errorf("health says %q", h)
	}
	time.Sleep(awayFor)
	if s.runtime.begun() != before || before == 1 && polled && s.runtime.running(key) == "" {
		t.Errorf("the outage has changed what runs: %q", s.runtime.attempts())
	}
	lost := way.attempts()
	way.open()
	finish()
	s.until("review", s.labelled(key, "agent-review"))
	s.until("healthy", func() bool { return strings.HasPrefix(s.health(), "healthy: ") })
	if v := s.verdicts(key); len(v) > 0 || s.runtime.begun() != 1 {
		t.Errorf("verdicts %q, attempts %q; want no verdict and one attempt", v, s.runtime.attempts())
	}
	lasted, down := lost[len(lost)-1].Sub(lost[0]), 3
	// A successful read in between restarts the count of three.
	for down < 6 && tooEarly(lost, down, firstPause, longestPause) != "" {
		down++
	}
	if most := down + 4 + int(lasted/longestPause) + 1; len(lost) < 4 || len(lost) > most {
		t.Errorf("%d requests in %s, want at most %d", len(lost), lasted, most)
	}
	if early := tooEarly(lost, down, firstPause, longestPause); early != "" {
		t.Error(early)
	}
}

// tooEarly returns the first request, starting at one, that did not respect a pause that doubles from first to
// longest. It returns "" if all did.
func tooEarly(lost []time.Time, from int, first, longest time.Duration) string {
	for i := from; i < len(lost); i++ {
		if pause := lost[i].Sub(lost[i-1]); pause < min(first<<(i-from), longest) {
			return fmt.Sprintf("request %d came %s after the one before", i, pause)
		}
	}
	return ""
}

// TestGitHubAwayAcrossARestart checks that the deadline is in the journal, and that the next process waits for it
// before it sends any request.
func TestGitHubAwayAcrossARestart(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	way := &roads{how: refused}
	s.transport, s.firstProbe = way, 8*time.Second
	key := s.github.CreateIssue(repo, "octocat", "All the same", "", "agent-task")
	way.close(nil)
	s.start()
	var until time.Time
	s.until("closed", func() bool {
		until = s.closures()["github.api"]
		return !until.IsZero()
	})
	before := len(way.attempts())
	s.stop()
	s.start()
	s.until("the probe", func() bool { return len(way.attempts()) > before })
	if probe := way.attempts()[before]; probe.Before(until) {
		t.Errorf("asked %s before the deadline", until.Sub(probe))
	}
	way.open()
	s.until("closed again, by one probe", func() bool { return s.closures()["github.api"].After(until) })
	if n := len(way.attempts()); n != before+1 {
		t.Errorf("%d probes", n-before)
	}
	s.until("review", s.labelled(key, "agent-review"))
}
