package director

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"retake/internal/bus/bustest"
	"retake/internal/director/operator"
)

// probed returns the director's answer to a supervisor: the status and the whole body.
func (s *harness) probed(path string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.address(path), http.NoBody)
	must(s.t, err)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	must(s.t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	must(s.t, err)
	return answer.Status[:3] + " " + strings.TrimSpace(string(body))
}

// A supervisor's probe during a bus outage reports that the director is unhealthy, and that a restart would not help.
// This holds for a standby and for a leader.
func TestProbes(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.config.Director.HTTPListen = "127.0.0.1:0"
	server := bustest.New(t, t.TempDir())
	s.config.AgentBus.URL, s.config.AgentBus.Credentials = server.URL, server.Credentials()
	leader := leadInstead(t, s.config)
	s.standBy(leader)
	want := func(health, live string) {
		t.Helper()
		s.until("healthy: "+health+", alive: "+live, func() bool {
			return s.probed(operator.HealthPath) == health &&
				s.probed(operator.LivePath) == live
		})
	}
	want("200 yes", "200 yes")
	leader.lease.Release(t.Context())
	s.until("it leads", func() bool {
		return strings.Contains(s.scraped(&http.Client{}, s.address(operator.MetricsPath)), "retake_leader 1")
	})
	want("200 yes", "200 yes")
	server.Stop()
	want("503 no", "200 yes")
	server.Start()
	want("200 yes", "200 yes")
	s.stop() // before the server
}
