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
	contains(t, text, "| Total Tasks | 0 |", "| Success Rate | n/a |", "None: nothing failed.")
	if ExitCode(d) != 0 || ReportWanted(d) {
		t.Error("nothing failed, but exit 1 or a report")
	}
	d.ContinueOnError = true
	if !ReportWanted(d) {
		t.Error("a run that continues on errors ends with a report")
	}
	if d.Aborted = "disk full"; ExitCode(d) != 1 {
		t.Error("an aborted run exits 0")
	}
	if _, err := Load(filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a missing directory was read")
	}
}

// The timeline shows a failure at the time of its verdict, because a delivery may fail long after the attempt.
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

// Load reports unreadable files without changing them.
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
	contains(t, text, "cannot read stats: ", "acme_widgets_4", "| Total Tasks | 10 |")
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

// Titles and messages come from outside. They cannot close a code block or open a heading.
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

// The question of the policy precedes the question of the reason. It appears once for all reasons with this question.
func TestAskOfThePolicy(t *testing.T) {
	text := Report(ReportData{Failed: []FailedTask{
		{ID: "a/b#1", ErrorType: "auth_error", Ask: "Split the\ntask."},
		{ID: "a/b#2", ErrorType: "unknown", Ask: "Split the task."},
		{ID: "a/b#3", ErrorType: "unknown"},
	}})
	contains(t, text, "1. **unknown, auth_error** (2 tasks): Split the task.\n   - a/b#", "2. **unknown** (1 task): ")
}

// Every recommendation is an action for a person.
func TestEveryReason(t *testing.T) {
	for _, about := range recovery.Reasons {
		text := Report(ReportData{Failed: []FailedTask{
			{ID: "a/b#1", ErrorType: string(about.Reason)},
			{ID: "a/b#2", ErrorType: string(about.Reason)},
		}})
		if strings.Count(text, about.Ask()) != 1 {
			t.Errorf("%s: the page has the instructions %d times", about.Reason, strings.Count(text, about.Ask()))
		}
	}
}

func TestRunReport(t *testing.T) {
	dir := fleet(t)
	var out bytes.Buffer
	code, err := RunReport(&out, dir, ReportOptions{Now: noon}, false, true)
	if err != nil || code != 1 || out.String() != text(t, dir, reportFile) {
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
		{filepath.Join(dir, "x"), "", errNoDirector},
		{filepath.Join(dir, reportFile), "", errNoDirector},
		{t.TempDir(), "", errNoDirector},
		{dir, "run_9", errNoRun},
		{dir, "run_", errNoRun},
	} {
		code, err := RunReport(&out, c.dir, ReportOptions{RunID: c.run}, false, true)
		if !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") || code != 2 || out.Len() > 0 ||
			exists(filepath.Join(c.dir, "x", reportFile)) {
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
