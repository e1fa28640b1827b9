package audit

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/bus/wire"
)

func TestBundle(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	w.Attempt("k21-1", func(m *Meta) {
		*m = Meta{
			Issue: issue, Title: "Parse dates", Attempt: 1, RunID: "run_1", Agent: "claude-code",
			Image:  "retake-dev:main",
			Action: "restart_worker", Why: "worker_lost: the worker was killed\nand more", Outcome: OutcomeRunning,
			StartedAt: wire.At(noon), URL: "https://github.com/acme/widgets/issues/21",
		}
	})
	for i, to := range []string{"Starting", "Running", "Stopping", "Blocked"} {
		w.Transition(Transition{
			At: wire.At(noon.Add(time.Duration(i) * time.Second)), AttemptID: "k21-1", Issue: issue,
			Attempt: 1, From: "x", To: to, On: "final_report",
		})
	}
	finish(w, someEnd("k21-1", 1), someOutput())
	closed(t, w)

	folder := filepath.Join(dir, "audits", "k21-1")
	m := document[Meta](t, folder, "meta.json")
	if m.Title != "Parse dates" || !m.StartedAt.Equal(noon) || m.Outcome != OutcomeFailed ||
		m.Failure.Rule != "go.test" || m.SchemaVersion != metaSchema {
		t.Errorf("meta.json lacks data of Begin or Finish: %+v", m)
	}
	for name, want := range map[string]string{
		"worker.log": "worker says hello", "build.log": "go build", "test.log": "FAIL: TestParse",
		"patch.diff": "+more",
	} {
		contains(t, text(t, folder, name), want)
	}
	if got := len(lines(t, filepath.Join(folder, "transitions.jsonl"))); got != 4 {
		t.Errorf("%d transitions, want 4", got)
	}
	golden(t, "summary.md", text(t, folder, "summary.md"))
	if got := text(t, dir, "outputs", "acme_widgets_21", "_summary.md"); got != text(t, folder, "summary.md") {
		t.Error("outputs/…/_summary.md is another summary")
	}
	index := document[Index](t, dir, "audits", "index.json")
	if len(index.Attempts) != 1 || index.Attempts[0].Reason != "tests_failed" ||
		index.Attempts[0].Action != "escalate" || index.Attempts[0].Bytes == 0 {
		t.Errorf("index.json: %+v", index)
	}
}

func TestOnlyTheOwnerReads(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	w.Attempt("k21-1", func(m *Meta) { m.Issue = issue })
	w.Transition(Transition{AttemptID: "k21-1", Issue: issue})
	finish(w, someEnd("k21-1", 1), someOutput())
	w.Task(someTask(), NewLastFailure(someTask(), someFailure(), "", "tail"))
	classify(w, 1)
	if err := WriteReport(dir, ReportData{}, func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	closed(t, w)
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if path == dir || err != nil {
			return err
		}
		info, err := e.Info()
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil || files != 13 {
		t.Errorf("%d files, want 13; %v", files, err)
	}
}

func TestNothingUnredacted(t *testing.T) {
	const secret = "hunter2-hunter2"
	w, dir, _ := opened(t, Options{Redact: func(s string) string {
		return strings.ReplaceAll(s, secret,
			"[REDACTED]")
	}})
	mask := w.o.Redact
	f := someFailure()
	f.Cause, f.Why, f.Signature = secret, secret, secret
	end := someEnd("k21-1", 1)
	end.Title, end.Failure, end.Tried, end.Notes = secret, f, []string{secret}, []string{secret}
	w.Transition(Transition{AttemptID: "k21-1", Issue: issue, Why: secret})
	finish(w, end, Output{secret, secret, secret, "diff a\n+" + secret})
	task := someTask()
	task.Title, task.DependsOn = secret, []string{secret}
	task.See(secret, "x", 1, noon)
	w.Task(task, NewLastFailure(task, f, secret, secret))
	w.Classified(noon, "run_1", secret, Classified{Issue: secret, Failure: *f})
	report := ReportData{Failed: []FailedTask{{ID: issue, Message: secret}}, Timeline: []TimelineEntry{{Cause: secret}}}
	if err := WriteReport(dir, report, mask); err != nil {
		t.Fatal(err)
	}
	closed(t, w)
	masked := 0
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if e.Type().IsRegular() {
			if s := text(t, path); strings.Contains(s, secret) {
				t.Errorf("%s holds the secret:\n%s", path, s)
			} else if strings.Contains(s, "[REDACTED]") {
				masked++
			}
		}
		return nil
	})
	if masked < 10 {
		t.Errorf("only %d files have a mask, so the test misses the others", masked)
	}
}

// A log is masked before it is cut, and keeps its end. A patch keeps its beginning, in whole lines.
func TestLongTextsAreCut(t *testing.T) {
	w, dir, _ := opened(t, Options{
		MaxText: 1000,
		Redact:  func(s string) string { return strings.ReplaceAll(s, "secretsecret", "[REDACTED]") },
	})
	b := someOutput()
	b.WorkerLog = strings.Repeat("secretsecret line of the worker\n", 5000) + "the end\n"
	b.Patch = "diff --git a/x b/x\n" + strings.Repeat("+secretsecret\n", 5000)
	w.Output("k21-1", b)
	closed(t, w)
	folder := filepath.Join(dir, "audits", "k21-1")
	log, patch := text(t, folder, "worker.log"), text(t, folder, "patch.diff")
	if len(log) > 1000 || !strings.HasSuffix(log, "the end\n") || !strings.HasPrefix(log, "…[") ||
		strings.Contains(log, "secret") {
		t.Errorf("worker.log of %d bytes: %q…", len(log), log[:60])
	}
	if len(patch) > 1000 || !strings.HasPrefix(patch, "diff --git") ||
		!strings.HasSuffix(patch, "\n# cut here: the patch exceeds the limit\n") {
		t.Errorf("patch.diff of %d bytes: …%q", len(patch), patch[len(patch)-80:])
	}
}

// A cut does not leave half a secret at its edge.
func TestCutsLeaveNoHalfSecrets(t *testing.T) {
	line := "secretsecret line of the worker\n"
	for most := 900; most < 900+2*len(line); most++ {
		b := newAttempts(t.TempDir(),
			Options{MaxText: most, Redact: func(s string) string {
				return strings.ReplaceAll(s, "secretsecret",
					"[REDACTED]")
			}}, realDisk)
		for _, got := range []string{b.tail(strings.Repeat(line, 5000)), b.head(strings.Repeat(line, 5000))} {
			if strings.Contains(got, "secret") || len(got) > most || len(got) < most/2 {
				t.Fatalf("at most %d bytes: %d bytes, %q", most, len(got), got)
			}
		}
	}
}

// Records of an earlier process survive a restart.
func TestAttemptAcrossRestarts(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	w.Transition(Transition{AttemptID: "k21-1", Issue: issue, Attempt: 1, From: "Claiming", To: "Starting"})
	finish(w, someEnd("k21-1", 1), someOutput())
	closed(t, w)
	w, _ = reopened(t, dir, Options{}, realDisk)
	w.Transition(Transition{AttemptID: "k21-1", Issue: issue, Attempt: 1, From: "Stopping", To: "Blocked"})
	w.Output("k21-1", Output{WorkerLog: "again\n"}) // the empty fields do not replace files
	w.Attempt("k21-1", func(m *Meta) { m.Title = "late" })
	closed(t, w)
	folder := filepath.Join(dir, "audits", "k21-1")
	if m := document[Meta](t, folder, "meta.json"); m.Outcome != OutcomeFailed || m.Title != "late" ||
		m.Issue != issue {
		t.Errorf("%+v", m)
	}
	if got := lines(t, filepath.Join(folder, "transitions.jsonl")); len(got) != 2 {
		t.Errorf("%d transitions, want 2", len(got))
	}
	contains(t, text(t, folder, "summary.md"), "late", "(Claiming → Starting)", "(Stopping → Blocked)", "again",
		"FAIL: TestParse", "`patch.diff`")
}

func TestRetention(t *testing.T) {
	var later atomic.Int64
	w, dir, _ := opened(t, Options{
		Now:  func() time.Time { return noon.Add(time.Duration(later.Load())) },
		Keep: Keep{Attempts: 3, Age: time.Hour, Bytes: 1 << 20},
	})
	add := func(n int, age time.Duration, outcome string) {
		finish(w, Meta{
			AttemptID: fmt.Sprintf("k-%d", n), Issue: issue, Attempt: n, Outcome: outcome,
			EndedAt: wire.At(noon.Add(-age)),
		}, Output{})
	}
	stay := func(want ...string) {
		t.Helper()
		w.put(auditsDir, 0, w.attempts.settle)
		flushed(w)
		var got []string
		for _, e := range document[Index](t, dir, "audits", "index.json").Attempts {
			got = append(got, e.AttemptID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("index: %v, want %v", got, want)
		}
		entries, _ := os.ReadDir(filepath.Join(dir, "audits"))
		if len(entries) != len(want)+1 {
			t.Errorf("%d entries on disk, want %d directories and the index", len(entries), len(want))
		}
	}
	add(1, 50*time.Minute, OutcomeRunning)
	add(2, 40*time.Minute, OutcomeOK)
	add(3, 30*time.Minute, OutcomeOK)
	stay("k-1", "k-2", "k-3")
	add(4, 20*time.Minute, OutcomeOK) // one too many, so the oldest ended attempt is removed
	stay("k-1", "k-3", "k-4")
	later.Store(int64(15 * time.Minute)) // the first attempt is now too old, even if it runs
	add(5, 10*time.Minute, OutcomeOK)
	stay("k-3", "k-4", "k-5")
	big := Output{WorkerLog: strings.Repeat("x\n", 1<<19-10_000)}
	// this attempt nearly fills the space
	finish(w, Meta{AttemptID: "k-6", Issue: issue, EndedAt: wire.At(noon), Outcome: OutcomeOK}, big)
	finish(w, Meta{AttemptID: "k-7", Issue: issue, EndedAt: wire.At(noon.Add(time.Second)), Outcome: OutcomeOK}, big)
	stay("k-7")
	closed(t, w)
}

// A crash leaves a directory that was being removed, an unfinished file, half a line, and an incomplete index.
func TestAfterACrash(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	w.Attempt("k21-1", func(m *Meta) { m.Issue = issue })
	w.Transition(Transition{AttemptID: "k21-1", Issue: issue})
	finish(w, someEnd("k21-2", 2), someOutput())
	classify(w, 1)
	closed(t, w)
	audits := filepath.Join(dir, "audits")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(audits, ".removing-k20-1"), 0o700))
	must(os.MkdirAll(filepath.Join(audits, "k19-1"), 0o700)) // an old directory without meta.json
	must(os.Chtimes(filepath.Join(audits, "k19-1"), noon, noon))
	must(os.WriteFile(filepath.Join(audits, "k21-1", "meta.json.tmp-12345"), []byte("{"), 0o600))
	must(os.WriteFile(filepath.Join(audits, "index.json"), []byte(`{"attempts":[`), 0o600))
	for _, path := range []string{
		filepath.Join(dir, "events.jsonl"),
		filepath.Join(audits, "k21-1", "transitions.jsonl"),
	} {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		must(err)
		_, err = f.WriteString(`{"half":`)
		must(err)
		must(f.Close())
	}

	w, _ = reopened(t, dir, Options{}, realDisk)
	w.Transition(Transition{AttemptID: "k21-1", Issue: issue})
	classify(w, 1)
	closed(t, w)
	if n := len(lines(t, filepath.Join(dir, "events.jsonl"))); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	if n := len(lines(t, filepath.Join(audits, "k21-1", "transitions.jsonl"))); n != 2 {
		t.Errorf("%d transitions, want 2", n)
	}
	if index := document[Index](t, audits, "index.json"); len(index.Attempts) != 2 {
		t.Errorf("index: %+v", index)
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if name := e.Name(); strings.Contains(name, ".removing") || strings.Contains(name, ".tmp-") || name == "k19-1" {
			t.Errorf("%s still exists", path)
		}
		return nil
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := text(t, path); got != want {
		t.Errorf("%s differs (rewrite with -update):\n%s", path, got)
	}
}
