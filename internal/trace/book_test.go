package trace

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/projection"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt and docs/images/trace.svg")

// journals returns recorded journals by name, including journals of older versions.
func journals(t *testing.T) map[string][]fsm.Record {
	t.Helper()
	files, err := filepath.Glob("../fsm/testdata/journals/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no journals", err)
	}
	out := map[string][]fsm.Record{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		for line := range bytes.Lines(data) {
			var mark struct {
				Journal string          `json:"journal"`
				State   json.RawMessage `json:"state"`
			}
			if err := json.Unmarshal(line, &mark); err != nil {
				t.Fatal(file, err)
			}
			if mark.Journal != "" {
				name = filepath.Base(file) + "/" + mark.Journal
			}
			if mark.Journal != "" || mark.State != nil {
				continue
			}
			records, err := fsm.ReadBatch(line)
			if err != nil {
				t.Fatal(file, err)
			}
			out[name] = append(out[name], records...)
		}
	}
	return out
}

// spansOf returns the spans that end while a book, or a new one if it is nil, takes records.
func spansOf(b *Book, records []fsm.Record) (out []Span) {
	if b == nil {
		b = NewBook("default", nil)
	}
	b.done = func(_ time.Time, s Span) { out = append(out, s) }
	b.Apply(0, records)
	return out
}

// TestEverySpanHasItsPlace checks, for every recorded journal, that ids are unique, that parents exist or are still
// open, and that spans of an attempt are within the attempt.
func TestEverySpanHasItsPlace(t *testing.T) {
	for name, records := range journals(t) {
		b := NewBook("default", nil)
		all := spansOf(b, records)
		byID := map[[8]byte]Span{}
		for _, s := range all {
			if other, twice := byID[s.Context.Span]; twice {
				t.Errorf("%s: %s and %s have one id", name, s.Name, other.Name)
			}
			byID[s.Context.Span] = s
		}
		for _, k := range b.tasks {
			byID[k.root.Context.Span] = k.root
			for _, open := range []*Span{k.attempt, k.phase} {
				if open != nil {
					byID[open.Context.Span] = *open
				}
			}
		}
		for _, s := range all {
			parent, there := byID[s.Parent]
			switch {
			case s.End.Before(s.Start):
				t.Errorf("%s: %s ends before it begins", name, s.Name)
			case s.Parent == [8]byte{}:
				if s.Name != "task" {
					t.Errorf("%s: %s has no parent", name, s.Name)
				}
			case !there || parent.Context.Trace != s.Context.Trace:
				t.Errorf("%s: the parent of %s is not in its trace", name, s.Name)
			case s.Start.Before(parent.Start) || !strings.HasPrefix(s.Name, "effect ") && !parent.End.IsZero() &&
				s.End.After(parent.End):
				t.Errorf("%s: %s is not within its %s", name, s.Name, parent.Name)
			}
		}
	}
}

// TestTheSameAfterARestart reads a journal twice and expects equal spans. A Book that starts in the middle of a task
// must not reuse span ids.
func TestTheSameAfterARestart(t *testing.T) {
	for name, records := range journals(t) {
		all := map[[8]byte]Span{}
		for _, s := range spansOf(nil, records) {
			all[s.Context.Span] = s
		}
		half := len(records) / 2
		again := NewBook("default", nil)
		for _, s := range append(spansOf(again, records[:half]), spansOf(again, records[half:])...) {
			if !reflect.DeepEqual(all[s.Context.Span], s) {
				t.Fatalf("%s: %s is another one after a restart", name, s.Name)
			}
		}
		late := NewBook("default", nil)
		m := fsm.New(fsm.Config{})
		m.Replay(records[:half])
		snapshot, err := m.Snapshot()
		if err != nil || late.Restore(0, snapshot) != nil {
			t.Fatal(name, err)
		}
		for _, s := range spansOf(late, records[half:]) {
			if other, there := all[s.Context.Span]; there && other.Name != s.Name {
				t.Fatalf("%s: %s has the id of %s", name, s.Name, other.Name)
			}
		}
		for _, r := range records[half:] { // with gaps
			if len(r.Facts)%2 == 0 {
				late.Apply(0, []fsm.Record{r})
			}
		}
	}
}

// TestBookKeepsNothing checks that a Book does not keep finished tasks in memory.
func TestBookKeepsNothing(t *testing.T) {
	for name, records := range journals(t) {
		b, m := NewBook("default", nil), fsm.New(fsm.Config{})
		spansOf(b, records)
		m.Replay(records)
		for k := range b.tasks {
			if !slices.ContainsFunc(m.Tasks(), func(t *fsm.Task) bool { return projection.Fold(t.Key) == k }) {
				t.Errorf("%s: %s is over, and is still kept", name, k)
			}
		}
	}
}

// shown lists the recorded journals with interesting traces.
var shown = []string{
	"02-build-failed", "03-killed-worker", "04-silence-heard-again", "08-withdrawn", "20-withdrawn-before-start",
	"26-start-waits-for-limit",
	"28-question-answered", "33-incident", "38-clocks-differ-at-a-takeover",
}

// TestTraces writes the traces of recorded journals as trees. `go test ./internal/trace -update` rewrites them.
func TestTraces(t *testing.T) {
	all := journals(t)
	for _, name := range shown {
		records := all["transcripts.jsonl/"+name]
		if len(records) == 0 {
			t.Fatalf("no journal %s among %q", name, slices.Sorted(maps.Keys(all)))
		}
		golden(t, filepath.Join("testdata", name+".txt"), tree(spansOf(nil, records)))
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%s differs from the current result (%v). Check the difference, then run: go test ./internal/trace "+
			"-update\n%s", file, err, got)
	}
}

// tree shows spans below their parents, with their times since the first one began.
func tree(all []Span) string {
	var b strings.Builder
	children, known := map[[8]byte][]Span{}, map[[8]byte]bool{}
	for _, s := range all {
		known[s.Context.Span] = true
	}
	begin := time.Time{}
	for _, s := range all {
		if begin.IsZero() || s.Start.Before(begin) {
			begin = s.Start
		}
		parent := s.Parent
		if !known[parent] {
			parent = [8]byte{}
		}
		children[parent] = append(children[parent], s)
	}
	var show func(parent [8]byte, depth int)
	show = func(parent [8]byte, depth int) {
		list := children[parent]
		slices.SortStableFunc(list, func(x, y Span) int { return x.Start.Compare(y.Start) })
		for _, s := range list {
			fmt.Fprintf(&b, "%s%s %s…%s", strings.Repeat("  ", depth), s.Name, s.Start.Sub(begin), s.End.Sub(begin))
			if s.Failed != "" {
				fmt.Fprintf(&b, " failed: %s", s.Failed)
			}
			for _, a := range s.Attributes {
				if a.Key != KeyIssue || s.Parent == [8]byte{} {
					fmt.Fprintf(&b, " %s=%v", strings.TrimPrefix(a.Key, "retake."), a.Value)
				}
			}
			b.WriteByte('\n')
			for _, e := range s.Events {
				fmt.Fprintf(&b, "%s· %s %s", strings.Repeat("  ", depth+1), e.At.Sub(begin), e.Name)
				for _, a := range e.Attributes {
					fmt.Fprintf(&b, " %s=%v", strings.TrimPrefix(a.Key, "retake."), a.Value)
				}
				b.WriteByte('\n')
			}
			show(s.Context.Span, depth+1)
		}
	}
	show([8]byte{}, 0)
	return b.String()
}

func TestStages(t *testing.T) {
	at := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	p, ok := OfAttempt("default", "k3v9qx2m-2")
	if !ok {
		t.Fatal("no attempt")
	}
	attempt := Span{Context: p, Start: at, End: at.Add(time.Minute)}
	stage := func(name string, exit int, start, took time.Duration) wire.StageResult {
		r := wire.StageResult{Stage: name, ExitCode: exit, DurationMS: took.Milliseconds()}
		if start >= 0 {
			r.StartedAt = wire.At(at.Add(start))
		}
		return r
	}
	show := func(stages ...wire.StageResult) (out []string) {
		for _, s := range Stages(attempt, stages) {
			if s.Parent != attempt.Context.Span {
				t.Errorf("%s does not belong to the attempt", s.Name)
			}
			out = append(out, fmt.Sprintf("%s %s-%s %s", s.Name, s.Start.Sub(at), s.End.Sub(at), s.Failed))
		}
		return out
	}
	got := show(stage("CODE", 0, time.Second, 10*time.Second), stage("VALIDATE", 1, 12*time.Second, time.Second),
		stage("CODE", 0, 14*time.Second, time.Hour))
	if want := []string{
		"stage CODE 1s-11s ", "stage VALIDATE 12s-13s exit code 1",
		"stage CODE 14s-1m0s ",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	got = show(stage("CODE", 0, -1, 20*time.Second), stage("VALIDATE", 0, -1, 10*time.Second))
	if want := []string{"stage CODE 30s-50s ", "stage VALIDATE 50s-1m0s "}; !slices.Equal(got, want) {
		t.Errorf("without times: %q", got)
	}
	stages := Stages(attempt, []wire.StageResult{
		stage("CODE", 0, 0, 0), stage("VALIDATE", 0, 0, 0),
		stage("CODE", 0, 0, 0),
	})
	if stages[0].Context != p.ForStage("CODE", 1) || stages[2].Context != p.ForStage("CODE", 2) ||
		stages[1].Context != p.ForStage("VALIDATE", 1) {
		t.Error("not the ids that the worker has")
	}
	if len(Stages(attempt, nil)) != 0 {
		t.Error("stages out of nothing")
	}
}

// TestIDs checks that ids do not change between versions.
func TestIDs(t *testing.T) {
	p, _ := OfAttempt("default", "k3v9qx2m-2")
	if got := p.String() + " " + ID(p); got != ids {
		t.Errorf("%s, want %s: all versions must export the spans of a task with the same trace id", got, ids)
	}
	if ID(Of("default", "k3v9qx2m")) != ID(p) || ID(Of("other", "k3v9qx2m")) == ID(p) {
		t.Error("two tasks share a trace")
	}
	if p, ok := OfAttempt("default", "nonsense"); ok || p != (wire.TraceParent{}) {
		t.Error("a malformed attempt id has a span")
	}
}

const ids = "00-d903890f7ea31787d26999987967817c-5fcb7a471d5c4abe-00 d903890f7ea31787d26999987967817c"
