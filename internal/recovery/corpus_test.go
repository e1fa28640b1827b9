package recovery

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// corpusThreshold holds now (93 % of the lines that the rules were written by), with room for files of unseen lines
// beside them, of which three in four are right.
const corpusThreshold = 0.80

// corpusLine is one labelled output of a real program.
type corpusLine struct {
	ID         string   `json:"id"`
	Tool       string   `json:"tool"`
	ExitCode   *int     `json:"exit_code"`
	Text       string   `json:"text"`
	Reason     Reason   `json:"reason"`
	RetryAfter *float64 `json:"retry_after_seconds"`
	Scenario   string   `json:"scenario"`
}

// testdata returns the files of a pattern below RETAKE_TESTDATA.
func testdata(t testing.TB, pattern string) []string {
	t.Helper()
	dir := os.Getenv("RETAKE_TESTDATA")
	if dir == "" {
		t.Skip("RETAKE_TESTDATA is not set: the folder that holds corpus/ and vectors/")
	}
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s in %s (%v)", pattern, dir, err)
	}
	return files
}

func readCorpus(t testing.TB) (lines []corpusLine) {
	t.Helper()
	for _, name := range testdata(t, "corpus/*.jsonl") {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 1<<24)
		for n := 1; sc.Scan(); n++ {
			var l corpusLine
			if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
				t.Fatalf("%s:%d: %v", name, n, err)
			}
			lines = append(lines, l)
		}
		if err := sc.Err(); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	return lines
}

// TestCorpus classifies the output of real programs by text and exit code alone.
func TestCorpus(t *testing.T) {
	lines := readCorpus(t)
	c := newClassifier(t)
	right, total := map[Reason]int{}, map[Reason]int{}
	hits := 0
	for _, l := range lines {
		f := c.Classify(Evidence{Stderr: l.Text, ExitCode: l.ExitCode})
		total[l.Reason]++
		if f.Reason == l.Reason {
			right[l.Reason]++
			hits++
		} else if os.Getenv("RETAKE_CORPUS_MISSES") != "" {
			t.Logf("MISS %s %s: want %s, got %s by %s: %.160q", l.ID, l.Tool, l.Reason, f.Reason, f.Rule, f.Cause)
		}
		if l.RetryAfter != nil {
			if want := time.Duration(*l.RetryAfter * float64(time.Second)); f.RetryAfter != want {
				t.Logf("%s %s: retry_after = %s, want %s", l.ID, l.Tool, f.RetryAfter, want)
			}
		}
	}
	for _, a := range Reasons {
		if n := total[a.Reason]; n > 0 {
			t.Logf("%-18s %3d of %3d  %5.1f %%", a.Reason, right[a.Reason], n, 100*float64(right[a.Reason])/float64(n))
		}
	}
	accuracy := float64(hits) / float64(len(lines))
	t.Logf("accuracy           %3d of %3d  %5.1f %%", hits, len(lines), 100*accuracy)
	if accuracy < corpusThreshold {
		t.Errorf("accuracy %.3f is below %.2f", accuracy, corpusThreshold)
	}
}
