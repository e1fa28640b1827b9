package director

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"retake/internal/audit"
)

const auditsPage = "../../docs/specs/audits.md"

// documented returns an example of the specification, as a generated part of it.
func documentedExample(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(auditsPage)
	must(t, err)
	_, part, found := strings.Cut(string(page), "<!-- "+name+" -->\n")
	part, _, ended := strings.Cut(part, "<!-- /"+name+" -->")
	if !found || !ended {
		t.Fatalf("%s has no part %q", auditsPage, name)
	}
	_, part, _ = strings.Cut(part, "\n") // the fence
	return part[:strings.LastIndex(part, "```")]
}

// perRun are the example's values that differ from run to run. They must be present and not empty.
var perRun = []string{
	"path", "sha256", "bytes", "attempt_id", "issue", "url", "run_id", "branch", "started_at", "ended_at", "decided_at",
	"error_id", "signature", "task", "timestamp", "updated_at",
	"sessionId", "cycle", "first_seen", "last_seen",
}

// differences compares a document with its example. Keys and values must be equal, except for values that belong to a
// single run.
func differences(path string, want, got any) (out []string) {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return []string{path + ": not an object"}
		}
		if strings.HasSuffix(path, ".signatures") { // its key differs from run to run
			return differences(path+".*", one(want), one(got))
		}
		for key, value := range want {
			if is, ok := got[key]; !ok {
				out = append(out, path+"."+key+" is missing")
			} else if slices.Contains(perRun, key) {
				if (fmt.Sprint(value) == "") != (fmt.Sprint(is) == "") {
					out = append(out, fmt.Sprintf("%s.%s is %v, want one like %v", path, key, is, value))
				}
			} else {
				out = append(out, differences(path+"."+key, value, is)...)
			}
		}
		for key, value := range got {
			if _, ok := want[key]; !ok {
				out = append(out, fmt.Sprintf("%s.%s = %v is not in the example", path, key, value))
			}
		}
	case []any:
		if fmt.Sprint(want) != fmt.Sprint(got) {
			out = append(out, fmt.Sprintf("%s is %v, want %v", path, got, want))
		}
	default:
		if want != got {
			out = append(out, fmt.Sprintf("%s is %v, want %v", path, got, want))
		}
	}
	return out
}

func one(m map[string]any) any {
	for _, v := range m {
		return v
	}
	return nil
}

var happened = regexp.MustCompile(`^- [0-9:]{8} `)

// summaryShape returns the headings of a summary, its events, and the names of its fields.
func summaryShape(text string) (lines []string) {
	for line := range strings.Lines(text) {
		name, _, isField := strings.Cut(line, "**:")
		switch {
		case happened.MatchString(line):
			lines = append(lines, happened.ReplaceAllString(line, ""))
		case strings.HasPrefix(line, "- **Signal"): // the director may kill the played container before it ends itself
		case strings.HasPrefix(line, "## "):
			lines = append(lines, strings.TrimSpace(line))
		case isField && strings.HasPrefix(line, "- **"):
			lines = append(lines, name)
		}
	}
	return lines
}

// TestTheExamplesOfAuditsOccur checks that a director whose worker reports the failure of the specification's example
// writes the files that the specification shows.
func TestTheExamplesOfAuditsOccur(t *testing.T) {
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
	if len(store.Attempts) != 1 {
		t.Fatalf("%d attempts, want one", len(store.Attempts))
	}
	bundle := filepath.Join(data, "audits", store.Attempts[0].AttemptID)
	for name, path := range map[string]string{
		"meta":         filepath.Join(bundle, "meta.json"),
		"event":        filepath.Join(data, "events.jsonl"),
		"last_failure": filepath.Join(folderOf(t, data, key), "last_failure.json"),
		"stats":        filepath.Join(folderOf(t, data, key), "stats.json"),
	} {
		var want any
		must(t, json.Unmarshal([]byte(documentedExample(t, name)), &want))
		got := readDocument[map[string]any](t, path)
		switch name { // the director may kill the played container before it ends itself
		case "meta":
			delete(got, "signal")
		case "last_failure":
			got["signal"] = ""
		}
		for _, d := range differences(name, want, got) {
			t.Error(d)
		}
	}
	summary, err := os.ReadFile(filepath.Join(bundle, "summary.md"))
	must(t, err)
	shown, err := os.ReadFile("../../docs/examples/audit/summary.md")
	must(t, err)
	got, want := summaryShape(string(summary)), summaryShape(string(shown))
	if !slices.Equal(got, want) {
		t.Errorf("summary.md has\n%q\nthe example has\n%q\n%s", got, want, summary)
	}
	for _, want := range []string{
		"- **Agent**: claude-code sonnet",
		"- **Usage**: 18230 tokens, 10 paid calls, 1 cache hit, 0.21 USD", "- program: go", "1 file, 1 line added",
	} {
		if !strings.Contains(string(summary), want) {
			t.Errorf("no %q in\n%s", want, summary)
		}
	}
}

// TestWhatWaitsForAFailedTaskIsSkipped checks that the report shows skipped tasks and that last_failure.json of the
// failed task names them.
func TestWhatWaitsForAFailedTaskIsSkipped(t *testing.T) {
	t.Parallel()
	fail := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		<-fail
		return failsToValidate(ctx, a)
	})
	s.config.Stages = exampleStages()
	data := s.config.Director.DataDir
	first := s.github.CreateIssue(repo, "octocat", "Parse ISO dates", "", "agent-task")
	_, number, _ := strings.Cut(first, "#")
	second := s.github.CreateIssue(repo, "octocat", "Print them", "Blocked by #"+number, "agent-task")
	s.start()
	path, err := audit.StatsPath(data, second)
	must(t, err)
	s.until("the second waits for the first", func() bool {
		stats, err := audit.ReadStats(path)
		return err == nil && slices.Equal(stats.DependsOn, []string{first})
	})
	close(fail)
	s.until("blocked", s.labelled(first, "agent-blocked"))
	s.stop()
	last := readDocument[audit.LastFailure](t, filepath.Join(folderOf(t, data, first), "last_failure.json"))
	if !slices.Equal(last.BlockedDependencies, []string{second}) {
		t.Errorf("blocked_dependencies: %q, want %s", last.BlockedDependencies, second)
	}
	store, err := audit.Load(data)
	must(t, err)
	if d := store.Report(audit.ReportOptions{}); len(d.Skipped) != 1 || d.Skipped[0].ID != second ||
		len(d.Failed) != 1 {
		t.Errorf("%+v; want %s skipped and %s failed", d, second, first)
	}
}
