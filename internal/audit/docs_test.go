package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

const (
	specification  = "../../docs/specs/audits.md"
	exampleSummary = "../../docs/examples/audit/summary.md"
)

// TestSpecification compares the tables and examples of the specification with the code; -update writes them.
func TestSpecification(t *testing.T) {
	page := text(t, specification)
	before := page
	dir := example(t)
	summary := text(t, dir, "audits/k3v9qx2m-1/summary.md")
	if *update {
		if err := os.WriteFile(exampleSummary, []byte(summary), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text(t, exampleSummary) != summary {
		t.Errorf("%s differs (rewrite with -update), want:\n%s", exampleSummary, summary)
	}
	for name, content := range documented(t, dir) {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		i := strings.Index(page, begin)
		j := strings.Index(page, end)
		if i < 0 || j < i {
			t.Fatalf("%s has no part %q", specification, name)
		}
		i += len(begin)
		if page[i:j] != content && !*update {
			t.Errorf("part %q differs (rewrite with -update), want:\n%s", name, content)
		}
		page = page[:i] + content + page[j:]
	}
	if *update && page != before {
		if err := os.WriteFile(specification, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// documented renders the files that the specification quotes.
func documented(t *testing.T, dir string) map[string]string {
	block := func(kind, content string) string {
		return "```" + kind + "\n" + strings.TrimRight(content, "\n") + "\n```\n"
	}
	in := func(path string) string { return text(t, dir, path) }
	parts := map[string]string{
		"event":        block("json", in("events.jsonl")),
		"meta":         block("json", in("audits/k3v9qx2m-1/meta.json")),
		"last_failure": block("json", in("state/acme_widgets_21/last_failure.json")),
		"stats":        block("json", in("state/acme_widgets_21/stats.json")),
	}
	var table strings.Builder
	table.WriteString("| category | reasons |\n|---|---|\n")
	for _, c := range recovery.Categories {
		fmt.Fprintf(&table, "| %s |", c)
		for _, about := range recovery.Reasons {
			if about.Category == c {
				fmt.Fprintf(&table, " `%s`", about.Reason)
			}
		}
		table.WriteString(" |\n")
	}
	parts["categories"] = table.String()

	var shell bytes.Buffer
	budget := func(rows func(*Store) []BudgetRow, asJSON bool) {
		s, err := Load(dir)
		if err == nil {
			err = ShowBudget(&shell, rows(s), asJSON)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shell.WriteString("$ director budget show\n")
	budget((*Store).Budget, false)
	shell.WriteString("$ director budget show acme/widgets#21 --json\n")
	budget(func(s *Store) []BudgetRow { return s.Budget()[:1] }, true)
	shell.WriteString("$ director budget reset acme/widgets#21\n")
	budget(func(s *Store) []BudgetRow {
		row := s.Budget()[0]
		row.PaidCalls = 0
		return []BudgetRow{row}
	}, false)
	parts["budget"] = block("", shell.String())
	return parts
}

// exampleMoves lists the transitions of the failing task, by seconds.
var exampleMoves = []struct {
	after                    int
	from, to, on, means, why string
}{
	{0, "Claiming", "Starting", "claim_won", "The claim was won, and a worker is being started", ""},
	{2, "Starting", "Running", "hello", "The worker said hello", ""},
	{88, "Running", "Stopping", "final_report", "The worker sent its final report", ""},
	{
		89, "Stopping", "Blocked", "escalate", "Verdict: ask a person",
		"tests_failed: the change breaks a test; an unchanged attempt would fail the same way",
	},
}

// exampleOutput is the output of that task's attempt.
var exampleOutput = Output{
	TestLog: exampleLog,
	Patch:   "diff --git a/parse.go b/parse.go\n--- a/parse.go\n+++ b/parse.go\n@@ -1 +1,2 @@\n-a\n+b\n+c\n",
}

const exampleLog = "=== RUN   TestParse\n    parse_test.go:14: want 2026-11-21, got 2026-21-11\n" +
	"--- FAIL: TestParse (0.00s)\nFAIL\n"

// example is a run with one failed task and one successful task.
func example(t *testing.T) string {
	w, dir, _ := opened(t, Options{Now: func() time.Time { return noon.Add(time.Hour) }})
	const id, run = "k3v9qx2m-1", "run_20261121-095900Z"
	exit, over := 1, noon.Add(89*time.Second)
	f := NewFailure(
		recovery.Finding{
			Reason: recovery.TestsFailed, Cause: "--- FAIL: TestParse (0.00s)", Rule: "go.test",
			Confidence: 0.9, Signature: "sig:5f0c2b7a91d3e644",
		},
		recovery.Verdict{Action: recovery.Escalate, Why: "tests_failed: the change breaks a test; an unchanged " +
			"attempt would fail the same way", Row: "director.tests_failed"})
	f.ErrorID, f.Assertion, f.DecidedAt = id+"/VALIDATE-3", "tests_failed", wire.At(over)
	w.Attempt(id, func(m *Meta) {
		m.Issue, m.Title, m.URL, m.Attempt, m.RunID = issue, "Parse ISO dates",
			"https://github.com/acme/widgets/issues/21", 1, run
		m.Agent, m.Model, m.Image, m.Branch, m.StartedAt = "claude-code", "sonnet", "retake-dev:main", "retake/21-a1",
			wire.At(noon)
	})
	for _, move := range exampleMoves {
		w.Transition(Transition{
			At: wire.At(noon.Add(time.Duration(move.after) * time.Second)), AttemptID: id, Issue: issue, Attempt: 1,
			From: move.from, To: move.to, On: move.on, Means: move.means, Why: move.why,
		})
	}
	finish(w, Meta{
		AttemptID: id, Issue: issue, Attempt: 1, EndedAt: wire.At(over), Outcome: OutcomeFailed, Stage: "VALIDATE",
		ExitCode: &exit, Failure: f,
		Usage: &wire.Usage{Tokens: 18230, CostUSD: 0.21, PaidCalls: 10, CacheHits: 1},
		Tried: []string{"3 rounds of CODE and VALIDATE in attempt 1, each given the failure of the " +
			"previous round"},
		Notes: []string{"program: go", "exit code: 1"},
		Output: &StoredOutput{
			Path:   "outputs/acme_widgets_21/k3v9qx2m-1.jsonl.zst",
			SHA256: "5f0c2b7a91d3e6445f0c2b7a91d3e6445f0c2b7a91d3e6445f0c2b7a91d3e644", Bytes: 4211,
		},
	}, exampleOutput)
	w.Classified(over, run, "VALIDATE", Classified{
		Caller: "stage", Issue: issue, Attempt: 1, AttemptID: id, Failure: *f,
	})
	task := Stats{
		Issue: issue, Title: "Parse ISO dates", URL: "https://github.com/acme/widgets/issues/21", RunID: run,
		State: "Blocked", Stage: "VALIDATE",
		Attempt: 1, UpdatedAt: wire.At(over), PaidCallsUsed: 10, PaidCallBudget: 10, Iterations: Iterations{Budget: 50},
		Tokens: 18230, CostUSD: 0.21, Spent: Spent{10, 18230, 0.21}, StagesCompleted: []string{"CODE"},
	}
	task.See(f.Signature, string(recovery.TestsFailed), 1, over)
	last := NewLastFailure(task, f, "VALIDATE: go returned exit code 1: --- FAIL: TestParse (0.00s)", exampleLog)
	last.ExitCode, last.AttemptID = &exit, id
	w.Task(task, last)
	w.Task(Stats{
		Issue: "acme/widgets#22", Title: "Typo", RunID: run, State: "Done", Attempt: 2, UpdatedAt: wire.At(over),
		PaidCallsUsed: 2, PaidCallBudget: 10,
		Iterations: Iterations{Used: 1, Budget: 50}, CostUSD: 0.04,
	}, nil)
	closed(t, w)
	if !exists(filepath.Join(dir, "outputs/acme_widgets_21/_summary.md")) {
		t.Fatal("no summary")
	}
	return dir
}
