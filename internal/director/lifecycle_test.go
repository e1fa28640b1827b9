package director

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"retake/internal/bus/keys"
	"retake/internal/director/operator"
	"retake/internal/director/reports"
	"retake/internal/github/githubtest"
)

func TestSuccessIsDelivered(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	s.until("one comment that names the branch", func() bool {
		c := s.github.Issue(key).Comments
		return len(c) == 1 && strings.Contains(c[0].Body, "retake/1-a1")
	})
	s.until("checkout removed", func() bool {
		left, err := os.ReadDir(filepath.Join(s.config.Director.DataDir, "tasks"))
		return err == nil && len(left) == 0
	})
	h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir)
	if err != nil || !h.OK {
		t.Errorf("health %+v, %v; want a healthy director", h, err)
	}
	s.until("the snapshot shows the delivery", func() bool {
		v, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir)
		left := v.Meters[operator.MeterContentLeft]
		return err == nil && v.Meters[operator.MeterDelivered] == 1 && left > 0 && left < 500
	})
}

// TestBareReportOfAnOutsider checks that a bare report of the founding document counts like the worker's report, and
// counts once. After the attempt it has no effect.
func TestBareReportOfAnOutsider(t *testing.T) {
	t.Parallel()
	var once sync.Once
	fenced := make(chan string, 8)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		for {
			select {
			case why := <-a.stop:
				once.Do(func() { fenced <- why })
			case <-ctx.Done():
				return 1
			}
		}
	})
	key := s.github.CreateIssue(repo, "octocat", "Wait for ever", "", "agent-task")
	s.start()
	s.until("a running worker", func() bool {
		return s.runtime.running(key) != "" &&
			len(s.logs.FilterMessage("transition").FilterField(zap.String("event", "hello")).All()) == 1
	})
	worker := s.runtime.running(key)
	s.publish(worker, `"e-1"`)
	s.publish(worker, `"e-1"`)
	s.until("blocked", s.labelled(key, "agent-blocked"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"tests_failed"}) {
		t.Errorf("verdicts %q; want one, tests_failed", v)
	}
	if s.logs.FilterMessage(reports.PersonsWord).FilterField(zap.String("worker", worker)).Len() == 0 {
		t.Error("the log does not attribute the statement")
	}
	s.until("a question that attributes the statement", func() bool {
		return slices.ContainsFunc(s.github.Issue(key).Comments,
			func(c githubtest.Comment) bool { return strings.Contains(c.Body, "- "+reports.PersonsWord) })
	})
	s.until("an audit that attributes the statement", func() bool {
		found, _ := filepath.Glob(filepath.Join(s.config.Director.DataDir, "audits", worker+"*", "*"))
		return slices.ContainsFunc(found, func(name string) bool {
			data, _ := os.ReadFile(name)
			return strings.Contains(string(data), reports.PersonsWord)
		})
	})
	s.until("all labels moved, and the claim's comment points to the question, which is the last change", func() bool {
		e := s.github.Events(key)
		return !s.labelled(key, "agent-claimed")() && !s.labelled(key, "agent-task")() &&
			e[len(e)-1].Event == "comment_edited"
	})
	before := len(s.github.Events(key))
	s.publish(worker, `"e-2"`)
	s.until("fenced", func() bool {
		return s.logs.FilterMessage("fenced a worker without an attempt").Len() > 0
	})
	if after := len(s.github.Events(key)); after != before || len(s.verdicts(key)) != 1 {
		t.Errorf("a report of an attempt that is over changed something: %d → %d events, verdicts %q", before, after,
			s.verdicts(key))
	}

	s.github.RemoveLabel(key, "octocat", "agent-blocked")
	s.until("a second attempt", func() bool { return s.runtime.running(key) != "" && s.runtime.running(key) != worker })
	s.until("claimed again", s.labelled(key, "agent-claimed"))
}

// publish sends the seed document's object with the operator's credential, as docs/examples does.
func (s *harness) publish(worker, id string) {
	s.t.Helper()
	var operator keys.Person
	data, err := os.ReadFile(filepath.Join(s.config.Director.DataDir, "bus", "operator.json"))
	must(s.t, err)
	must(s.t, json.Unmarshal(data, &operator))
	nc, err := nats.Connect(operator.URL, nats.UserJWTAndSeed(operator.JWT, operator.Seed))
	must(s.t, err)
	defer nc.Close()
	body := `{"error_id":` + id + `,"worker_id":"` + worker + `","issue_number":1,"stage":"VALIDATE","attempt":1,
		"error_type":"tests_failed","is_transient":false,"should_retry":false,"escalate_to_human":true,
		"message":"Unit tests failed deterministically","exit_code":1,"last_stdout_tail":"...","last_stderr_tail":"..."}`
	_, err = nc.Request(operator.Prefix+".worker."+worker+".error", []byte(body), 5*time.Second)
	must(s.t, err)
}

// A killed worker is replaced on the same checkout, even if the director restarts in between.
func TestKilledWorkerAndEndedDirector(t *testing.T) {
	t.Parallel()
	first := make(chan string, 4)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Attempt == 1 {
			if err := os.WriteFile(filepath.Join(a.checkout, "half.txt"), nil, 0o644); err != nil {
				return 1
			}
			first <- a.plan.WorkerID
			<-ctx.Done()
			return 1
		}
		if _, err := os.Stat(filepath.Join(a.checkout, "half.txt")); err != nil {
			return 1
		}
		return a.work(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Half", "", "agent-task")
	s.start()
	worker := <-first
	s.stop()
	s.start()
	s.until("adopted", func() bool { return s.logs.FilterMessage("adopted a running container").Len() == 1 })
	s.runtime.killFromOutside(worker)
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"worker_lost"}) {
		t.Errorf("verdicts %q; want only worker_lost", v)
	}
	if s.runtime.begun() != 2 {
		t.Errorf("containers created: %q; want two", s.runtime.attempts())
	}
	if n := len(s.github.Issue(key).Comments); n != 1 {
		t.Errorf("%d comments, want a single edited comment", n)
	}
}

// A director reads a report that arrived during its absence.
func TestWorkEndsWhileTheDirectorIsAway(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan string, 1), make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		began <- a.plan.WorkerID
		<-goOn
		return a.work(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Later", "", "agent-task")
	s.start()
	<-began
	s.stop()
	close(goOn)
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if s.runtime.begun() != 1 || len(s.verdicts(key)) != 0 {
		t.Errorf("containers %q, verdicts %q; want one container and no failure", s.runtime.attempts(), s.verdicts(key))
	}
}

// A director that is killed while it hands over the plan leaves a worker that ends at once. The attempt is repeated
// without a charge.
func TestPlanThatEndedEarlyCostsNobody(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.runtime.early = func(a *fakeWorker) int {
		if a.plan.Attempt == 1 {
			return 10 // worker.ExitBadPlan
		}
		return 0
	}
	key := s.github.CreateIssue(repo, "octocat", "Half a plan", "", "agent-task")
	began := time.Now()
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"worker_lost"}) {
		t.Errorf("verdicts %q; want only worker_lost", v)
	}
	if took := time.Since(began); took > s.config.Timeouts.WorkerStart {
		t.Errorf("took %s, so the director did not see the worker's end", took)
	}
	for _, e := range s.logs.FilterMessage("verdict").All() {
		if m := e.ContextMap(); m["action"] != "restart_worker" {
			t.Errorf("verdict %v", m)
		}
	}
}
