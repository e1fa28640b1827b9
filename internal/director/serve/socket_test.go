package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/operator"
)

// Without a session, the socket answers with the reason, and the probe for liveness succeeds.
func TestSocketSaysWhyNoSessionRuns(t *testing.T) {
	dir := t.TempDir()
	listener, err := Listen(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSocket(listener, "run_1", http.NotFoundHandler(), zap.NewNop())
	t.Cleanup(func() { _ = s.Close() })
	s.Say(errors.New("the bus is unreachable"))
	if h, err := operator.AskHealth(t.Context(), dir); err != nil || h.OK || h.Problem != "the bus is unreachable" ||
		h.RunID != "run_1" {
		t.Errorf("health %+v, %v", h, err)
	}
	if got, err := operator.AskSnapshot(t.Context(), dir); err != nil || got.Director.Phase != operator.PhaseStarting ||
		got.Director.Since.IsZero() || got.Director.Problem != "the bus is unreachable" {
		t.Errorf("snapshot %+v, %v", got.Director, err)
	}
	if got := probed(s, operator.LivePath); got != "200 yes\n" {
		t.Errorf("alive: %q", got)
	}
	if got := probed(s, operator.HealthPath); got != "503 no\n" {
		t.Errorf("healthy: %q", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+operator.HealthPath, func(w http.ResponseWriter, r *http.Request) {
		operator.Respond(w, http.StatusOK, operator.Health{OK: true, Problem: PeerOf(r.Context())})
	})
	go func() {
		defer close(served)
		s.Serve(ctx, mux)
	}()
	h, err := operator.AskHealth(t.Context(), dir)
	for ; err == nil && !h.OK; h, err = operator.AskHealth(t.Context(), dir) { // the session does not serve yet
		time.Sleep(time.Millisecond)
	}
	if err != nil || h.Problem == "" || h.Problem == "somebody" {
		t.Errorf("the session answers %+v, %v; want the user who asks", h, err)
	}
	cancel()
	<-served
	if h, err := operator.AskHealth(t.Context(), dir); err != nil || h.OK || h.Problem != context.Canceled.Error() {
		t.Errorf("after the session: %+v, %v", h, err)
	}
}

func probed(s *Socket, path string) string {
	w := httptest.NewRecorder()
	s.Probe(w, httptest.NewRequest(http.MethodGet, path, nil))
	return fmt.Sprint(w.Code, " ", w.Body)
}

// A site with a name that resolves to this machine gets no answer. A proxy on another address does.
func TestOnlyLocalNamesAreAnsweredAtALocalAddress(t *testing.T) {
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	for _, c := range []struct {
		address, host string
		want          int
	}{
		{"127.0.0.1:8730", "localhost:8730", http.StatusOK},
		{"127.0.0.1:8730", "evil.example", http.StatusForbidden},
		{"10.0.0.7:8730", "retake.example", http.StatusOK},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://"+c.host+"/metrics", nil)
		w := httptest.NewRecorder()
		if ByLocalName(c.address, ok)(w, r); w.Code != c.want {
			t.Errorf("%s asked as %s: %d, want %d", c.address, c.host, w.Code, c.want)
		}
	}
}
