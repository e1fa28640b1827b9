package fsm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTranscripts plays the transcripts in testdata. Lines that begin with ">" are events. The machine's reaction
// follows, with one line for each fact ("-") and effect ("=>"), and -update rewrites it. "> end" lines state the
// expected final state of an issue, and are not rewritten.
//
//	go test ./internal/fsm -run Transcripts -update
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, played := play(t, string(want))
			played.record(strings.TrimSuffix(filepath.Base(file), ".txt"))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("the conversation went otherwise (-update rewrites it):\n%s",
					firstDifference(string(want), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

// stage is the stage of a transcript.
type stage struct {
	t       *testing.T
	cfg     Config
	most    int // maximum number of held slots
	m       *Machine
	d       *Driver
	journal journal
	now     time.Time
	ended   map[IssueKey]State
	out     bytes.Buffer
	crashes int
	planned []string
}

func play(t *testing.T, script string) (string, *stage) {
	s := &stage{t: t, cfg: testConfig(), now: epoch, most: testConfig().MaxWorkers, ended: map[IssueKey]State{}}
	s.cfg.CleanValidation = strings.Contains(script, "\n# worker.validate = \"fresh\"\n")
	if strings.Contains(script, "\n# containers.runtime = \"kubernetes\"\n") {
		s.cfg.PendingTimeout, s.cfg.CheckoutTravels = 30*time.Minute, true
	}
	s.m = New(s.cfg)
	s.d = NewDriver(s.m, 0, "p0")
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "> "):
			s.out.WriteString(line + "\n")
			s.event(line)
		case line == "" || strings.HasPrefix(line, "#"):
			s.out.WriteString(line + "\n")
		}
	}
	return s.out.String(), s
}

// event executes a line "> 1m30s verb argument …".
func (s *stage) event(line string) {
	s.t.Helper()
	words := strings.Fields(line)
	if words[1] == "end" {
		s.end(words[2:])
		return
	}
	at, err := time.ParseDuration(words[1])
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	if next := epoch.Add(at); next.Before(s.now) {
		s.t.Fatalf("%s: time goes back", line)
	} else {
		s.now = next
	}
	if words[2] == "crash" { // with "crash inside", the operator has changed worker.validate
		if len(words) > 3 {
			s.cfg.CleanValidation = words[3] == "fresh"
		}
		s.crash()
		return
	}
	verb, ok := verbs[words[2]]
	if !ok {
		s.t.Fatalf("%s: no such verb", line)
	}
	args, named := arguments(words[3:])
	s.offer(verb(s, args, named))
}

// offer offers one event to the driver, appends the decision, and writes the facts and the released effects to the
// transcript.
func (s *stage) offer(body EventBody) {
	s.t.Helper()
	if err := s.d.Offer(Event{At: s.now, Body: body}, 0); err != nil {
		s.t.Fatal(err)
	}
	for !s.d.Idle() {
		r := s.d.Ready()
		if r.Batch != nil {
			for _, rec := range r.Batch.Records {
				for _, f := range rec.Facts {
					s.fact(f)
				}
			}
			s.d.Appended(s.journal.append(r.Batch))
		}
		for _, e := range r.Effects {
			fmt.Fprintf(&s.out, "  => %s\n", effectLine(e))
		}
	}
	s.most = max(s.m.cfg.MaxWorkers, min(s.most, s.m.slots.n))
	if err := soundWith(s.m, s.most); err != nil {
		s.t.Fatal(err)
	}
	again := New(s.cfg)
	if err := s.journal.replay(again, 0); err != nil {
		s.t.Fatal(err)
	}
	if err := sameState(s.m, again); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) fact(f Fact) {
	s.t.Helper()
	if p, ok := f.(EffectPlanned); ok {
		if slices.Contains(s.planned, p.Effect.ID) {
			s.t.Errorf("%s is planned twice", p.Effect.ID)
		}
		s.planned = append(s.planned, p.Effect.ID)
	}
	if m, ok := f.(Moved); ok {
		s.ended[m.Task] = m.To
	}
	fmt.Fprintf(&s.out, "  - %s\n", factLine(f))
}

// crash makes a new machine read the journal.
func (s *stage) crash() {
	s.crashes++
	s.m = New(s.cfg)
	if err := s.journal.replay(s.m, 0); err != nil {
		s.t.Fatal(err)
	}
	s.d = NewDriver(s.m, uint64(len(s.journal.batches)), fmt.Sprintf("p%d", s.crashes))
}

func (s *stage) end(args []string) {
	s.t.Helper()
	if got := s.ended[issueKey(args[0])]; got.String() != args[1] {
		s.t.Errorf("issue %s ended %s, want %s", args[0], got, args[1])
	}
}
