package fsm

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// recordedBatches returns the lines of the recorded journals.
func recordedBatches(t *testing.T) (all [][]byte) {
	t.Helper()
	files, err := filepath.Glob("testdata/journals/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no journals", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			if bytes.HasPrefix(line, []byte(`{"at":`)) {
				all = append(all, line)
			}
		}
	}
	return all
}

// readAlike fails the test if BatchReader and encoding/json disagree about a batch of one record. It returns the error
// of BatchReader.
func readAlike(t *testing.T, b *BatchReader, line []byte) (err error) {
	t.Helper()
	var want Record
	wrong := json.Unmarshal(line, &want)
	got, err := b.Read(line)
	switch {
	case err != nil && (wrong == nil || err.Error() != "fsm: record 1 of the batch: "+wrong.Error()):
		t.Fatalf("%q: %v, and encoding/json says %v", line, err, wrong)
	case err == nil && (wrong != nil || !reflect.DeepEqual(got, []Record{want})):
		t.Fatalf("%q\nis read as %+v\nand by encoding/json as %+v, %v", line, got, want, wrong)
	}
	return err
}

// Both readers give the same facts for the same bytes, intact or damaged.
func TestBatchesAreReadAsEncodingJSONReadsThem(t *testing.T) {
	var b BatchReader
	random := rand.New(rand.NewPCG(3, 4))
	refused := 0
	all := recordedBatches(t)
	for _, line := range all {
		if err := readAlike(t, &b, line); err != nil {
			t.Errorf("a recorded journal is not read: %v", err)
		}
		for range 20 {
			if mutated := mutate(line, random); bytes.Count(mutated, []byte("\n")) == 1 &&
				readAlike(t, &b, mutated) != nil {
				refused++
			}
		}
	}
	if refused < len(all) {
		t.Errorf("only %d of the damaged records are refused", refused)
	}
}

// mutate changes a byte of a record, inserts a byte, or removes or repeats up to 12 bytes.
func mutate(line []byte, random *rand.Rand) []byte {
	const parts = "\"\\{}[]:,0129-.eEntfalsrumK \xff"
	at, n := random.IntN(len(line)-1), 1+random.IntN(12)
	end := min(at+n, len(line)-1)
	switch random.IntN(4) {
	case 0:
		return slices.Delete(slices.Clone(line), at, end)
	case 1:
		return slices.Insert(slices.Clone(line), at, line[at:end]...)
	case 2:
		return slices.Insert(slices.Clone(line), at, parts[random.IntN(len(parts))])
	default:
		line = slices.Clone(line)
		line[at] = parts[random.IntN(len(parts))]
		return line
	}
}

// BatchReader reads all records that the Driver writes without encoding/json.
func TestWhatIsWrittenIsReadFast(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	var b BatchReader
	records := 0
	for _, file := range files {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, played := play(t, string(script))
		for _, batch := range played.journal.batches {
			read, err := b.Read(batch)
			if err != nil {
				t.Fatal(file, err)
			}
			if records += len(read); b.slow > 0 {
				t.Fatalf("%s: encoding/json had to read %s", file, batch)
			}
		}
	}
	if records < 400 {
		t.Errorf("only %d records were written", records)
	}
}

// BatchReader reads every kind of fact without encoding/json, except incident_over, which only occurs in old journals.
func TestFactsAreReadFast(t *testing.T) {
	for _, row := range facts {
		if row.plain == nil != (row.kind == "incident_over") {
			t.Errorf("%s: read in one pass is %t", row.kind, row.plain != nil)
		}
		if row.plain != nil && len(row.how.Slow()) > 0 {
			t.Errorf("%s: encoding/json reads %q", row.kind, row.how.Slow())
		}
	}
}
