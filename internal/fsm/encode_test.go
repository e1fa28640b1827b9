package fsm

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLinesAreAsJSONWouldWriteThem compares Record.line with the output of encoding/json, for all records of the
// recorded journals.
func TestLinesAreAsJSONWouldWriteThem(t *testing.T) {
	type factOf struct {
		Kind string `json:"kind"`
		Body Fact   `json:"body"`
	}
	type recordOf struct {
		At    time.Time `json:"at"`
		Cause Cause     `json:"cause"`
		Facts []factOf  `json:"facts"`
	}
	files, err := filepath.Glob("testdata/journals/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no journals", err)
	}
	kinds := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			if !bytes.HasPrefix(line, []byte(`{"at"`)) {
				continue
			}
			records, err := ReadBatch(line)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				want := recordOf{At: r.At, Cause: r.Cause, Facts: []factOf{}}
				for _, f := range r.Facts {
					want.Facts = append(want.Facts, factOf{KindOf(f), f})
					kinds[KindOf(f)] = true
				}
				wanted, err := json.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := r.line(); err != nil || !bytes.Equal(got, append(wanted, '\n')) {
					t.Fatalf("%v: wrote\n%s\nwant\n%s", err, got, wanted)
				}
			}
		}
	}
	if len(kinds) < 25 {
		t.Errorf("only %d kinds of facts are in the recorded journals", len(kinds))
	}
}

// TestAFactThatIsNotInTheTable expects an error, because such a fact would be unreadable later.
func TestAFactThatIsNotInTheTable(t *testing.T) {
	if line, err := (Record{Cause: Cause{Kind: "tick", Body: []byte("{}")}, Facts: FactList{unknownFact{}}}).
		line(); err == nil {
		t.Errorf("wrote %s", line)
	}
}

type unknownFact struct{}

func (unknownFact) apply(*agenda, *Task) {}
