package director

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/fsm"
)

// A request that the session cannot answer any more is refused in words. An empty answer would read like one.
func TestOperatorIsRefusedInWordsWhenTheSessionEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path, body string
		handler          func(*session) http.HandlerFunc
		whole            bool // the owner still answers, and the journal does not
		want             string
	}{
		{"a command", "/pause", "", func(s *session) http.HandlerFunc { return s.operate }, true, notWritten},
		{
			"a budget", "/budget/reset", `{"issue": "acme/widgets#1", "paid_calls_used": 3}`,
			func(s *session) http.HandlerFunc { return s.resetBudget }, true, notWritten,
		},
		{
			"a lift", "/cooldown/lift", `{}`, func(s *session) http.HandlerFunc { return s.liftCooldowns }, true,
			notWritten,
		},
		{"a command, later", "/pause", "", func(s *session) http.HandlerFunc { return s.operate }, false, notWritten},
		{
			"a budget, later", "/budget/reset", `{"issue": "acme/widgets#1"}`,
			func(s *session) http.HandlerFunc { return s.resetBudget }, false, tooBusy,
		},
		{
			"a lift, later", "/cooldown/lift", `{}`, func(s *session) http.HandlerFunc { return s.liftCooldowns }, false,
			tooBusy,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newOwnerHarness(t, t.Context())
			s := &session{daemon: &daemon{log: zap.NewNop()}, owner: b.owner}
			b.fakeJournal.answers <- nil
			if !s.decided(t.Context(), eligible(1)) {
				t.Fatal("the issue was not taken")
			}
			b.fakeJournal.answers <- nil // the claim's own record, if it comes first
			if !s.decided(t.Context(),
				fsm.CooldownReported{Resource: "github", Until: s.owner.clock.peek().Add(time.Hour), Why: "test"}) {
				t.Fatal("the cooldown was not taken")
			}
			b.fakeJournal.answers <- errors.New("the server is gone")
			if !c.whole {
				s.decided(t.Context(), fsm.OperatorCommanded{Command: fsm.Pause})
				<-b.done
			}
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path,
				strings.NewReader(c.body))
			r.SetPathValue("command", "pause")
			c.handler(s)(w, r)
			var no refusal
			if err := json.NewDecoder(w.Body).Decode(&no); err != nil || w.Code != http.StatusServiceUnavailable ||
				no.Problem != c.want {
				t.Errorf("answer %d %q (%v), want 503 %q", w.Code, no.Problem, err, c.want)
			}
			if err := <-b.ended; !errors.Is(err, errReload) {
				t.Errorf("the owner ended with %v", err)
			}
		})
	}
}

// A request may outlast its session. It never sees what the daemon has made anew for the next one.
func TestSessionKeepsWhatRequestsAskFor(t *testing.T) {
	t.Parallel()
	d := &daemon{bus: &bus.Bus{}, met: &meeting{}}
	s, server, met := d.newSession(), d.bus, d.met
	kept := make(chan bool)
	go func() { kept <- s.bus == server && s.met == met }() // of a request, while the bus is opened again
	d.bus, d.met = &bus.Bus{}, &meeting{}
	if !<-kept || s.bus != server || s.met != met {
		t.Error("the session has the next one's bus, or what the next configuration has met")
	}
}
