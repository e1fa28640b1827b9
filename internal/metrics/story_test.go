package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

const issue = fsm.IssueKey("acme/widgets#1")

var of = fsm.OfTask{Task: issue}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// story is a session with the facts of a test, a minute apart by default.
type story struct {
	*Metrics
	registry *prometheus.Registry
	at       time.Time
	state    fsm.State
	attempt  int
}

func newStory() *story {
	r := prometheus.NewRegistry()
	s := &story{Metrics: New(r, "test"), registry: r, at: noon, state: fsm.Queued}
	s.now = func() time.Time { return s.at }
	s.Slots(4)
	s.begin(fsm.New(fsm.Config{}))
	s.facts(fsm.TaskQueued{Task: issue, Nonce: "abc"})
	return s
}

// begin starts a session of a leader with the state of a machine.
func (s *story) begin(m *fsm.Machine) {
	snapshot, err := m.Snapshot()
	if err == nil {
		err = s.Restore(0, snapshot)
	}
	if err != nil {
		panic(err)
	}
}

func (s *story) facts(all ...fsm.Fact) {
	s.Apply(0, []fsm.Record{{At: s.at, Facts: all}})
	s.at = s.at.Add(time.Minute)
}

// move adds the transition that the machine's table has for a trigger, after the facts in before.
func (s *story) move(on fsm.Trigger, before ...fsm.Fact) {
	to, ok := s.state.After(on)
	if !ok {
		panic("no transition " + s.state.String() + " " + string(on))
	}
	s.facts(append(before, fsm.Moved{OfTask: of, Attempt: s.attempt, From: s.state, To: to, On: on, Until: s.at})...)
	s.state = to
}

// run adds an attempt from its start to its report.
func (s *story) run(next fsm.Next) {
	if s.state == fsm.Queued {
		s.move(fsm.OnDispatch)
	}
	on := fsm.OnWon
	if s.state == fsm.Backoff {
		on = fsm.OnStillOurs
	}
	s.attempt++
	s.move(on, fsm.AttemptBegan{OfTask: of, N: s.attempt, Next: next})
	s.move(fsm.OnHello)
	s.move(fsm.OnReport)
}

// fails adds the verdict on the attempt.
func (s *story) fails(r recovery.Reason, a recovery.Action) {
	on := fsm.OnEscalate
	if a.Again() {
		on = fsm.OnRetry
	}
	s.move(on, fsm.VerdictMade{
		OfTask: of, Attempt: s.attempt, Finding: recovery.Finding{Reason: r},
		Verdict: recovery.Verdict{Action: a}, Disagrees: r == recovery.Timeout,
	})
}

// asked adds a question that GitHub shows.
func (s *story) asked() {
	s.facts(fsm.EffectPlanned{Effect: fsm.Effect{ID: "q", Kind: fsm.DoEscalate, Task: issue, At: s.at}})
	s.facts(fsm.EffectDone{OfTask: of, Effect: "q"})
}

// scrape returns the metrics as Prometheus reads them.
func (s *story) scrape(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler(s.registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// lines returns the samples of a metric that are not 0, without the prefix.
func (s *story) lines(t *testing.T, name string) string {
	t.Helper()
	var out []string
	for l := range strings.Lines(s.scrape(t)) {
		l, ours := strings.CutPrefix(strings.TrimSpace(l), Prefix)
		rest, of := strings.CutPrefix(l, name)
		if ours && of && !strings.HasSuffix(l, " 0") && (rest[0] == '{' || rest[0] == ' ' ||
			strings.HasPrefix(rest, "_sum") || strings.HasPrefix(rest, "_count")) {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

// judgedAs adds a verdict with a reason and an action that only a later version knows.
func (s *story) judgedAs(word string) {
	s.facts(fsm.VerdictMade{
		OfTask: of, Finding: recovery.Finding{Reason: recovery.Reason(word)},
		Verdict: recovery.Verdict{Action: recovery.Action(word)},
	})
}
