package agent

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the results of the recorded streams, and docs/specs/agents.md")

// recording is a file in testdata/streams: the output of a CLI, and the expected events.
type recording struct {
	file, profile, kind    string
	code                   int
	stdout, stderr, before string // the file up to the events
	events                 string
}

func recordings(t testing.TB) []recording {
	t.Helper()
	files, err := filepath.Glob("testdata/streams/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded streams: %v", err)
	}
	var all []recording
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := recording{file: file}
		r.profile, r.kind, _ = strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txt"), ".")
		whole := string(data)
		head, rest, ok1 := strings.Cut(whole, "-- stdout --\n")
		out, rest, ok2 := strings.Cut(rest, "-- stderr --\n")
		errs, events, ok3 := strings.Cut(rest, "-- events --\n")
		_, code, _ := strings.Cut(head, "-- exit ")
		code, _, _ = strings.Cut(code, " ")
		if r.code, err = strconv.Atoi(code); err != nil || !ok1 || !ok2 || !ok3 {
			t.Fatalf("%s: not a recording: %v", file, err)
		}
		r.stdout, r.stderr, r.events = out, errs, events
		r.before = strings.TrimSuffix(whole, events)
		all = append(all, r)
	}
	return all
}

// replay reads both streams in pieces of a size, stdout first.
func (r recording) replay(t testing.TB, piece int) ([]Event, Outcome) {
	t.Helper()
	p, err := Builtin().Lookup(r.profile)
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for stream, text := range map[string]string{"stdout": r.stdout, "stderr": r.stderr} {
		if !slices.Contains(p.Streams, stream) {
			continue
		}
		reader, err := NewReader(p.Format)
		if err != nil {
			t.Fatal(err)
		}
		var heard []Event
		for rest := text; rest != ""; {
			n := min(piece, len(rest))
			heard = append(heard, reader.Write([]byte(rest[:n]))...)
			rest = rest[n:]
		}
		heard = append(heard, reader.Close()...)
		if stream == "stdout" {
			events = append(heard, events...)
		} else {
			events = append(events, heard...)
		}
	}
	o := Outcome{EndsWith: p.EndsWith}
	for _, e := range events {
		o.Add(e)
	}
	return events, o
}

func transcript(events []Event, o Outcome, code int) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s%+v\n", strings.TrimPrefix(fmt.Sprintf("%T", e), "agent."), e)
	}
	fmt.Fprintf(&b, "-- outcome --\nended %v, ok %v, limits %d, usage %+v\n", o.Ended, o.OK, o.RateLimits, o.Usage())
	if f := o.FinalFailure(); f != nil {
		fmt.Fprintf(&b, "error %+v\n", *f)
	}
	fmt.Fprintf(&b, "with changes: %q\nwithout:      %q\n", o.Contradiction(code, NewWork),
		o.Contradiction(code, OlderWork))
	return b.String()
}

// TestRecordedStreams compares each recording with its events. `go test ./internal/agent -run Streams
// -update` rewrites them.
func TestRecordedStreams(t *testing.T) {
	for _, r := range recordings(t) {
		events, o := r.replay(t, 1<<20)
		got := transcript(events, o, r.code)
		if *update {
			if err := os.WriteFile(r.file, []byte(r.before+got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got != r.events {
			t.Errorf("%s: got\n%s\nwant\n%s", r.file, got, r.events)
		}
	}
}

// TestEveryProfileIsRecorded checks that each profile has recordings of the required cases.
func TestEveryProfileIsRecorded(t *testing.T) {
	kinds := map[string]func(r recording, o Outcome) bool{
		"success": func(_ recording, o Outcome) bool {
			return o.Ended && o.OK && o.FinalFailure() == nil && o.Answer != "" && o.Contradiction(0, OlderWork) == ""
		},
		"401": func(_ recording, o Outcome) bool {
			return o.FinalFailure() != nil && o.FinalFailure().Status == 401 && o.FinalFailure().Message != ""
		},
		"429": func(_ recording, o Outcome) bool {
			return o.FinalFailure() != nil &&
				o.FinalFailure().Status == 429
		},
		"529": func(_ recording, o Outcome) bool {
			return o.FinalFailure() != nil &&
				o.FinalFailure().Message != ""
		},
		"overflow": func(_ recording, o Outcome) bool {
			return o.FinalFailure() != nil &&
				o.FinalFailure().Message != ""
		},
		"cut": func(_ recording, o Outcome) bool {
			return !o.OK && (o.FinalFailure() != nil || o.Contradiction(0, OlderWork) != "")
		},
		"hollow": func(r recording, o Outcome) bool { return r.code == 0 && o.Contradiction(0, OlderWork) != "" },
	}
	seen := map[string]bool{}
	for _, r := range recordings(t) {
		_, o := r.replay(t, 1<<20)
		seen[r.profile+"."+r.kind] = true
		if good, known := kinds[r.kind]; known && !good(r, o) {
			t.Errorf("%s: %+v, error %+v, verdict %q", r.file, o, o.FinalFailure(), o.Contradiction(0, OlderWork))
		}
		if r.code == 0 && r.kind != "success" && !strings.Contains(r.kind, "well") &&
			!strings.Contains(r.kind, "wait") && o.Contradiction(0, OlderWork) == "" {
			t.Errorf("%s: exit code 0 counts as a success", r.file)
		}
	}
	for _, p := range Builtin().rows {
		for kind := range kinds {
			// if it has no events, docs/specs/agents-matrix.md shows that
			if p.Format != "text" && !seen[p.Name+"."+kind] {
				t.Errorf("no recording %s.%s", p.Name, kind)
			}
		}
	}
}

// TestPiecesDontMatter splits the bytes in various ways and expects the same events.
func TestPiecesDontMatter(t *testing.T) {
	for _, r := range recordings(t) {
		events, o := r.replay(t, 1<<20)
		want := transcript(events, o, r.code)
		for _, piece := range []int{1, 7, 61} {
			events, o := r.replay(t, piece)
			if got := transcript(events, o, r.code); got != want {
				t.Errorf("%s in pieces of %d: got\n%s\nwant\n%s", r.file, piece, got, want)
			}
		}
	}
}
