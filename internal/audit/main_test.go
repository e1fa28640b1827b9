package audit

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const issue = "acme/widgets#21"

// opened returns a writer in a temporary directory, and its log.
func opened(t *testing.T, o Options) (*Writer, string, *observer.ObservedLogs) {
	t.Helper()
	dir := t.TempDir()
	w, logs := reopened(t, dir, o, realDisk)
	return w, dir, logs
}

func reopened(t *testing.T, dir string, o Options, d disk) (*Writer, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	o.Log = zap.New(core)
	w := open(dir, o, d)
	t.Cleanup(func() { closed(t, w) })
	return w, logs
}

// closed waits until everything is written.
func closed(t *testing.T, w *Writer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// flushed waits until the queue is written. A full queue drops the request, so it repeats the request.
func flushed(w *Writer) {
	done := make(chan struct{})
	var once sync.Once
	for {
		w.put("", 0, func() (string, error) { once.Do(func() { close(done) }); return "", nil })
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func text(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func document[T any](t *testing.T, path ...string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text(t, path...)), &v); err != nil {
		t.Fatalf("%v: %v", path, err)
	}
	return v
}

// lines reads a file in which every line must be a JSON object.
func lines(t *testing.T, path string) (out []map[string]any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var v map[string]any
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v in %q", path, err, s.Text())
		}
		out = append(out, v)
	}
	return out
}

func ptr[T any](v T) *T { return &v }

// someFailure returns a generic failure.
func someFailure() *Failure {
	return &Failure{
		ErrorID: "e1", Reason: "tests_failed", Class: "agent", Cause: "--- FAIL: TestParse (0.00s)", Rule: "go.test",
		Confidence: 0.95,
		Signature:  "sig:00c0ffee00c0ffee", Assertion: "build_failed", Action: "escalate",
		Why: "tests_failed: an unchanged attempt would fail the same way", Row: "director.tests_failed",
	}
}

// finish writes the end of an attempt, and keeps the other fields of its meta.json.
func finish(w *Writer, end Meta, o Output) {
	w.Output(end.AttemptID, o)
	w.Attempt(end.AttemptID, func(m *Meta) {
		m.Issue, m.Attempt, m.EndedAt, m.Outcome, m.Stage, m.Failure = end.Issue, end.Attempt, end.EndedAt, end.Outcome,
			end.Stage, end.Failure
		m.ExitCode, m.Usage, m.Tried, m.Notes, m.Title = end.ExitCode, end.Usage, end.Tried, end.Notes,
			cmp.Or(end.Title, m.Title)
		m.RunID, m.StartedAt, m.Output = cmp.Or(end.RunID, m.RunID), cmp.Or(end.StartedAt, m.StartedAt),
			cmp.Or(end.Output, m.Output)
	})
}

func someEnd(id string, n int) Meta {
	return Meta{
		AttemptID: id, Issue: issue, Attempt: n, Stage: "VALIDATE", Outcome: OutcomeFailed, ExitCode: ptr(1),
		EndedAt: wire.At(noon.Add(90 * time.Second)),
		Usage:   &wire.Usage{Tokens: 18230, CostUSD: 0.21, PaidCalls: 3, CacheHits: 1}, Failure: someFailure(),
		Tried: []string{"3 rounds of CODE and VALIDATE"}, Notes: []string{"program: go"},
	}
}

func someOutput() Output {
	return Output{
		WorkerLog: "worker says hello\n", BuildLog: "go build ./...\n",
		TestLog: "=== RUN TestParse\n--- FAIL: TestParse (0.00s)\n```\nFAIL\n",
		Patch:   "diff --git a/x.go b/x.go\n--- a/x.go\n+++ b/x.go\n@@ -1,2 +1,2 @@\n-old\n+new\n+more\n",
	}
}

func someTask() Stats {
	return Stats{
		Issue: issue, Title: "Parse dates", URL: "https://github.com/acme/widgets/issues/21", RunID: "run_1",
		State: "Blocked", Stage: "VALIDATE",
		Attempt: 1, UpdatedAt: wire.At(noon), PaidCallsUsed: 4, PaidCallBudget: 10,
		Iterations: Iterations{Used: 7, Refunded: 2, Budget: 50},
	}
}

// classify writes a line of telemetry about an attempt.
func classify(w *Writer, n int) {
	w.Classified(noon, "run_1", "CODE", Classified{
		Caller: "director", Issue: issue, Attempt: n,
		Failure: *someFailure(),
	})
}

func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("missing %q in:\n%s", w, text)
		}
	}
}

func contextWithTimeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
