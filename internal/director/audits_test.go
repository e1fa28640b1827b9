package director

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/record"
	"retake/internal/github/githubtest"
)

// failsToValidate plays the worker of the specification's example. Its agent has three rounds, and the test stays
// broken.
func failsToValidate(ctx context.Context, a *fakeWorker) int {
	must := func(err error) bool { return err == nil }
	if !must(os.WriteFile(filepath.Join(a.checkout, "parse.go"), []byte("package widgets\n"), 0o644)) {
		return 1
	}
	exit := 1
	const output = "=== RUN   TestParse\n    parse_test.go:14: want 2026-11-21, got 2026-21-11\n--- FAIL: TestParse " +
		"(0.00s)\nFAIL\n"
	e := wire.WorkerError{
		ErrorID: a.plan.WorkerID + "/VALIDATE-3", WorkerID: a.plan.WorkerID, AttemptID: a.plan.AttemptID,
		IssueNumber: a.plan.Issue.Number,
		Attempt:     a.plan.Attempt, Stage: wire.StageValidate, ErrorType: "tests_failed", EscalateToHuman: true,
		Tool: "go", ExitCode: &exit, FixRounds: 3,
		Message: "VALIDATE: go returned exit code 1: --- FAIL: TestParse (0.00s)", LastStdoutTail: output,
		Usage: &wire.Usage{Tokens: 18230, CostUSD: 0.21, PaidCalls: 10, CacheHits: 1},
	}
	if !must(a.client.Report(ctx, &e)) {
		return 1
	}
	// The director must get the report before it sees that the container ended. Either order is correct, but leads to
	// different texts.
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return 1
}

// exampleStages returns the stages of the specification's example.
func exampleStages() []config.Stage {
	return []config.Stage{
		{Name: "CODE", Agent: "claude-code", Model: "sonnet", Timeout: time.Minute},
		{Name: "VALIDATE", Run: []string{"go", "test", "./..."}, Timeout: time.Minute},
	}
}

// folderOf returns the directory of a task below state/ or outputs/.
func folderOf(t *testing.T, data, key string) string {
	t.Helper()
	path, err := audit.StatsPath(data, key)
	must(t, err)
	return filepath.Dir(path)
}

func readDocument[T any](t *testing.T, path string) (v T) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, json.Unmarshal(data, &v))
	return v
}

// TestARestartErasesNothing checks that the public records of a finished attempt survive a restart of the director.
func TestARestartErasesNothing(t *testing.T) {
	t.Parallel()
	s := newHarness(t, failsToValidate)
	s.config.Stages = exampleStages()
	key := s.github.CreateIssue(repo, "octocat", "Parse ISO dates", "", "agent-task")
	data := s.config.Director.DataDir
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	s.stop()
	read := func() (all map[string]string) {
		all = map[string]string{}
		store, err := audit.Load(data)
		must(t, err)
		for _, a := range store.Attempts {
			for _, name := range []string{"meta.json", "summary.md", "worker.log", "test.log", "patch.diff"} {
				text, err := os.ReadFile(filepath.Join(data, "audits", a.AttemptID, name))
				must(t, err)
				all[a.AttemptID+"/"+name] = string(text)
			}
		}
		return all
	}
	before := read()
	ready := s.logs.FilterMessage("state read").Len()
	s.start()
	s.until("the next director works", func() bool { return s.logs.FilterMessage("state read").Len() > ready })
	s.stop()
	after := read()
	if len(before) == 0 {
		t.Fatal("nothing was written")
	}
	for name, want := range before {
		if after[name] != want {
			t.Errorf("%s was\n%s\nand is\n%s", name, want, after[name])
		}
	}
	for _, want := range []string{"- program: go", "- **Exit code**: 1", "--- FAIL: TestParse"} {
		for name, text := range after {
			if strings.HasSuffix(name, "summary.md") && !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
}

// TestAuditsSayWhoWorkedAndHowFar checks that the audit has an attempt's agent and model, its finished stages, and
// the reporter of the failure.
func TestAuditsSayWhoWorkedAndHowFar(t *testing.T) {
	t.Parallel()
	s := newHarness(t, failsToValidate)
	s.config.Stages = exampleStages()
	key := s.github.CreateIssue(repo, "octocat", "Parse ISO dates", "", "agent-task")
	data := s.config.Director.DataDir
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	s.stop()
	store, err := audit.Load(data)
	must(t, err)
	if len(store.Attempts) != 1 || store.Attempts[0].Agent != "claude-code" || store.Attempts[0].Model != "sonnet" {
		t.Errorf("%+v; want the agent claude-code on sonnet", store.Attempts)
	}
	stats, err := audit.ReadStats(filepath.Join(folderOf(t, data, key), "stats.json"))
	must(t, err)
	if len(stats.StagesCompleted) != 1 || stats.StagesCompleted[0] != "CODE" {
		t.Errorf("completed: %q, want CODE", stats.StagesCompleted)
	}
	events, err := os.ReadFile(filepath.Join(data, "events.jsonl"))
	must(t, err)
	if !strings.Contains(string(events), `"caller":"stage"`) {
		t.Errorf("no stage failure in\n%s", events)
	}
}

// TestGitHubsFailuresLeaveEvents checks that the director's own failures at GitHub appear in the telemetry, with the
// failed part and the time of the next try. A poll appears once per outage, an effect once per postponement.
func TestGitHubsFailuresLeaveEvents(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	s.runtime.play = func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }
	data := s.config.Director.DataDir
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	down := githubtest.Fault{Status: http.StatusBadGateway, Times: 1000}
	must(t, s.github.Inject(down.On("POST", "^/graphql$")))
	events := func() (out []map[string]any) {
		text, err := os.ReadFile(filepath.Join(data, "events.jsonl"))
		if err != nil {
			return nil
		}
		for line := range strings.Lines(string(text)) {
			var e struct {
				Payload map[string]any `json:"payload"`
			}
			if json.Unmarshal([]byte(line), &e) == nil {
				out = append(out, e.Payload)
			}
		}
		return out
	}
	by := func(caller, issue string) func() bool {
		return func() bool {
			return slices.ContainsFunc(events(), func(e map[string]any) bool {
				return e["caller"] == caller && e["issue"] == issue && e["reason"] == "network_transient" &&
					e["retryable"] == true && e["action"] == "retry" && e["cause"] != ""
			})
		}
	}
	s.start()
	s.until("an event of the claim", by("claim", key))
	s.github.Repair()
	failed := func() int { return s.logs.FilterMessage("poll failed").Len() }
	must(t, s.github.Inject(down.On("GET", "/issues")))
	s.until("an event of the poll", by("poll", repo))
	s.until("three failed polls", func() bool { return failed() > 2 })
	s.github.Repair()
	s.stop()
	said := map[any]int{} // a failing server also closes the gate
	for _, e := range events() {
		if e["caller"] == "poll" {
			said[e["reason"]]++
		}
	}
	if said["network_transient"] != 1 || said["rate_limited"] > 1 {
		t.Errorf("events of polls in one outage: %v, want one of a reason; all: %v", said, events())
	}
}

// TestNoFileForPeopleShowsAToken puts a token into every field of a report and an issue, because anyone may write
// those. Each field must appear in a public file, and every token must be redacted. cmd/director has the tests of the
// log and of printed errors.
func TestNoFileForPeopleShowsAToken(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("012345", 6)
	exit := 1
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if os.WriteFile(filepath.Join(a.checkout, "half.txt"), []byte(token+"\n"), 0o644) != nil {
			return 1
		}
		return a.fails(ctx, wire.WorkerError{
			ErrorType: "tests_failed " + token, Tool: "go " + token, Message: "CODE: " + token + " said no",
			ExitCode: &exit, Signal: "SIGTERM " + token,
			LastStdoutTail: "--- FAIL: Test " + token + "\n", LastStderrTail: "GH_TOKEN=" + token + "\n",
			Question: "Is " + token + " yours?",
			Usage:    &wire.Usage{PaidCalls: 1},
		})
	})
	s.config.Recovery.ContinueOnError = true // writes ERROR_REPORT.md in any case
	data := s.config.Director.DataDir
	key := s.github.CreateIssue(repo, "octocat", "Print "+token, "My token is "+token, "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	s.cancel(context.Canceled)
	s.cancel = nil
	if err := <-s.ended; err != nil && !errors.Is(err, ErrTasksFailed) { // a question is no failure
		t.Fatal(err)
	}
	read := 0
	for _, name := range []string{"audits", "state", "outputs", "events.jsonl", "ERROR_REPORT.md"} {
		must(t, filepath.WalkDir(filepath.Join(data, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			read++
			if strings.Contains(string(text), token) {
				t.Errorf("%s shows the token:\n%s", path, text)
			}
			return err
		}))
	}
	if read < 10 {
		t.Errorf("%d files were read, want all of an attempt and its task", read)
	}
	for _, c := range s.github.Issue(key).Comments {
		if strings.Contains(c.Body, token) {
			t.Errorf("a comment shows the token:\n%s", c.Body)
		}
	}
}

// TestContinuingAfterErrorsIsSaid checks the messages at the start, in the log of each failure that would have ended
// the run, and in the report.
func TestContinuingAfterErrorsIsSaid(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
			return a.fails(ctx, wire.WorkerError{
				ErrorType: "auth_error", HTTPStatus: 401,
				Message: "CODE: invalid x-api-key", LastStderrTail: "401 Unauthorized: invalid x-api-key\n",
			})
		})
		s.config.Recovery.Preset, s.config.Recovery.ContinueOnError = "cortex", on // bad credentials are fatal here
		key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
		s.start()
		s.until("blocked", s.labelled(key, "agent-blocked"))
		s.cancel(context.Canceled)
		s.cancel = nil
		if err := <-s.ended; !errors.Is(err, ErrTasksFailed) {
			t.Fatal(err)
		}
		report, err := os.ReadFile(filepath.Join(s.config.Director.DataDir, "ERROR_REPORT.md"))
		must(t, err)
		begins, each, told := s.logs.FilterMessage(record.ContinuesText).Len(),
			s.logs.FilterMessage(record.ContinuedText).Len(),
			strings.Contains(string(report), "The run continued after 1 fatal failure")
		if on != (begins == 1) || on != (each == 1) || on != told {
			t.Errorf("continue_on_error = %v: %d lines at the start, %d of failures; in the report: %v\n%s", on, begins,
				each, told, report)
		}
		if aborted := strings.Contains(string(report), "**Aborted**"); aborted == on {
			t.Errorf("continue_on_error = %v, aborted %v", on, aborted)
		}
	}
}
