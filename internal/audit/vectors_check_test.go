package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
	"retake/internal/recovery/signature"
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

// inOrder returns the first line that does not follow the ones before it.
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
		if err := os.Mkdir(filepath.Join(dir, eventsFile), 0o700); err != nil { // no mode keeps root out; this does
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

// failedTasksOf makes n failed tasks.
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

// checkReportHeader: where the origin program prints something else than the document, the document holds.
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

// failureFields says which key of last_failure.json holds what the founding document wants to be recorded.
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

// checkFiles: the document keeps one folder per task, we keep one per kind: the task's name stands behind the
// first part.
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
	got := LevelOf(v.num("blocked_phases"), v.num("blocked_milestones"), v.num("blocked_tasks"))
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
	got := ImpactOf(deps, v.word("failed"))
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
		return notOurs // a failure is the policy's; what a run does about it at its end is here
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

// tasksOnDisk writes one task for each outcome, and returns what the report counts.
func tasksOnDisk(t *testing.T, outcomes []string, change func(int, *Stats)) ReportData {
	w, dir, _ := opened(t, Options{})
	for i, outcome := range outcomes {
		task := someTask()
		task.Issue = fmt.Sprintf("a/b#%d", i+1)
		task.State = map[string]string{"ok": "Done", "fail": "Blocked", "wait": "Queued"}[outcome]
		change(i, &task)
		if outcome == "fail" {
			w.Task(task, NewLastFailure(task, someFailure(), "", ""))
		} else {
			w.Task(task, nil)
		}
	}
	closed(t, w)
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s.Report(ReportOptions{})
}

func checkBacklog(t *testing.T, v vector) string {
	d := tasksOnDisk(t, strs(v.Input["task_outcomes"]), func(int, *Stats) {})
	want, _ := v.Expected["required_by_seed"].(map[string]any)
	for key, got := range map[string]int{"attempted": d.Total, "failed": len(d.Failed), "completed": d.Completed} {
		if want[key] != float64(got) {
			return fmt.Sprintf("%s %d, want %v", key, got, want[key])
		}
	}
	return ""
}

func checkBlockedDependency(t *testing.T, _ vector) string {
	d := tasksOnDisk(t, []string{"fail", "wait"}, func(i int, task *Stats) {
		if i == 1 {
			task.DependsOn = []string{"a/b#1"}
		}
	})
	if len(d.Failed) != 1 || len(d.Skipped) != 1 || d.Skipped[0].ID != "a/b#2" {
		return fmt.Sprintf("failed %v, skipped %v", d.Failed, d.Skipped)
	}
	return ""
}

var utcSeconds = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)

// checkStatsAfterTriage looks at what is counted and in which form. Which signature a text has is the
// classifier's business. A corrupt file, which the origin program silently takes for zero, must be an error
// here.
func checkStatsAfterTriage(t *testing.T, v vector) string {
	var task Stats
	if before := v.Input["before"]; before != nil {
		data, _ := json.Marshal(before)
		if s, isText := before.(string); isText {
			data = []byte(s)
			if _, err := parseStats(data); !errors.Is(err, ErrCorrupt) {
				return fmt.Sprintf("read as %v", err)
			}
			return ""
		}
		var err error
		if task, err = parseStats(data); err != nil {
			return err.Error()
		}
	}
	w, dir, _ := opened(t, Options{})
	task.Issue = issue
	if v.word("stderr") != "" {
		name := signature.Of(recovery.Evidence{Stderr: v.word("stderr")}, recovery.NetworkTransient)
		for n := range max(v.num("times"), 1) {
			task.See(name, "transient", n+1, noon)
		}
	}
	w.Task(task, nil)
	closed(t, w)
	got := document[map[string]any](t, dir, "state/acme_widgets_21/stats.json")
	for _, key := range []string{"paid_calls_used", "stages_completed"} {
		if want, ok := v.Expected[key]; ok && !reflect.DeepEqual(got[key], want) {
			return fmt.Sprintf("%s = %v, want %v", key, got[key], want)
		}
	}
	want, _ := v.Expected["signatures"].(map[string]any)
	signatures, _ := got["signatures"].(map[string]any)
	if len(want) != len(signatures) {
		return fmt.Sprintf("%d signatures, want %d", len(signatures), len(want))
	}
	for _, w := range want {
		for name, g := range signatures {
			w, g := w.(map[string]any), g.(map[string]any)
			if !strings.HasPrefix(name, "sig:") || g["count"] != w["count"] || g["class"] != w["class"] ||
				!utcSeconds.MatchString(fmt.Sprint(g["first_seen"])) ||
				!utcSeconds.MatchString(fmt.Sprint(g["last_seen"])) {
				return fmt.Sprintf("%s: %v, want %v", name, g, w)
			}
		}
	}
	return ""
}

// checkSeedBudget looks at what stats.json says; that every call is charged is the meters' business.
func checkSeedBudget(t *testing.T, v vector) string {
	w, dir, _ := opened(t, Options{})
	task := someTask()
	task.PaidCallBudget, task.PaidCallsUsed = 10, 9
	w.Task(task, nil)
	switch {
	case v.word("event") == "any wrapper invocation, also failed":
		task.PaidCallsUsed = 10
		w.Task(task, NewLastFailure(task, someFailure(), "", ""))
		flushed(w)
		if got := statsOf(t, dir).PaidCallsUsed; got != 10 {
			return fmt.Sprintf("%d after one more than 9", got)
		}
	case v.word("paid_calls_used") != "":
		for used, want := range map[int]bool{9: true, 10: false, 11: false} {
			if (BudgetRow{PaidCalls: used, PaidBudget: 10}).Allowed() != want {
				return fmt.Sprintf("%d of 10: allowed %v", used, !want)
			}
		}
	case strings.Contains(v.word("event"), "manual edit"):
		task.PaidCallsUsed = 10
		w.Task(task, nil)
		flushed(w)
		edit(t, dir, setPaid(10, 0))
		s, err := Load(dir)
		if err != nil || !s.Budget()[0].Allowed() || !s.Tasks[0].Edited() || s.Tasks[0].PaidCallsUsed != 0 {
			return fmt.Sprintf("%v, %+v", err, s.Tasks)
		}
	default:
		return "not understood"
	}
	return ""
}

func checkPaidBudget(_ *testing.T, v vector) string {
	if _, ok := v.Input["paid_calls_used"]; !ok {
		return notOurs
	}
	r := BudgetRow{PaidCalls: v.num("paid_calls_used"), PaidBudget: v.num("paid_call_budget")}
	if want := v.Expected["allowed"]; r.Allowed() != want {
		return fmt.Sprintf("allowed %v, want %v", r.Allowed(), want)
	}
	return ""
}
