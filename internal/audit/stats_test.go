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

// edit changes a stats.json as a person would: the whole file is saved anew, a while after it was written.
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
		return strings.Replace(s, fmt.Sprintf("  \"paid_calls_used\": %d,\n  \"paid_call_budget\"", from), fmt.Sprintf("  \"paid_calls_used\": %d,\n  \"paid_call_budget\"", to), 1)
	}
}

func TestStats(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	task := someTask()
	task.Seen = &Sighting{Signature: "sig:1", Class: "transient"}
	task.StagesCompleted, task.DependsOn = []string{"CODE"}, []string{"acme/widgets#20"}
	w.Task(task)
	task.At, task.StagesCompleted, task.DependsOn = noon.Add(time.Minute), nil, nil
	task.LastFailure = NewLastFailure(someFailure(), "the worker's line", "tail")
	w.Task(task)
	flushed(w)
	s := statsOf(t, dir)
	seen := s.Signatures["sig:1"]
	if seen.Count != 2 || seen.Class != "transient" || !seen.FirstSeen.Equal(noon) || !seen.LastSeen.Equal(noon.Add(time.Minute)) {
		t.Errorf("signature: %+v", seen)
	}
	if fmt.Sprint(s.StagesCompleted, s.DependsOn) != "[CODE] [acme/widgets#20]" || s.PaidCallsUsed != 4 || s.Iterations.Used != 7 || s.State != "Blocked" {
		t.Errorf("%+v", s)
	}
	if _, edited := s.Edit(); edited || s.Touched() {
		t.Error("what the director wrote counts as edited")
	}
	l := document[LastFailure](t, dir, "state/acme_widgets_21/last_failure.json")
	if l.Task != issue || l.Message != "the worker's line" || l.Phase != "Blocked" || l.Milestone != "VALIDATE" || l.Action != "escalate" || l.Count != 1 {
		t.Errorf("%+v", l)
	}
	task.Seen, task.Succeeded, task.State, task.LastFailure = nil, true, "Done", nil
	w.Task(task)
	closed(t, w)
	if s := statsOf(t, dir); len(s.Signatures) != 0 || s.State != "Done" {
		t.Errorf("success does not clear the signatures: %+v", s)
	}
}

func TestSignaturesAreBounded(t *testing.T) {
	s := Stats{Signatures: map[string]Seen{}}
	for i := range 1000 {
		s.see(&Sighting{Signature: fmt.Sprintf("sig:%04d", i)}, noon.Add(time.Duration(i)*time.Second))
	}
	if _, newest := s.Signatures["sig:0999"]; len(s.Signatures) != mostSignatures || !newest {
		t.Errorf("%d signatures, newest kept: %v", len(s.Signatures), newest)
	}
	s.see(&Sighting{Signature: "sig:0999", Count: 7}, noon)
	if s.Signatures["sig:0999"].Count != 7 {
		t.Error("the caller's own count is not taken")
	}
}

// A person sets paid_calls_used; it is seen until it is taken, survives every write in between, and is taken once.
func TestEditIsHonouredOnce(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	task := someTask()
	task.PaidCallsUsed = 10
	w.Task(task)
	flushed(w)
	if got := w.Edits(); len(got) != 0 {
		t.Fatalf("nobody has edited anything: %v", got)
	}
	edit(t, dir, setPaid(10, 0))
	for range 2 { // seen, and seen again
		got := w.Edits()
		if len(got) != 1 || got[0].Issue != issue || got[0].PaidCallsUsed != 0 || got[0].Was < 10 {
			t.Fatalf("%+v", got)
		}
		task.PaidCallsUsed = 11 // the director goes on counting before it looks
		w.Task(task)
		flushed(w)
		if s := statsOf(t, dir); s.PaidCallsUsed != 0 || s.Written.PaidCallsUsed != 11 {
			t.Fatalf("the person's number was overwritten: %+v", s)
		}
	}
	if err := w.TakeEdit(w.Edits()[0]); err != nil {
		t.Fatal(err)
	}
	if got := w.Edits(); len(got) != 0 {
		t.Fatalf("taken, and seen again: %v", got)
	}
	task.PaidCallsUsed = 1
	w.Task(task)
	flushed(w)
	if s := statsOf(t, dir); s.PaidCallsUsed != 1 || len(w.Edits()) != 0 {
		t.Errorf("after the edit was taken the director's count does not hold: %+v", s)
	}
	edit(t, dir, setPaid(1, 0)) // a person who changes their mind between Edits and TakeEdit is heard
	e := w.Edits()[0]
	edit(t, dir, setPaid(0, 5))
	if err := w.TakeEdit(e); err != nil {
		t.Fatal(err)
	}
	if got := w.Edits(); len(got) != 1 || got[0].PaidCallsUsed != 5 || got[0].Was != 0 {
		t.Errorf("%+v", got)
	}
	closed(t, w)
	again, _ := reopened(t, dir, Options{}, realDisk) // and after a restart
	if got := again.Edits(); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// Only paid_calls_used is read; another layout of the same document is no edit at all.
func TestWhatCountsAsAnEdit(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	w.Task(someTask())
	closed(t, w)
	whole := text(t, dir, "state/acme_widgets_21/stats.json")
	for _, c := range []struct {
		name            string
		change          func(string) string
		edited, touched bool
	}{
		{"nothing", func(s string) string { return s }, false, false},
		{"layout", func(s string) string {
			return "\ufeff" + strings.ReplaceAll(strings.ReplaceAll(s, "\n", "\r\n"), "  ", "\t")
		}, false, false},
		{"title", func(s string) string { return strings.Replace(s, "Parse dates", "x", 1) }, false, true},
		{"up", setPaid(4, 5), true, true},
		{"to zero", setPaid(4, 0), true, true},
		{"from nothing", func(string) string { return `{"paid_calls_used": 0}` }, true, true},
	} {
		if err := os.WriteFile(filepath.Join(dir, "state/acme_widgets_21/stats.json"), []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadStats(edit(t, dir, c.change))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, edited := s.Edit(); edited != c.edited || s.Touched() != c.touched {
			t.Errorf("%s: edited %v, touched %v", c.name, edited, s.Touched())
		}
	}
	w, _ = reopened(t, dir, Options{}, realDisk)
	if got := w.Edits(); len(got) != 1 || got[0].Issue != issue { // the last of them: whose it is, the folder says
		t.Errorf("%+v", got)
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
	{"negative", `{"paid_calls_used": -1}`, "-1"},
	{"huge", `{"paid_calls_used": 1e300}`, "1e300"},
	{"above all", `{"paid_calls_used": 1000000001}`, "1000000001"},
	{"half", `{"paid_calls_used": 0.5}`, "0.5"},
	{"zeros", "\x00\x00\x00", "invalid character"},
	{"10 MB", strings.Repeat("x", 10<<20), "larger"},
}

// A counter that cannot be read is never zero: it is kept aside, it is said, and the director's own count goes on.
func TestCorruptStats(t *testing.T) {
	for _, c := range corrupt {
		w, dir, logs := opened(t, Options{})
		task := someTask()
		task.PaidCallsUsed = 9
		w.Task(task)
		flushed(w)
		path := edit(t, dir, func(string) string { return c.text })
		if c.name == "cut" {
			now := time.Now()
			_ = os.Chtimes(path, now, now)
			if len(w.Edits()) != 0 || text(t, path) != c.text {
				t.Error("a file that somebody is just saving was taken away")
			}
			edit(t, dir, func(s string) string { return s })
		}
		if c.name == "negative" { // the tick finds it first
			if got := w.Edits(); len(got) != 0 {
				t.Errorf("%s: %v", c.name, got)
			}
		}
		w.Task(task)
		closed(t, w)
		if s := statsOf(t, dir); s.PaidCallsUsed != 9 {
			t.Errorf("%s: %d paid calls, want 9", c.name, s.PaidCallsUsed)
		}
		aside, _ := filepath.Glob(path + ".corrupt-*")
		if len(aside) != 1 || text(t, aside[0]) != c.text {
			t.Errorf("%s: kept aside: %v", c.name, aside)
		}
		if logs.FilterMessageSnippet("cannot be read").Len() != 1 {
			t.Errorf("%s: %v", c.name, logs.All())
		}
	}
}

func TestReadStats(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "stats.json")
	if _, err := ReadStats(path); !errors.Is(err, ErrNoStats) {
		t.Errorf("no file: %v", err)
	}
	for _, c := range corrupt {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadStats(path)
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path+".corrupt-") {
			t.Errorf("%s: %v", c.name, err)
		}
		if exists(path) {
			t.Errorf("%s: still there", c.name)
		}
		time.Sleep(2 * time.Millisecond) // a name of its own
	}
	if aside, _ := filepath.Glob(path + ".corrupt-*"); len(aside) != mostAside {
		t.Errorf("%d files kept aside, want %d", len(aside), mostAside)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadStats(path); err == nil || errors.Is(err, ErrCorrupt) || !exists(path) {
		t.Errorf("a folder: %v", err)
	}
}

func FuzzParseStats(f *testing.F) {
	for _, c := range corrupt[:len(corrupt)-1] {
		f.Add([]byte(c.text))
	}
	f.Add([]byte(`{"paid_calls_used":4,"signatures":{"a":{"count":1,"first_seen":"2026-11-21T12:00:00Z"}},"written":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseStats(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) || s.PaidCallsUsed != 0 {
				t.Fatal(err)
			}
			return
		}
		again := s.with(someTask(), true) // what was read can be gone on with
		if e, edited := s.Edit(); edited && e.PaidCallsUsed != again.PaidCallsUsed {
			t.Fatalf("an edit to %d became %d", e.PaidCallsUsed, again.PaidCallsUsed)
		}
	})
}

func TestNewFailure(t *testing.T) {
	f := NewFailure(
		recovery.Finding{Reason: recovery.RateLimited, Cause: "429", Rule: "r", Confidence: 0.9, Signature: "sig:1", RetryAfter: 30*time.Second + 123_456},
		recovery.Verdict{Action: recovery.WaitReset, Delay: 31 * time.Second, Why: "w", Row: "director.rate_limited", Veto: "v", Ask: "a"})
	if f.Reason != "rate_limited" || f.Class != "rate_limit" || !f.Retryable || f.RetryAfterSeconds != 30 || f.DelaySeconds != 31 || f.Action != "wait_reset" || f.Veto != "v" || f.Ask != "a" {
		t.Errorf("%+v", f)
	}
}

// A state that nobody needs any more goes; one that is still under way stays, however old.
func TestStateRetention(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	for n, state := range []string{"Done", "Running", "Blocked", "Released"} {
		task := someTask()
		task.Issue, task.State = fmt.Sprintf("a/b#%d", n+1), state
		w.Task(task)
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
