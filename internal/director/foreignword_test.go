package director

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/keys"
	"retake/internal/director/operator"
)

// foreign returns a client with the operator's credential.
func (s *harness) foreign() (*nats.Conn, string) {
	s.t.Helper()
	var person keys.Person
	file := filepath.Join(s.config.Director.DataDir, "bus", "operator.json")
	s.until("the operator's credential", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	data, err := os.ReadFile(file)
	must(s.t, err)
	must(s.t, json.Unmarshal(data, &person))
	nc, err := nats.Connect(person.URL, nats.UserJWTAndSeed(person.JWT, person.Seed))
	must(s.t, err)
	s.t.Cleanup(nc.Close)
	return nc, person.Prefix
}

// report sends a bare worker_error.v1 of a connection that was cut.
func (s *harness) report(nc *nats.Conn, prefix, worker, flags string) {
	s.t.Helper()
	body := `{"error_id":"foreign-1","worker_id":"` + worker + `","issue_number":77,"stage":"CODE","attempt":1,
		"error_type":"github_mcp_timeout",` + flags + `,
		"message":"May I use the staging account?","exit_code":1,"last_stdout_tail":"",
		"last_stderr_tail":"Error: read ECONNRESET"}`
	s.until("a stored report", func() bool { // the stream may not be there yet
		_, err := nc.Request(prefix+".worker."+worker+".error", []byte(body), 5*time.Second)
		return err == nil
	})
}

// TestAsksWhatAForeignReportAsks checks that a question follows the report, although the evidence alone would lead to a
// retry.
func TestAsksWhatAForeignReportAsks(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, _ *fakeWorker) int {
		<-ctx.Done()
		return 1
	})
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.until("a running worker", func() bool { return s.runtime.running(key) != "" })
	worker := s.runtime.running(key)
	nc, prefix := s.foreign()
	s.report(nc, prefix, worker, `"is_transient":true,"should_retry":true,"escalate_to_human":true`)
	if q := s.question(key); !strings.Contains(q, "May I use the staging account?") {
		t.Errorf("the question lacks the message:\n%s", q)
	}
	told, _ := json.Marshal(s.explained(key))
	for _, want := range []string{"director.escalate_to_human", "the evidence says otherwise", "it is for issue 77"} {
		if !strings.Contains(string(told), want) {
			t.Errorf("explain does not say %q: %s", want, told)
		}
	}
}

// TestAsksNothingAboutAWorkerWithoutAnAttempt checks that the report becomes a dead letter, and that its sender gets an
// answer.
func TestAsksNothingAboutAWorkerWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 1 })
	s.start()
	nc, prefix := s.foreign()
	dead, err := nc.SubscribeSync(prefix + ".dead.no_attempt")
	must(t, err)
	s.report(nc, prefix, "worker-3-1707600000", `"is_transient":true,"should_retry":true,"escalate_to_human":true`)
	m, err := dead.NextMsg(20 * time.Second)
	must(t, err)
	answers, err := nc.SubscribeSync(nats.NewInbox())
	must(t, err)
	body := strings.ReplaceAll(string(m.Data), "foreign-1", "foreign-2")
	asked := &nats.Msg{
		Subject: prefix + ".worker.worker-3-1707600000.error", Data: []byte(body),
		Header: nats.Header{"Retake-Answer": {answers.Subject}},
	}
	must(t, nc.PublishMsg(asked))
	answer, err := answers.NextMsg(20 * time.Second)
	if err != nil || !strings.Contains(string(answer.Data), "worker-3-1707600000 has no running attempt") {
		t.Errorf("the sender gets %v, %v", answer, err)
	}
	if why := m.Header.Get("Retake-Detail"); !strings.Contains(why, "worker-3-1707600000 has no running attempt") {
		t.Errorf("the dead letter says %q", why)
	}
}

// TestAsksToResumeAnAbortedRun checks that every view names the abort and the command that ends it.
func TestAsksToResumeAnAbortedRun(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{"agent": `echo "fatal: No space left on device" >&2; exit 1`}, code("agent"))
	s.config.Recovery.Preset = "prp"
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.question(key)
	s.until("an unhealthy director", func() bool {
		h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir)
		return err == nil && !h.OK && strings.Contains(h.Problem, "the policy aborted the run") &&
			strings.Contains(h.Problem, "director resume")
	})
	s.github.CreateIssue(repo, "octocat", "Draw", "", "agent-task")
	s.until("a task that waits for the operator", func() bool {
		now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir)
		data, _ := json.Marshal(now)
		return err == nil && strings.Contains(string(data), "since the policy aborted the run")
	})
	s.cancel(context.Canceled)
	s.cancel = nil
	if err := <-s.ended; !errors.Is(err, ErrTasksFailed) {
		t.Errorf("the run ended with %v", err)
	}
}
