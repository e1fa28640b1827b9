package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"retake/internal/recovery"
	"retake/internal/recovery/signature"
)

// tasksOnDisk writes one task per outcome, and returns the report's data.
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

// checkStatsAfterTriage checks the counters and their form. Signatures belong to the classifier. The original program
// silently reads a corrupt file as zero, which must be an error here.
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

// checkSeedBudget checks stats.json. Charging belongs to the meters.
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
