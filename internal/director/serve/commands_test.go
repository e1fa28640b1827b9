package serve

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// refusedAtTheEnd lists requests to a session whose journal fails. whole requests are sent while the owner still
// answers, and the others after it has ended.
var refusedAtTheEnd = []struct {
	name, path, body string
	handler          func(*Commands) http.HandlerFunc
	whole            bool // the owner still answers
	want             string
}{
	{"a command", "/pause", "", func(s *Commands) http.HandlerFunc { return s.operate }, true, NotWritten},
	{
		"a budget", "/budget/reset", `{"issue": "acme/widgets#1", "paid_calls_used": 3}`,
		func(s *Commands) http.HandlerFunc { return s.resetBudget }, true, NotWritten,
	},
	{
		"a lift", "/cooldown/lift", `{}`, func(s *Commands) http.HandlerFunc { return s.liftCooldowns }, true,
		NotWritten,
	},
	{"a command, later", "/pause", "", func(s *Commands) http.HandlerFunc { return s.operate }, false, NotWritten},
	{
		"a budget, later", "/budget/reset", `{"issue": "acme/widgets#1"}`,
		func(s *Commands) http.HandlerFunc { return s.resetBudget }, false, TooBusy,
	},
	{
		"a lift, later", "/cooldown/lift", `{}`, func(s *Commands) http.HandlerFunc { return s.liftCooldowns }, false,
		TooBusy,
	},
}

// A request that the session can no longer answer is refused with a message. An empty answer would look like success.
func TestOperatorIsRefusedInWordsWhenTheSessionEnds(t *testing.T) {
	t.Parallel()
	for _, c := range refusedAtTheEnd {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := looptest.Start(t.Context(), t)
			s := &Commands{Owner: b.Owner, Log: zap.NewNop()}
			b.Journal.Answers <- nil
			if !s.Owner.Decided(t.Context(), looptest.Eligible(1)) {
				t.Fatal("the machine did not accept the issue")
			}
			b.Journal.Answers <- nil // the claim's own record, if it comes first
			if !s.Owner.Decided(t.Context(),
				fsm.CooldownReported{Resource: "github", Until: s.Owner.Clock.Now().Add(time.Hour), Why: "test"}) {
				t.Fatal("the machine did not accept the cooldown")
			}
			b.Journal.Answers <- errors.New("the server is gone")
			ended := error(nil)
			if !c.whole {
				s.Owner.Decided(t.Context(), fsm.OperatorCommanded{Command: fsm.Pause})
				ended = <-b.Ended
			}
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path,
				strings.NewReader(c.body))
			r.SetPathValue("command", "pause")
			c.handler(s)(w, r)
			var no operator.Refusal
			if err := json.NewDecoder(w.Body).Decode(&no); err != nil || w.Code != http.StatusServiceUnavailable ||
				no.Problem != c.want {
				t.Errorf("answer %d %q (%v), want 503 %q", w.Code, no.Problem, err, c.want)
			}
			if c.whole {
				ended = <-b.Ended
			}
			if !errors.Is(ended, loop.ErrReload) {
				t.Errorf("the owner ended with %v", ended)
			}
		})
	}
}
