package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"retake/internal/bus/wire"
)

func (v vector) num(key string) int     { n, _ := v.Input[key].(float64); return int(n) }
func (v vector) flag(key string) bool   { b, _ := v.Input[key].(bool); return b }
func (v vector) word(key string) string { s, _ := v.Input[key].(string); return s }

func strs(v any) (out []string) {
	list, _ := v.([]any)
	for _, x := range list {
		out = append(out, fmt.Sprint(x))
	}
	return out
}

// inOrder checks that a text contains these lines in this order. It returns an error for the first missing line.
func inOrder(text string, want []string) string {
	at := 0
	all := strings.Split(text, "\n")
	for _, w := range want {
		i := slices.Index(all[at:], w)
		if i < 0 {
			return fmt.Sprintf("no line %q (behind those before it) in:\n%s", w, text)
		}
		at += i + 1
	}
	return ""
}

func checkTelemetry(t *testing.T, v vector) string {
	if v.word("write_fails") != "" {
		dir := t.TempDir()
		// Root ignores file modes, so a directory in place of the file makes the write fail.
		if err := os.Mkdir(filepath.Join(dir, eventsFile), 0o700); err != nil {
			t.Fatal(err)
		}
		w, logs := reopened(t, dir, Options{}, realDisk)
		classify(w, 1)
		closed(t, w)
		if want := v.Expected["writeErrors"]; float64(w.Counts().WriteErrors) != want || logs.Len() != 1 {
			return fmt.Sprintf("%d errors, %d lines in the log, want %v and 1", w.Counts().WriteErrors, logs.Len(),
				want)
		}
		return ""
	}
	e := Event{
		Type: "t", Timestamp: wire.At(noon), SessionID: "s", Stage: "CODE", Cycle: "c",
		Meta: map[string]string{"k": "v"}, Payload: "",
	}
	empty, _ := e.line(1 << 20)
	e.Payload = strings.Repeat("x", max(v.num("line_bytes")-len(empty), 0))
	line, err := e.line(v.num("max_line_bytes"))
	var got map[string]any
	if err != nil || json.Unmarshal(line, &got) != nil || len(line) > v.num("max_line_bytes") {
		return fmt.Sprintf("%d bytes, %v", len(line), err)
	}
	for _, key := range strs(v.Expected["envelope_kept"]) {
		if got[key] == nil {
			return key + " is gone"
		}
	}
	for _, key := range []string{"payload", "_truncated"} {
		if want, ok := v.Expected[key]; ok && !reflect.DeepEqual(got[key], want) {
			return fmt.Sprintf("%s = %v, want %v", key, got[key], want)
		}
	}
	return ""
}

// someFailedTasks returns n failed tasks.
func someFailedTasks(n int) (out []FailedTask) {
	for i := range n {
		out = append(out, FailedTask{
			ID: fmt.Sprintf("a/b#%d", i+1), Title: "t", ErrorType: "tests_failed",
			Message: "m",
		})
	}
	return out
}

func checkReportSummary(_ *testing.T, v vector) string {
	text := Report(ReportData{
		Total: v.num("total"), Completed: v.num("completed"),
		Failed: someFailedTasks(v.num("failures")),
	})
	return inOrder(text, strs(v.Expected["lines"]))
}

func checkReportSections(_ *testing.T, v vector) string {
	return inOrder(Report(ReportData{Total: 3, Failed: someFailedTasks(v.num("failures"))}),
		strs(v.Expected["in_order"]))
}

// checkReportHeader follows the document if the original program prints something else.
func checkReportHeader(_ *testing.T, v vector) string {
	text := Report(ReportData{Mode: v.word("mode"), ContinueOnError: v.flag("continue_on_error")})
	return inOrder(text, []string{"**Pipeline Mode**: " + v.word("mode"), fmt.Sprint(v.Expected["seed"])})
}

func checkReportHeading(_ *testing.T, v vector) string {
	text := Report(ReportData{Failed: []FailedTask{{ID: v.word("task_id"), Title: v.word("title")}}})
	return inOrder(text, []string{fmt.Sprint(v.Expected["seed"])})
}

func checkReportWhen(t *testing.T, v vector) string {
	d := ReportData{Failed: someFailedTasks(v.num("failures")), ContinueOnError: v.flag("continue_on_error")}
	if v.flag("fatal") {
		d.Aborted = "fatal"
	}
	dir := t.TempDir()
	if ReportWanted(d) {
		if err := WriteReport(dir, d, func(s string) string { return s }); err != nil {
			return err.Error()
		}
	}
	if want, _ := v.Expected["file_written"].(bool); exists(filepath.Join(dir, "ERROR_REPORT.md")) != want {
		return fmt.Sprintf("written: %v, want %v", !want, want)
	}
	return ""
}

func checkSeedReport(_ *testing.T, v vector) string {
	text := Report(ReportData{Failed: someFailedTasks(2)})
	for _, field := range strs(v.Expected["header"]) {
		if !regexp.MustCompile(`(?m)^\*\*` + field + `\*\*: \S`).MatchString(text) {
			return "no " + field + " in:\n" + text
		}
	}
	if line, ok := v.Expected["category_line"].(string); ok {
		if deviates := inOrder(text, []string{strings.Replace(line, "N tasks", "2 tasks", 1)}); deviates != "" {
			return deviates
		}
	}
	return inOrder(text, strs(v.Expected["sections"]))
}

// failureFields maps the required facts about a failure to the keys of last_failure.json.
var failureFields = map[string]string{
	"task id": "task", "task title": "title", "title": "title", "error type": "error_type", "type": "error_type",
	"message":       "message",
	"error message": "message", "stack": "stack", "stack trace": "stack", "timestamp": "timestamp", "phase": "phase",
	"milestone":       "milestone",
	"phase/milestone": "phase", "blocked dependencies": "blocked_dependencies", "dependencies": "blocked_dependencies",
}

func checkFailureRecord(t *testing.T, v vector) string {
	w, dir, _ := opened(t, Options{})
	w.Task(someTask(), NewLastFailure(someTask(), someFailure(), "m", "tail"))
	closed(t, w)
	key, ok := failureFields[v.word("field")]
	if !ok {
		return "which key is " + v.word("field") + "?"
	}
	if got := document[map[string]any](t, dir, "state/acme_widgets_21/last_failure.json")[key]; got == nil ||
		got == "" {
		return fmt.Sprintf("%s is %v", key, got)
	}
	return ""
}

// checkFiles compares file names. The requirements have one directory per task. We have one directory per kind, with
// the task as the second element.
func checkFiles(t *testing.T, v vector) string {
	w, dir, _ := opened(t, Options{})
	w.Task(someTask(), NewLastFailure(someTask(), someFailure(), "m", "tail"))
	finish(w, someEnd("k21-1", 1), someOutput())
	closed(t, w)
	for _, path := range v.Expected {
		kind, file, _ := strings.Cut(fmt.Sprint(path), "/")
		if !exists(filepath.Join(dir, kind, "acme_widgets_21", file)) {
			return fmt.Sprintf("no %v", path)
		}
	}
	return ""
}

func checkImpactLevel(_ *testing.T, v vector) string {
	got := levelOf(v.num("blocked_phases"), v.num("blocked_milestones"), v.num("blocked_tasks"))
	if want := v.Expected["level"]; string(got) != want {
		return fmt.Sprintf("%s, want %v", got, want)
	}
	return ""
}

func checkImpactAction(_ *testing.T, v vector) string {
	if got, want := Suggestion(Level(v.word("level")), v.flag("can_continue")), v.Expected["action"]; got != want {
		return fmt.Sprintf("%s, want %v", got, want)
	}
	return ""
}

func checkImpactGraph(_ *testing.T, v vector) string {
	deps := map[string][]string{}
	graph, _ := v.Input["deps"].(map[string]any)
	for task, on := range graph {
		deps[task] = strs(on)
	}
	got := impactOf(deps, v.word("failed"))
	for key, is := range map[string]any{"cascade_depth": float64(got.Depth), "can_continue": got.CanContinue} {
		if want, ok := v.Expected[key]; ok && want != is {
			return fmt.Sprintf("%s = %v, want %v", key, is, want)
		}
	}
	if want := strs(v.Expected["blocked"]); !slices.Equal(slices.Sorted(slices.Values(want)), got.Blocked) {
		return fmt.Sprintf("blocked %v, want %v", got.Blocked, want)
	}
	return ""
}

func checkExitCode(_ *testing.T, v vector) string {
	d := ReportData{Total: 1}
	if v.flag("has_failures") {
		d.Failed = someFailedTasks(1)
	}
	if ok, said := v.Input["success"].(bool); said && !ok && !v.flag("has_failures") {
		d.Aborted = "without success"
	}
	if got, want := ExitCode(d), v.Expected["exit"]; float64(got) != want {
		return fmt.Sprintf("exit %d, want %v", got, want)
	}
	return ""
}

func checkContinueOnError(_ *testing.T, v vector) string {
	want := fmt.Sprint(v.Expected["outcome"])
	var got string
	switch {
	case v.word("error") != "":
		return notOurs // the policy decides on a failure; this package only ends a run
	default:
		d := ReportData{ContinueOnError: v.flag("flag"), Failed: someFailedTasks(v.num("failed"))}
		exit := "exit zero"
		if ExitCode(d) != 0 {
			exit = "exit non-zero"
		}
		got = exit
		if ReportWanted(d) {
			got = "report written, " + exit
		}
	}
	if got != want {
		return fmt.Sprintf("%s, want %s", got, want)
	}
	return ""
}
