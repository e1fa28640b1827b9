package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// fleet writes what a run of a day leaves: an outage over three tasks, a failed test, unknowns, a budget that
// is used up.
func fleet(t *testing.T) string {
	t.Helper()
	w, dir, _ := opened(t, Options{Now: func() time.Time { return noon.Add(2 * time.Hour) }})
	patches := map[int]string{4: "diff --git a/parse.go b/parse.go\n"}
	attempt := func(n, attempt int, after time.Duration, reason recovery.Reason, action, cause string) *Failure {
		f := NewFailure(recovery.Finding{
			Reason: reason, Cause: cause, Rule: "rule." + string(reason), Confidence: 0.9,
			Signature: "sig:" + cause[:3],
		},
			recovery.Verdict{Action: recovery.Action(action), Why: string(reason) + ": because", Row: "director." +
				string(reason)})
		finish(w, Meta{
			AttemptID: fmt.Sprintf("k%d-%d", n, attempt), Issue: fmt.Sprintf("acme/widgets#%d", n), Attempt: attempt,
			RunID: "run_1", Stage: "CODE",
			StartedAt: wire.At(noon.Add(after - time.Minute)), EndedAt: wire.At(noon.Add(after)),
			Outcome: OutcomeFailed, Failure: f,
		}, Output{Patch: patches[n]})
		return f
	}
	task := func(n int, state string, change func(*Stats) *LastFailure) {
		x := Stats{
			Issue: fmt.Sprintf("acme/widgets#%d", n), Title: fmt.Sprintf("Issue %d", n),
			URL:   fmt.Sprintf("https://github.com/acme/widgets/issues/%d", n),
			RunID: "run_1", State: state, Stage: "CODE", Attempt: 1, UpdatedAt: wire.At(noon.Add(time.Hour)),
			PaidCallsUsed: 2, PaidCallBudget: 10,
			Tokens: 1000, CostUSD: 0.25,
		}
		var last *LastFailure
		if change != nil {
			last = change(&x)
		}
		w.Task(x, last)
	}
	for n := 1; n <= 3; n++ {
		attempt(n, 1, time.Duration(n)*time.Minute, recovery.Overloaded, "retry", "529 Overloaded")
		task(n, "Done", nil)
	}
	tests := attempt(4, 1, 10*time.Minute, recovery.TestsFailed, "escalate",
		"--- FAIL: TestParse (0.00s)\nwant 1, got 2")
	task(4, "Blocked", func(x *Stats) *LastFailure {
		last := NewLastFailure(*x, tests, "", strings.Repeat("reading\n", 3)+"FAIL\tacme/widgets\n"+
			strings.Repeat("ok\tacme/other\n", 9))
		last.AttemptID, last.BlockedDependencies = "k4-1", []string{"acme/widgets#9"}
		return last
	})
	var unknown *Failure
	for a := 1; a <= 2; a++ {
		unknown = attempt(5, a, time.Duration(20+a)*time.Minute, recovery.Unknown, "retry", "???")
	}
	unknown = attempt(5, 3, 25*time.Minute, recovery.Unknown, "escalate", "???")
	task(5, "Blocked", func(x *Stats) *LastFailure {
		x.Attempt, x.PaidCallsUsed = 3, 10
		return NewLastFailure(*x, unknown, "", "")
	})
	build := attempt(6, 1, 30*time.Minute, recovery.BuildFailed, "escalate", "x.go:1: undefined: y")
	task(6, "Blocked", func(x *Stats) *LastFailure { return NewLastFailure(*x, build, "`quoted` ```fence```", "") })
	task(7, "Released", func(x *Stats) *LastFailure { // closed while it waited for the next attempt
		return NewLastFailure(*x, &Failure{Reason: "overloaded", Action: "retry"}, "", "")
	})
	task(8, "Released", func(x *Stats) *LastFailure {
		return NewLastFailure(*x, attempt(8, 1, 40*time.Minute, recovery.TestsFailed, "skip", "FAIL: TestX"), "", "")
	})
	task(9, "Queued", func(x *Stats) *LastFailure { x.DependsOn = []string{"acme/widgets#4"}; return nil })
	task(10, "Running", nil)
	task(11, "Queued", func(x *Stats) *LastFailure {
		x.RunID, x.DependsOn = "run_0",
			[]string{"acme/widgets#9"}
		return nil
	})
	closed(t, w)
	return dir
}

func TestReport(t *testing.T) {
	dir := fleet(t)
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := s.Report(ReportOptions{RunID: "run_1", ContinueOnError: true, Now: noon.Add(2 * time.Hour)})
	if d.Total != 10 || d.Completed != 3 || len(d.Failed) != 4 || d.GivenBack != 1 || d.Open != 1 ||
		len(d.Skipped) != 1 {
		t.Errorf("total %d, completed %d, failed %d, given back %d, open %d, skipped %v", d.Total, d.Completed,
			len(d.Failed), d.GivenBack, d.Open, d.Skipped)
	}
	if len(d.Incidents) != 1 || len(d.Incidents[0].Tasks) != 3 {
		t.Errorf("incidents: %+v", d.Incidents)
	}
	golden(t, "ERROR_REPORT.md", strings.ReplaceAll(Report(d), dir, "/var/lib/retake"))
	if all := s.Report(ReportOptions{}); all.Total != 11 {
		t.Errorf("of all runs: %d tasks, want 11", all.Total)
	}
	if ExitCode(d) != 1 || !ReportWanted(d) {
		t.Error("failed tasks, but exit 0")
	}
}

func TestNothingToReport(t *testing.T) {
	s, err := Load(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := s.Report(ReportOptions{Now: noon})
	text := Report(d)
	contains(t, text, "| Total Tasks | 0 |", "| Success Rate | 0.0% |", "None: nothing failed.")
	if ExitCode(d) != 0 || ReportWanted(d) {
		t.Error("nothing failed, but exit 1 or a report")
	}
	d.ContinueOnError = true
	if !ReportWanted(d) {
		t.Error("a run that goes on whatever happens ends with a report")
	}
	if d.Aborted = "disk full"; ExitCode(d) != 1 {
		t.Error("an aborted run exits 0")
	}
	if _, err := Load(filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a folder that is not there was read")
	}
}

// A failure stands in the timeline where it was decided: what an attempt handed in may fail long after the attempt.
func TestTheTimelineHasTheFailuresTime(t *testing.T) {
	w, dir, _ := opened(t, Options{Now: func() time.Time { return noon.Add(3 * time.Hour) }})
	for n, decided := range []time.Time{noon.Add(2 * time.Hour), noon.Add(time.Hour), {}} {
		f := someFailure()
		if !decided.IsZero() {
			f.DecidedAt = wire.At(decided)
		}
		finish(w, Meta{
			AttemptID: fmt.Sprintf("k%d-1", n), Issue: fmt.Sprintf("a/b#%d", n), Attempt: 1,
			EndedAt: wire.At(noon.Add(time.Duration(n) * time.Minute)), Outcome: OutcomeFailed, Failure: f,
		}, Output{})
	}
	closed(t, w)
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range s.Report(ReportOptions{}).Timeline {
		got = append(got, e.ID+" "+e.At.UTC().Format("15:04"))
	}
	want := []string{"a/b#2 " + noon.Add(2*time.Minute).UTC().Format("15:04"), "a/b#1 " +
		noon.Add(time.Hour).UTC().Format("15:04"), "a/b#0 " + noon.Add(2*time.Hour).UTC().Format("15:04")}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What cannot be read is said, and nothing is changed by looking.
func TestLoadChangesNothing(t *testing.T) {
	dir := fleet(t)
	for _, name := range []string{
		"state/acme_widgets_4/stats.json", "state/acme_widgets_5/last_failure.json",
		"audits/k6-1/meta.json",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := listing(t, dir)
	s, err := Load(dir)
	if err != nil || len(s.Problems) != 3 {
		t.Fatalf("%v, %v", err, s.Problems)
	}
	text := Report(s.Report(ReportOptions{}))
	contains(t, text, "cannot be read: ", "acme_widgets_4", "| Total Tasks | 10 |")
	if after := listing(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.Walk(dir, func(path string, i os.FileInfo, err error) error {
		fmt.Fprintln(&out, path, i.Size(), i.ModTime())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Titles and messages are somebody else's words: they end no code block and open no heading.
func TestReportIsSafe(t *testing.T) {
	text := Report(ReportData{Failed: []FailedTask{{
		ID: "a/b#1", Title: "x\n## Summary\n\x1b[31m", Message: "```\n## Recommendations\n````\n\xff",
		ErrorType: "a\nb", Phase: "\n# x", URL: "u\n# y",
	}}})
	headings := 0
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if n := len(line) - len(strings.TrimLeft(line, "`")); n >= 3 && strings.Trim(line, "`") == "" {
			switch fence {
			case "":
				fence = line
			case line:
				fence = ""
			}
			continue
		}
		if fence == "" && strings.HasPrefix(line, "#") {
			headings++
		}
	}
	if headings != 9 || fence != "" { // the title, seven sections, one task
		t.Errorf("%d headings, want 9; open fence %q:\n%s", headings, fence, text)
	}
}

func TestCommandsOfReports(t *testing.T) {
	for dir, want := range map[string]string{
		"": "director report", "/srv/a-b": "director report --dir /srv/a-b",
		"/srv/it's ours": `director report --dir '/srv/it'\''s ours'`,
	} {
		if got := (reportPage{ReportData{Dir: dir}}).Command(); got != want {
			t.Errorf("%s: %s", dir, got)
		}
	}
	if got := quoted("acme/widgets#5"); got != "acme/widgets#5" {
		t.Error(got)
	}
}

func TestReportIsBounded(t *testing.T) {
	d := ReportData{Total: 10_000}
	for i := range d.Total {
		id := fmt.Sprintf("a/b#%d", i)
		d.Failed = append(d.Failed, FailedTask{
			ID: id, ErrorType: recovery.Reasons[i%30].Ask(),
			Message: strings.Repeat("m", 5000),
		})
		d.Timeline = append(d.Timeline, TimelineEntry{ID: id, Reason: "unknown", Cause: strings.Repeat("c", 5000)})
	}
	if n := len(Report(d)); n > 1<<20 {
		t.Errorf("the report has %d bytes", n)
	}
}

// What the policy asks stands before what the reason asks, and is said once for all reasons that ask it.
func TestAskOfThePolicy(t *testing.T) {
	text := Report(ReportData{Failed: []FailedTask{
		{ID: "a/b#1", ErrorType: "auth_error", Ask: "Split the\ntask."},
		{ID: "a/b#2", ErrorType: "unknown", Ask: "Split the task."},
		{ID: "a/b#3", ErrorType: "unknown"},
	}})
	contains(t, text, "1. **unknown, auth_error** (2 tasks): Split the task.\n   - a/b#", "2. **unknown** (1 task): ")
}

// Every recommendation is something that a person can do.
func TestEveryReason(t *testing.T) {
	for _, about := range recovery.Reasons {
		text := Report(ReportData{Failed: []FailedTask{
			{ID: "a/b#1", ErrorType: string(about.Reason)},
			{ID: "a/b#2", ErrorType: string(about.Reason)},
		}})
		if strings.Count(text, about.Ask()) != 1 {
			t.Errorf("%s: what a person is asked stands there %d times", about.Reason, strings.Count(text, about.Ask()))
		}
	}
}

func TestIncidents(t *testing.T) {
	at := func(m, n int, reason recovery.Reason, signature string) TimelineEntry {
		return TimelineEntry{
			At: wire.At(noon.Add(time.Duration(m) * time.Minute)), ID: fmt.Sprintf("a/b#%d", n),
			Reason: string(reason), Signature: signature,
		}
	}
	for _, c := range []struct {
		name     string
		timeline []TimelineEntry
		want     string
	}{
		{"one task", []TimelineEntry{at(0, 1, recovery.Overloaded, "x"), at(1, 1, recovery.Overloaded, "x")}, ""},
		{"two tasks, different words", []TimelineEntry{
			at(0, 1, recovery.Overloaded, "x"),
			at(1, 2, recovery.Overloaded, "y"),
		}, "overloaded:2"},
		{"two tests", []TimelineEntry{at(0, 1, recovery.TestsFailed, "x"), at(1, 2, recovery.TestsFailed, "y")}, ""},
		{
			"the same test",
			[]TimelineEntry{at(0, 1, recovery.TestsFailed, "x"), at(1, 2, recovery.TestsFailed, "x")},
			"tests_failed:2",
		},
		{"no signature", []TimelineEntry{at(0, 1, recovery.TestsFailed, ""), at(1, 2, recovery.TestsFailed, "")}, ""},
		{"a day apart", []TimelineEntry{at(0, 1, recovery.Overloaded, ""), at(1440, 2, recovery.Overloaded, "")}, ""},
		{"two outages", []TimelineEntry{
			at(0, 1, recovery.Overloaded, ""), at(50, 2, recovery.Overloaded, ""), at(100, 3, recovery.Overloaded, ""),
			at(900, 1, recovery.Overloaded, ""), at(901, 2, recovery.Overloaded, ""),
		}, "overloaded:3 overloaded:2"},
	} {
		var got []string
		for _, i := range incidents(c.timeline) {
			got = append(got, fmt.Sprintf("%s:%d", i.Reason, len(i.Tasks)))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

func TestRunReport(t *testing.T) {
	dir := fleet(t)
	var out bytes.Buffer
	code, err := RunReport(&out, dir, ReportOptions{Now: noon}, false, true)
	if err != nil || code != 1 || out.String() != text(t, dir, ReportFile) {
		t.Errorf("exit %d, %v", code, err)
	}
	out.Reset()
	var d ReportData
	if code, err = RunReport(&out, dir, ReportOptions{}, true, false); err != nil || code != 1 ||
		json.Unmarshal(out.Bytes(), &d) != nil || d.Total != 11 {
		t.Errorf("exit %d, %v: %s", code, err, out.String())
	}
	out.Reset()
	for _, c := range []struct {
		dir, run string
		want     error
	}{
		{filepath.Join(dir, "x"), "", ErrNoDirector},
		{filepath.Join(dir, ReportFile), "", ErrNoDirector},
		{t.TempDir(), "", ErrNoDirector},
		{dir, "run_9", ErrNoRun},
		{dir, "run_", ErrNoRun},
	} {
		code, err := RunReport(&out, c.dir, ReportOptions{RunID: c.run}, false, true)
		if !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") || code != 2 || out.Len() > 0 ||
			exists(filepath.Join(c.dir, "x", ReportFile)) {
			t.Errorf("%s %s: exit %d, %v", c.dir, c.run, code, err)
		}
	}
	if _, err = RunReport(&out, dir, ReportOptions{RunID: "run_0"}, false, false); err != nil ||
		!strings.Contains(out.String(), "| Total Tasks | 1 |") {
		t.Errorf("a known run: %v", err)
	}
	idle := t.TempDir() // a director that has found nothing to do yet
	if err := os.WriteFile(filepath.Join(idle, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, err := RunReport(&out, idle, ReportOptions{}, false, false); err != nil || code != 0 {
		t.Errorf("exit %d, %v", code, err)
	}
}

func TestBudget(t *testing.T) {
	dir := fleet(t)
	rows := func() []BudgetRow {
		s, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s.Budget()
	}
	for _, c := range []struct {
		issue string
		want  string
	}{
		{"acme/widgets#5", "[acme/widgets#5]"},
		{"ACME/Widgets#5", "[acme/widgets#5]"},
		{"5", "[acme/widgets#5]"},
		{"#5", "[acme/widgets#5]"},
		{"99", "[]"},
	} {
		found, err := OnlyIssue(rows(), c.issue)
		var got []string
		for _, r := range found {
			got = append(got, r.Issue)
		}
		if fmt.Sprint(got) != c.want || errors.Is(err, ErrNoTask) != (c.want == "[]") {
			t.Errorf("%s: %v, %v", c.issue, got, err)
		}
	}
	if _, err := OnlyIssue([]BudgetRow{{Issue: "a/b#5"}, {Issue: "a/c#5"}}, "5"); !errors.Is(err, ErrWhichTask) ||
		errors.Is(err, ErrNoTask) {
		t.Errorf("the number of two issues: %v", err)
	}
	for state, want := range map[string]string{
		"Running": "no (budget)", "Backoff": "no (budget)",
		"Blocked": "no (blocked, budget)", "Done": "-", "Released": "-",
	} {
		used := BudgetRow{State: state, PaidCalls: 10, PaidBudget: 10}
		if got := used.mayRun(); got != want {
			t.Errorf("%s with nothing left: %q, want %q", state, got, want)
		}
	}
	if a, b := (BudgetRow{State: "Running"}).mayRun(), (BudgetRow{State: "Blocked"}).mayRun(); a != "yes" ||
		b != "no (blocked)" {
		t.Errorf("%q, %q", a, b)
	}
	row, _ := OnlyIssue(rows(), "5")
	if row[0].MayRun {
		t.Errorf("10 of 10, and may run: %+v", row[0])
	}
	path, err := StatsPath(dir, "Acme/widgets#5")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(setPaid(10, 0)(text(t, path))), 0o600); err != nil { // a person's edit
		t.Fatal(err)
	}
	if row, _ := OnlyIssue(rows(), "5"); !row[0].MayRun || !row[0].Edited || *row[0].Was != 10 {
		t.Errorf("%+v", row)
	}
	var out bytes.Buffer
	if err := ShowBudget(&out, rows()[3:5], false); err != nil {
		t.Fatal(err)
	}
	golden(t, "budget.txt", out.String())
	out.Reset()
	if err := ShowBudget(&out, rows()[4:5], true); err != nil ||
		!strings.Contains(out.String(), `"paid_calls_used":0,"paid_call_budget":10`) {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestImpact(t *testing.T) {
	for _, c := range []struct {
		name        string
		deps        map[string][]string
		blocked     string
		depth       int
		canContinue bool
		fromTask    string
	}{
		{"chain", map[string][]string{"A": nil, "B": {"A"}, "C": {"B"}, "D": nil}, "B C", 2, true, "A"},
		{"all wait", map[string][]string{"A": nil, "B": {"A"}, "C": {"B"}}, "B C", 2, false, "A"},
		{
			"diamond",
			map[string][]string{"A": nil, "B": {"A"}, "C": {"A"}, "D": {"B", "C"}, "E": {"D"}},
			"B C D E", 3,
			false, "A",
		},
		{"circle", map[string][]string{"A": {"C"}, "B": {"A"}, "C": {"B"}}, "B C", 2, false, "A"},
		{"itself", map[string][]string{"A": {"A"}}, "", 0, false, "A"},
		{"nobody", map[string][]string{"A": nil}, "", 0, false, "A"},
		{"stranger", map[string][]string{"A": nil}, "", 0, true, "Z"},
	} {
		got := ImpactOf(c.deps, c.fromTask)
		if strings.Join(got.Blocked, " ") != c.blocked || got.Depth != c.depth || got.CanContinue != c.canContinue {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
