package timeline

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// config returns the configuration of the tests' tasks.
func config(t *testing.T) fsm.Config {
	t.Helper()
	p, err := policy.Preset("director")
	if err != nil {
		t.Fatal(err)
	}
	return fsm.Config{MaxWorkers: 3, Policy: p}
}

// recorded calls each with the batches of the journals that earlier versions wrote.
func recorded(t *testing.T, each func(name string, batches [][]fsm.Record)) {
	t.Helper()
	files, err := filepath.Glob("../fsm/testdata/journals/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no journals", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, batches := "", [][]fsm.Record(nil)
		for line := range bytes.Lines(data) {
			var mark struct {
				Journal string          `json:"journal"`
				State   json.RawMessage `json:"state"`
			}
			if err := json.Unmarshal(line, &mark); err != nil {
				t.Fatal(err)
			}
			switch {
			case mark.Journal != "":
				if name != "" {
					each(name, batches)
				}
				name, batches = strings.TrimSuffix(filepath.Base(file), ".jsonl")+"/"+mark.Journal, nil
			case mark.State == nil:
				records, err := fsm.ReadBatch(line)
				if err != nil {
					t.Fatal(err)
				}
				batches = append(batches, records)
			}
		}
		each(name, batches)
	}
}

// told selects journals for golden timelines. Together they contain a success, a question, a retry, an incident, an
// exhausted budget, a refusal, an answer and a restart.
var told = []string{
	"02-build-failed", "03-killed-worker", "15-crash-and-restart", "26-start-waits-for-limit",
	"28-question-answered", "33-incident", "34-overspent",
}

func TestStoriesAreToldLikeThis(t *testing.T) {
	seen := map[string]bool{}
	recorded(t, func(name string, batches [][]fsm.Record) {
		short := name[strings.LastIndexByte(name, '/')+1:]
		if !slices.Contains(told, short) || seen[short] {
			return
		}
		seen[short] = true
		b := NewBook(config(t), DefaultLimits)
		var now time.Time
		for i, records := range batches {
			b.Apply(uint64(i+1), records)
			for _, r := range records {
				now = r.At
			}
		}
		var out strings.Builder
		for _, k := range issues(b) {
			s, ok := b.Task(k, now)
			if !ok {
				t.Fatal(k)
			}
			if err := s.Explain(&out, now.Add(90*time.Second)); err != nil {
				t.Fatal(err)
			}
			out.WriteString("\n")
		}
		file := filepath.Join("testdata", short+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if out.String() != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", file, out.String(), want)
		}
	})
	for _, name := range told {
		if !seen[name] {
			t.Errorf("no journal is called %s", name)
		}
	}
}

// TestTheSameRecordsAreTheSameStory checks that all readers of the same records get the same book: a live reader, a
// reader of repeated batches, and a reader with a snapshot, as far as it has the events.
func TestTheSameRecordsAreTheSameStory(t *testing.T) {
	n := 0
	recorded(t, func(name string, batches [][]fsm.Record) {
		n++
		one, twice := NewBook(config(t), Limits{}), NewBook(config(t), Limits{})
		late := NewBook(config(t), Limits{})
		for i, records := range batches {
			one.Apply(uint64(i+1), records)
			twice.Apply(uint64(i+1), records)
			twice.Apply(uint64(i+1), records)
			late.Apply(uint64(i+1), records)
			if i == len(batches)/2 {
				state, err := one.Machine().Snapshot()
				if err == nil {
					err = late.Restore(uint64(i+1), state)
				}
				if err != nil {
					t.Fatal(name, err)
				}
			}
		}
		now := one.Machine().Now()
		want := asJSON(t, one, now)
		for what, b := range map[string]*Book{"read twice": twice, "from a snapshot": late} {
			if got := asJSON(t, b, now); got != want {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", name, what, got, want)
			}
		}
		if len(batches) > 3 && len(issues(one)) == 0 {
			t.Errorf("%s: no task", name)
		}
	})
	if n < 40 {
		t.Errorf("only %d journals", n)
	}
}

// issues returns the sorted keys of all timelines.
func issues(b *Book) (keys []fsm.IssueKey) {
	for _, s := range b.tasks {
		keys = append(keys, s.Issue)
	}
	slices.Sort(keys)
	return keys
}

func asJSON(t *testing.T, b *Book, now time.Time) string {
	t.Helper()
	var out strings.Builder
	for _, k := range issues(b) {
		s, _ := b.Task(k, now)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	return out.String()
}

// A task's state in the read model equals the machine's state after any history.
func TestTheStoryStandsWhereTheMachineDoes(t *testing.T) {
	recorded(t, func(name string, batches [][]fsm.Record) {
		b := NewBook(config(t), Limits{})
		for i, records := range batches {
			b.Apply(uint64(i+1), records)
			for _, task := range b.Machine().Tasks() {
				s, ok := b.Task(task.Key, b.Machine().Now())
				if !ok || s.State != task.State.String() || s.Attempt != task.Attempt || !s.Since.Equal(task.Since) {
					t.Fatalf("%s, batch %d: the timeline has %s in %s since %s in attempt %d, the machine has %s "+
						"since %s in attempt %d",
						name, i+1, task.Key, s.State, s.Since, s.Attempt, task.State, task.Since, task.Attempt)
				}
				if (task.State == fsm.Blocked) != (s.Asked != nil) && task.State != fsm.Blocked {
					t.Fatalf("%s, batch %d: %s is %s and a question is %v", name, i+1, task.Key, task.State, s.Asked)
				}
			}
		}
	})
}

// Every kind of fact that is of interest to people has a text of a single line.
func TestEventsAreOneLine(t *testing.T) {
	kinds := map[string]int{}
	recorded(t, func(name string, batches [][]fsm.Record) {
		b := NewBook(config(t), Limits{})
		for i, records := range batches {
			b.Apply(uint64(i+1), records)
		}
		all, gap := b.Events(Place{}, "")
		if gap {
			t.Errorf("%s: a book without limits drops events", name)
		}
		last := Place{}
		for _, e := range all {
			if l := e.Line(); strings.ContainsAny(l, "\n\r\x1b") || strings.HasSuffix(l, ".") &&
				!strings.HasSuffix(l, "...") && strings.TrimSpace(l) == "" {
				t.Errorf("%s: %q", name, l)
			}
			if !e.ID.After(last) {
				t.Errorf("%s: %s comes after %s", name, e.ID, last)
			}
			last = e.ID
			kinds[e.Kind]++
			rest, _ := b.Events(e.ID, "")
			if len(rest) > 0 && !rest[0].ID.After(e.ID) {
				t.Fatalf("%s: the events after %s begin with %s", name, e.ID, rest[0].ID)
			}
		}
	})
	for _, want := range []string{
		"moved", "verdict_made", "attempt_began", "report_accepted", "command_taken",
		"cooldown_set", "incident_changed", "work_delivered", "effect_deferred",
	} {
		if kinds[want] == 0 {
			t.Errorf("no event is a %s", want)
		}
	}
}

func TestABookIsBounded(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := NewBook(config(t), Limits{Over: 10, Events: 20, News: 50})
	seq := uint64(0)
	add := func(facts ...fsm.Fact) {
		seq++
		at = at.Add(time.Second)
		b.Apply(seq, []fsm.Record{{At: at, Facts: facts}})
	}
	for n := 1; n <= 100; n++ {
		k := fsm.IssueKey(fmt.Sprintf("acme/widgets#%d", n))
		add(fsm.TaskQueued{Task: k, Nonce: fmt.Sprint("n", n), Title: "x"})
		for range 30 {
			add(fsm.TaskRenamed{OfTask: fsm.OfTask{Task: k}, Title: "y"})
		}
		add(fsm.Moved{OfTask: fsm.OfTask{Task: k}, From: fsm.Queued, To: fsm.Forgotten, On: fsm.OnWithdrawn})
	}
	if n := len(issues(b)); n != 10 {
		t.Errorf("%d tasks are kept, want 10", n)
	}
	s, ok := b.Task("acme/widgets#100", at)
	if !ok || len(s.Events) > 20 || s.Dropped+len(s.Events) != 32 {
		t.Errorf("%v: %d events and %d dropped, want 32 in all and at most 20", ok, len(s.Events), s.Dropped)
	}
	all, gap := b.Events(Place{Seq: 1}, "")
	if len(all) > 50 || !gap {
		t.Errorf("%d events, gap %v", len(all), gap)
	}
	if _, gap := b.Events(all[0].ID, ""); gap {
		t.Error("a gap after an existing event")
	}
	add(fsm.TaskQueued{Task: "acme/widgets#100", Nonce: "again", Title: "x"})
	if s, _ := b.Task("Acme/Widgets#100", at); s.Claims != 2 || s.Over {
		t.Errorf("queued once more: %+v", s)
	}
}

// The board has the first of Rows in each state, and counts all of them.
func TestTheBoardAgreesWithTheRows(t *testing.T) {
	rows := 0
	recorded(t, func(name string, batches [][]fsm.Record) {
		b := NewBook(config(t), DefaultLimits)
		var now time.Time
		for i, records := range batches {
			b.Apply(uint64(i+1), records)
			for _, r := range records {
				now = r.At
			}
			const most = 1
			all, count := b.Rows(now), map[string]int{}
			var first []fsm.IssueKey
			for _, s := range all {
				if count[s.State]++; count[s.State] <= most {
					first = append(first, s.Issue)
				}
			}
			shown, counted := b.Board(now, most)
			if len(shown) != len(first) || !maps.Equal(count, counted) {
				t.Fatalf("%s: the board has %d of %v, want %v of %v", name, len(shown), counted, first, count)
			}
			for i, s := range shown {
				if s.Issue != first[i] {
					t.Fatalf("%s: %s is in place %d, want %s", name, s.Issue, i, first[i])
				}
			}
			rows += len(shown)
		}
	})
	if rows == 0 {
		t.Error("nothing was ever shown")
	}
}
