package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bad input does not touch files outside the directory or cause a panic.
func TestBadInput(t *testing.T) {
	w, dir, _ := opened(t, Options{Redact: func(s string) string {
		if s == "panic" {
			panic("redactor")
		}
		return s
	}})
	inf := func() float64 { z := 0.0; return 1 / z }()
	for _, id := range []string{"", "..", "../../etc/x", "a/b", ".removing-x", "a\x00b", strings.Repeat("x", 4000)} {
		w.Attempt(id, func(m *Meta) { m.Issue = issue })
		w.Transition(Transition{AttemptID: id})
		w.Output(id, someOutput())
	}
	for _, key := range []string{
		"", "x", "../..#1", "a/../b#1", "a/b#0", "a/b#-1", "a/b#99999999999999999999",
		"a/b/c#1", "a\n/b#1",
	} {
		w.Task(Stats{Issue: key}, nil)
	}
	w.Attempt("p-1", func(m *Meta) { m.Title = "panic" })
	w.Attempt("p-2", func(*Meta) { panic("change") })
	w.Classified(noon, "run_1", "CODE", Classified{Failure: Failure{DelaySeconds: inf}})
	classify(w, 1)
	w.Task(Stats{Issue: "a/b#1", CostUSD: inf}, nil)
	w.Task(Stats{Issue: issue, Title: "\xff\x00"}, &LastFailure{Stack: "\xff"})
	w.Attempt("ok-1", func(m *Meta) { m.Issue = "nonsense" })
	w.Output("ok-1", Output{WorkerLog: "\xff\xfe\x00"})
	closed(t, w)
	if c := w.Counts(); c.WriteErrors == 0 || c.LastError == "" {
		t.Errorf("bad input is not counted: %+v", c)
	}
	if n := len(lines(t, filepath.Join(dir, "events.jsonl"))); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	for _, path := range []string{"audits/ok-1/meta.json", "state/acme_widgets_21/last_failure.json"} {
		if !json.Valid([]byte(text(t, dir, path))) {
			t.Errorf("%s is not JSON", path)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
		t.Errorf("the writer wrote outside the directory: %v", entries)
	}
}

func TestFoldersOfTasks(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct{ issue, folder string }{
		{"acme/widgets#21", "acme_widgets_21"},
		{"Acme/Widgets#21", "acme_widgets_21"},
		{"a/b_c#1", "a_b_c_1"},
		{"a_b/c#1", "a%5fb_c_1"},
		{"a/.github#7", "a_.github_7"},
		{"a/_#1", "a___1"},
	} {
		got, err := TaskFolder(c.issue)
		if err != nil || got != c.folder {
			t.Errorf("%s: %q, %v, want %q", c.issue, got, err, c.folder)
		}
		if back := issueOf(got); back != strings.ToLower(c.issue) {
			t.Errorf("%s → %s → %s", c.issue, got, back)
		}
		if other := seen[got]; other != "" && other != strings.ToLower(c.issue) {
			t.Errorf("%s and %s share a directory", other, c.issue)
		}
		seen[got] = strings.ToLower(c.issue)
	}
	for _, folder := range []string{"", "x", "a_b", "a_b_0", "_b_1", "A_b_1"} {
		if got := issueOf(folder); got != "" {
			t.Errorf("%q → %q", folder, got)
		}
	}
}

// TestOldFilesSayClaim checks that the assertion is read from its old key, claim, and kept when the attempt is
// rewritten.
func TestOldFilesSayClaim(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	folder := filepath.Join(dir, auditsDir, "k3v9qx2m-1")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	old := `{"schema_version":"retake-audit/v1","attempt_id":"k3v9qx2m-1","issue":"acme/widgets#21","attempt":1,"outcome":"failed","failure":{"reason":"unknown","claim":"tests_failed"}}`
	if err := os.WriteFile(filepath.Join(folder, metaFile), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(dir); err != nil || len(s.Attempts) != 1 || s.Attempts[0].Failure.Assertion != "tests_failed" {
		t.Errorf("%+v, %v; want the assertion", s, err)
	}
	w.Attempt("k3v9qx2m-1", func(*Meta) {})
	closed(t, w)
	if now := text(t, folder, metaFile); !strings.Contains(now, `"assertion": "tests_failed"`) ||
		strings.Contains(now, "claim") {
		t.Error(now)
	}
	contains(t, text(t, folder, summaryFile), "**The worker's assertion**: `tests_failed`")
}
