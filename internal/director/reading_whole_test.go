package director

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/config"
)

// netAgent builds an agent in Go for the stages' PATH, and returns the CODE stage that runs it against a provider.
func netAgent(t *testing.T, provider http.HandlerFunc) *harness {
	t.Helper()
	web := httptest.NewServer(provider)
	t.Cleanup(web.Close)
	s := newReal(t, nil, code("netagent", web.URL+"/v1/chat/completions"))
	bin := filepath.Join(filepath.Dir(s.config.Director.DataDir), "bin", "netagent")
	build := exec.Command("go", "build", "-o", bin, "./testdata/netagent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, os.Chmod(bin, 0o755))
	s.config.RateLimits.Model.CooldownOnError, s.config.RateLimits.Model.MinBetweenRequests = 0, 0
	s.config.Retry.BackoffInitial, s.config.Retry.BackoffMax = 10*time.Millisecond, 20*time.Millisecond
	return s
}

// TestReadsATestNameOfAKilledCheckAsAName checks that a killed check costs one attempt if its test is named after a
// limit. The question states the signal.
func TestReadsATestNameOfAKilledCheckAsAName(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{
		"agent": "echo done >> work.txt",
		"pytest": `echo "============ test session starts ============"
echo "tests/test_client.py::test_rate_limit_exceeded PASSED [ 50%]"
kill -KILL $$`,
	}, code("agent"), config.Stage{Name: "VALIDATE", Run: []string{"pytest"}, Timeout: time.Minute})
	s.config.Retry.BackoffInitial, s.config.Retry.BackoffMax = 10*time.Millisecond, 20*time.Millisecond
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	q := s.question(key)
	if v := s.verdicts(key); !slices.Equal(v, []string{"tests_failed"}) || s.explained(key).Attempt != 1 {
		t.Errorf("verdicts %v, attempt %d, want one", v, s.explained(key).Attempt)
	}
	if above, _, _ := strings.Cut(q, "<details>"); !strings.Contains(above, "SIGKILL") ||
		strings.Contains(above, "rate-limit") {
		t.Errorf("the question does not state the signal:\n%s", q)
	}
}

// TestReadsASignInPageAsTheNetwork runs an agent in Go behind a page that answers instead of the provider.
func TestReadsASignInPageAsTheNetwork(t *testing.T) {
	t.Parallel()
	s := netAgent(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<!DOCTYPE html><html><head><title>Sign in</title></head></html>"))
	})
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	q := s.question(key)
	if v := s.verdicts(key); !slices.Equal(v, []string{"network_permanent"}) {
		t.Errorf("verdicts %v, want network_permanent once", v)
	}
	if above, _, _ := strings.Cut(q, "<details>"); !strings.Contains(above, "invalid character") ||
		strings.Contains(above, "docker info") {
		t.Errorf("the question does not name the cause:\n%s", q)
	}
}

// TestWaitsForAProviderBehindABadGateway runs an agent in Go whose provider's gateway answers with pages for a while.
func TestWaitsForAProviderBehindABadGateway(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := netAgent(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 3 {
			_, _ = w.Write([]byte(`{"text":"violet"}`))
			return
		}
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>\r\n"))
	})
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	want := []string{"network_transient", "network_transient", "network_transient"}
	if v := s.verdicts(key); !slices.Equal(v, want) || asked.Load() != 4 {
		t.Errorf("%d requests, verdicts %v, want 4 and %v", asked.Load(), v, want)
	}
}
