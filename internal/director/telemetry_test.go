package director

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/trace"
	"retake/internal/trace/tracetest"
)

// collect makes a harness send traces to a collector.
func collect(t *testing.T, s *harness) *tracetest.Collector {
	t.Helper()
	c := &tracetest.Collector{}
	web := httptest.NewServer(c)
	t.Cleanup(func() { s.stop(); web.Close() })
	s.config.Telemetry.OTLPEndpoint = web.URL
	return c
}

// stageOf returns a stage that has just ended.
func stageOf(name string, exit int) wire.StageResult {
	return wire.StageResult{
		Stage: name, ExitCode: exit, DurationMS: 20, Command: []string{"played"},
		StartedAt: wire.At(time.Now().Add(-20 * time.Millisecond)),
	}
}

// failOnce reports a connection that was reset, and its stages.
func (a *fakeWorker) failOnce(ctx context.Context) int {
	err := a.client.Report(ctx, asserted(wire.WorkerError{
		ErrorID: a.plan.WorkerID + "/CODE-2", WorkerID: a.plan.WorkerID, AttemptID: a.plan.WorkerID,
		IssueNumber: a.plan.Issue.Number, Attempt: a.plan.Attempt,
		Stage: wire.StageCode, ErrorType: "network_transient", Message: "read: connection reset by peer",
		ExitCode: new(1), IsTransient: true, ShouldRetry: true,
		Stages: []wire.StageResult{
			stageOf(wire.StageCode, 0), stageOf(wire.StageValidate, 1),
			stageOf(wire.StageCode, 1),
		},
	}))
	if err != nil {
		return 2
	}
	return 1
}

// TestTraceOfATask covers a failed attempt, a director that ends during the second one, and a delivery. Both
// directors together make one trace, even if the collector missed the first one's spans.
func TestTraceOfATask(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]int{"exported": 0, "lost": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			traceOfATask(t, refusal)
		})
	}
}

// worksWhileAway succeeds, and retries its report until a director takes it.
func (a *fakeWorker) worksWhileAway(ctx context.Context) int {
	if os.WriteFile(filepath.Join(a.checkout, "work.txt"), nil, 0o644) != nil {
		return 1
	}
	r := &wire.WorkerResult{
		ResultID: a.plan.WorkerID + "/result", AttemptID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
		Attempt: a.plan.Attempt, Outcome: wire.OutcomeOK,
		Stages: wire.List[wire.StageResult]{stageOf(wire.StageCode, 0)},
	}
	for a.client.Report(ctx, r) != nil && ctx.Err() == nil { // the director is down
		time.Sleep(50 * time.Millisecond)
	}
	return 0
}

// checkSpans checks that the spans are one complete trace.
func checkSpans(t *testing.T, spans map[string]tracetest.Span, root wire.TraceParent) {
	t.Helper()
	for id, x := range spans {
		if x.Trace != trace.ID(root) || x.Service != "retake" {
			t.Errorf("%s %s is of trace %s and service %s, want %s", x.Name, id, x.Trace, x.Service, trace.ID(root))
		}
		if _, there := spans[x.Parent]; x.Parent != "" && !there {
			t.Errorf("%s %s has the parent %s, which was not exported", x.Name, id, x.Parent)
		}
		if x.Parent == "" && x.Name != "task" {
			t.Errorf("%s %s has no parent", x.Name, id)
		}
		if x.Attributes["retake.incomplete"] != nil {
			t.Errorf("%s %s is incomplete: its beginning is in the journal", x.Name, id)
		}
	}
	names := map[string]int{}
	for _, x := range spans {
		names[x.Name]++
	}
	for name, want := range map[string]int{
		"task": 1, "queued": 1, "claim": 1, "attempt": 2, "start": 2, "stop": 2, "verdict": 1, "backoff": 1,
		"delivery":   1,
		"stage CODE": 3, "stage VALIDATE": 1, "effect claim": 1, "effect start": 2, "effect stop": 2,
		"effect deliver": 1,
	} {
		if names[name] != want {
			t.Errorf("%d spans %q, want %d", names[name], name, want)
		}
	}
}

// checkPlan checks that a worker's plan leads to its attempt's span, and that this has the stages.
func checkPlan(t *testing.T, spans map[string]tracetest.Span, root wire.TraceParent, p wire.Plan, stages ...string) {
	t.Helper()
	attempt, ok := wire.ParseTraceParent(p.TraceParent)
	if !ok || !attempt.Sampled || attempt.Trace != root.Trace {
		t.Fatalf("the plan of %s has the traceparent %q", p.WorkerID, p.TraceParent)
	}
	if x := spans[spanID(attempt)]; x.Name != "attempt" || x.Attributes["retake.worker"] != p.WorkerID {
		t.Errorf("the plan's parent is %+v, want the attempt %s", x, p.WorkerID)
	}
	for _, stage := range stages {
		x := spans[spanID(attempt.Child(stage))]
		if name, _, _ := strings.Cut(stage, " "); !strings.HasPrefix(x.Name, name+" ") ||
			x.Parent != spanID(attempt) {
			t.Errorf("%s of %s: %+v", stage, p.WorkerID, x)
		}
	}
}

// traceOfATask runs a task with two directors. The collector answers the first one with the refusal, unless that is
// 0.
func traceOfATask(t *testing.T, refusal int) {
	t.Helper()
	plans, goOn := make(chan wire.Plan, 2), make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		plans <- a.plan
		if a.plan.Attempt == 1 {
			return a.failOnce(ctx)
		}
		<-goOn
		return a.worksWhileAway(ctx)
	})
	collector := collect(t, s)
	collector.Refuse(refusal)
	key := s.github.CreateIssue(repo, "octocat", "Trace me", "", "agent-task")
	s.start()
	first, second := <-plans, <-plans
	s.stop()
	before := collector.Spans()
	has := slices.ContainsFunc(before, func(x tracetest.Span) bool { return x.Name == "verdict" })
	if has != (refusal == 0) {
		t.Errorf("the first director exported %d spans, including a verdict: %t", len(before), has)
	}
	collector.Refuse(0)
	s.start()
	s.until("adopted", func() bool { return s.logs.FilterMessage("adopted a running container").Len() == 1 })
	close(goOn)
	s.until("review", s.labelled(key, "agent-review"))
	s.until("the whole task", func() bool {
		return slices.ContainsFunc(collector.Spans(), func(x tracetest.Span) bool { return x.Name == "task" })
	})
	s.stop()

	nonce := strings.TrimSuffix(first.WorkerID, "-1")
	root := trace.Of("default", nonce)
	spans := onceEach(t, collector.Spans())
	checkSpans(t, spans, root)
	checkPlan(t, spans, root, first, "stage CODE 1", "stage VALIDATE 1", "stage CODE 2")
	checkPlan(t, spans, root, second, "stage CODE 1")
	lines := s.logs.FilterMessage("transition").All()
	for _, line := range lines {
		if m := line.ContextMap(); m["issue"] != key || m["trace_id"] != trace.ID(root) {
			t.Errorf("the log line %v lacks the trace %s", m, trace.ID(root))
		}
	}
	if len(lines) < 8 {
		t.Errorf("%d transitions in the log", len(lines))
	}
}

func spanID(p wire.TraceParent) string {
	_, id, _ := strings.Cut(strings.TrimPrefix(p.String(), "00-"), "-")
	return strings.TrimSuffix(strings.TrimSuffix(id, "-01"), "-00")
}

// onceEach checks that spans that arrived twice are equal.
func onceEach(t *testing.T, all []tracetest.Span) map[string]tracetest.Span {
	t.Helper()
	spans := map[string]tracetest.Span{}
	for _, x := range all {
		if first, twice := spans[x.ID]; twice && !reflect.DeepEqual(first, x) {
			t.Errorf("%s came as\n%+v\nand as\n%+v", x.ID, first, x)
		}
		spans[x.ID] = x
	}
	return spans
}

// TestCollectorThatIsAway checks that a missing collector costs one line in the log and no time. A collector that
// accepts connections and never answers delays the end by two seconds.
func TestCollectorThatIsAway(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	asked := make(chan struct{}, 64)
	silent := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-hangs }))
	t.Cleanup(func() { close(hangs); silent.Close() })
	for name, endpoint := range map[string]string{"nobody": "http://127.0.0.1:9", "silent": silent.URL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
			s.config.Telemetry.OTLPEndpoint = endpoint
			key := s.github.CreateIssue(repo, "octocat", "Work on", "", "agent-task")
			s.start()
			s.until("review", s.labelled(key, "agent-review"))
			if name == "silent" {
				<-asked
			} else {
				s.until("said", func() bool {
					return s.logs.FilterMessageSnippet("could not export traces").
						Len() > 0
				})
			}
			began := time.Now()
			s.stop()
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("the end took %s", took)
			}
			if n := s.logs.FilterMessageSnippet("could not export traces").Len(); n > 1 {
				t.Errorf("the log reports the unreachable collector %d times", n)
			}
			lost := s.logs.FilterMessageSnippet("traces lost, because the collector did not accept them").All()
			if len(lost) != 1 || lost[0].ContextMap()["spans"].(int64) < 5 {
				t.Errorf("the log reports the loss as %v", lost)
			}
		})
	}
}
