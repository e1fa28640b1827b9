package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

func statsOf(t *testing.T, dir string) Stats {
	t.Helper()
	return document[Stats](t, dir, "state/acme_widgets_21/stats.json")
}

// edit changes stats.json like a person with an editor. It saves the whole file some time after the director.
func edit(t *testing.T, dir string, change func(string) string) string {
	t.Helper()
	path := filepath.Join(dir, "state/acme_widgets_21/stats.json")
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(change(string(before))), 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return path
}

func setPaid(from, to int) func(string) string {
	return func(s string) string {
		return strings.Replace(s, fmt.Sprintf("  \"paid_calls_used\": %d,\n  \"paid_call_budget\"", from),
			fmt.Sprintf("  \"paid_calls_used\": %d,\n  \"paid_call_budget\"", to), 1)
	}
}

func TestStats(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	task := someTask()
	task.See("sig:1", "transient", 1, noon)
	task.See("sig:1", "transient", 2, noon.Add(time.Minute))
	task.StagesCompleted, task.DependsOn = []string{"CODE"}, []string{"acme/widgets#20"}
	w.Task(task, NewLastFailure(task, someFailure(), "the worker's line", "tail"))
	closed(t, w)
	s := statsOf(t, dir)
	seen := s.Signatures["sig:1"]
	if seen.Count != 2 || seen.Class != "transient" || !seen.FirstSeen.Equal(noon) ||
		!seen.LastSeen.Equal(noon.Add(time.Minute)) {
		t.Errorf("signature: %+v", seen)
	}
	if fmt.Sprint(s.StagesCompleted, s.DependsOn) != "[CODE] [acme/widgets#20]" || s.PaidCallsUsed != 4 ||
		s.Iterations.Used != 7 || s.State != "Blocked" {
		t.Errorf("%+v", s)
	}
	if s.Edited() {
		t.Error("the number from the director counts as edited")
	}
	l := document[LastFailure](t, dir, "state/acme_widgets_21/last_failure.json")
	if l.Task != issue || l.Message != "the worker's line" || l.Phase != "Blocked" || l.Milestone != "VALIDATE" ||
		l.Action != "escalate" || l.Count != 1 {
		t.Errorf("%+v", l)
	}
}

func TestSignaturesAreBounded(t *testing.T) {
	s := Stats{Signatures: map[string]Seen{}}
	for i := range 1000 {
		s.See(fmt.Sprintf("sig:%04d", i), "", 1, noon.Add(time.Duration(i)*time.Second))
	}
	if _, newest := s.Signatures["sig:0999"]; len(s.Signatures) != maxSignatures || !newest {
		t.Errorf("%d signatures, newest kept: %v", len(s.Signatures), newest)
	}
}

// Only a change to paid_calls_used counts as an edit. A changed layout does not.
func TestWhatCountsAsAnEdit(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	w.Task(someTask(), nil)
	closed(t, w)
	whole := text(t, dir, "state/acme_widgets_21/stats.json")
	for _, c := range []struct {
		name   string
		change func(string) string
		edited bool
		calls  int
	}{
		{"nothing", func(s string) string { return s }, false, 4},
		{"layout", func(s string) string {
			return "\ufeff" + strings.ReplaceAll(strings.ReplaceAll(s, "\n", "\r\n"), "  ", "\t")
		}, false, 4},
		{"title", func(s string) string { return strings.Replace(s, "Parse dates", "x", 1) }, false, 4},
		{"up", setPaid(4, 5), true, 5},
		{"to zero", setPaid(4, 0), true, 0},
		{"from nothing", func(string) string { return `{"paid_calls_used": 0}` }, true, 0},
		{"written by an earlier version", func(string) string {
			return `{"paid_calls_used": 2, "written": {"paid_calls_used": 9, "sha256": "676d"}}`
		}, true, 2},
	} {
		if err := os.WriteFile(filepath.Join(dir, "state/acme_widgets_21/stats.json"), []byte(whole),
			0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadStats(edit(t, dir, c.change))
		if err != nil || s.Edited() != c.edited || s.PaidCallsUsed != c.calls {
			t.Errorf("%s: edited %v, %d calls, %v", c.name, s.Edited(), s.PaidCallsUsed, err)
		}
	}
}

var corrupt = []struct{ name, text, says string }{
	{"empty", "", "unexpected end"},
	{"cut", `{"paid_calls_used": 4, "stages`, "unexpected end"},
	{"second line", "{\n\"paid_calls_used\": 4,,\n}", "line 2"},
	{"nothing in it", "{}", "paid_calls_used is missing"},
	{"null", `{"paid_calls_used": null}`, "missing"},
	{"null all", `null`, "missing"},
	{"list", "[]", "array"},
	{"text", `{"paid_calls_used": "0"}`, "string"},
	{"negative", `{"paid_calls_used": -1}`, "between 0 and"},
	{"huge", `{"paid_calls_used": 1e300}`, "1e300"},
	{"above all", `{"paid_calls_used": 1000000001}`, "between 0 and"},
	{"half", `{"paid_calls_used": 0.5}`, "0.5"},
	{"zeros", "\x00\x00\x00", "invalid character"},
	{"10 MB", strings.Repeat("x", 10<<20), "larger than any file"},
}

// An unreadable counter is an error, never zero, and can be set aside.
func TestReadStats(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "stats.json")
	if _, err := ReadStats(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, c := range corrupt {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadStats(path); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		aside, err := SetAside(path)
		if err != nil || exists(path) || text(t, aside) != c.text {
			t.Errorf("%s: set aside as %s, %v", c.name, aside, err)
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadStats(path); err == nil || errors.Is(err, ErrCorrupt) {
		t.Errorf("a folder: %v", err)
	}
}

func FuzzParseStats(f *testing.F) {
	for _, c := range corrupt[:len(corrupt)-1] {
		f.Add([]byte(c.text))
	}
	f.Add(
		[]byte(`{"paid_calls_used":4,"signatures":{"a":{"count":1,"first_seen":"2026-11-21T12:00:00Z"}},"written":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseStats(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) || s.PaidCallsUsed != 0 {
				t.Fatal(err)
			}
			return
		}
		if s.PaidCallsUsed < 0 || s.PaidCallsUsed > maxCalls {
			t.Fatal(s.PaidCallsUsed)
		}
	})
}

func TestNewFailure(t *testing.T) {
	f := NewFailure(
		recovery.Finding{
			Reason: recovery.RateLimited, Cause: "429", Rule: "r", Confidence: 0.9, Signature: "sig:1",
			RetryAfter: 30*time.Second + 123_456,
		},
		recovery.Verdict{
			Action: recovery.WaitReset, Delay: 31 * time.Second, Why: "w", Row: "director.rate_limited",
			Veto: "v", Ask: "a",
		})
	if f.Reason != "rate_limited" || f.Class != "rate_limit" || !f.Retryable || f.RetryAfterSeconds != 30 ||
		f.DelaySeconds != 31 || f.Action != "wait_reset" || f.Veto != "v" || f.Ask != "a" {
		t.Errorf("%+v", f)
	}
}

// Old state is removed, except for running tasks of any age.
func TestStateRetention(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	for n, state := range []string{"Done", "Running", "Blocked", "Released"} {
		task := someTask()
		task.Issue, task.State = fmt.Sprintf("a/b#%d", n+1), state
		w.Task(task, nil)
	}
	closed(t, w)
	w, _ = reopened(t, dir, Options{Now: func() time.Time { return noon.Add(31 * 24 * time.Hour) }}, realDisk)
	closed(t, w)
	left, _ := filepath.Glob(filepath.Join(dir, "state", "*"))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if fmt.Sprint(left) != "[a_b_2 a_b_3]" {
		t.Errorf("left: %v", left)
	}
}
