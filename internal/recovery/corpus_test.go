package recovery

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What must be right: of the sample that the rules were written by, of each of its labels, and of any other file beside
// it, whose lines nobody has seen.
const (
	wantKnown  = 0.97
	wantLabel  = 0.85
	wantUnseen = 0.80
)

// corpusLine is one labelled output of a real program.
type corpusLine struct {
	File       string   `json:"-"`
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
			l.File = filepath.Base(name)
			lines = append(lines, l)
		}
		if err := sc.Err(); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	return lines
}

// evidence is all that a director sees of the line.
func (l corpusLine) evidence() Evidence {
	return Evidence{Stderr: l.Text, ExitCode: l.ExitCode, Unended: l.ExitCode == nil}
}

// score counts what is right.
type score struct{ right, of int }

func (s *score) count(right bool) {
	s.of++
	if right {
		s.right++
	}
}

func (s *score) share() float64 { return float64(s.right) / float64(max(s.of, 1)) }

func (s *score) String() string {
	return fmt.Sprintf("%4d of %4d  %5.1f %%", s.right, s.of, 100*s.share())
}

// scores counts by name.
type scores map[string]*score

func (s scores) count(name string, right bool) {
	if s[name] == nil {
		s[name] = &score{}
	}
	s[name].count(right)
}

func (s scores) log(t *testing.T, what string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		t.Logf("%-28s %s", what+name, s[name])
	}
}

// TestCorpus classifies the output of real programs by text and exit code alone.
func TestCorpus(t *testing.T) {
	c := newClassifier(t)
	files, labels := scores{}, scores{}
	for _, l := range readCorpus(t) {
		f := c.Classify(l.evidence())
		right := f.Reason == l.Reason
		files.count(l.File, right)
		if l.File == "dev.jsonl" {
			labels.count(string(l.Reason), right)
		}
		if !right && os.Getenv("RETAKE_CORPUS_MISSES") != "" {
			t.Logf("MISS %s %s: want %s, got %s by %s: %.160q", l.ID, l.Tool, l.Reason, f.Reason, f.Rule, f.Cause)
		}
		if l.RetryAfter != nil {
			if want := time.Duration(*l.RetryAfter * float64(time.Second)); f.RetryAfter != want {
				t.Logf("%s %s: retry_after = %s, want %s", l.ID, l.Tool, f.RetryAfter, want)
			}
		}
	}
	labels.log(t, "")
	files.log(t, "accuracy on ")
	for name, s := range labels {
		if s.share() < wantLabel {
			t.Errorf("%s: %s", name, s)
		}
	}
	for name, s := range files {
		if want := map[bool]float64{true: wantKnown, false: wantUnseen}[name == "dev.jsonl"]; s.share() < want {
			t.Errorf("%s: %s is below %.0f %%", name, s, 100*want)
		}
	}
}

// TestFolds prints the accuracy on each fifth of the sample, divided by message and by tool. How each fifth was used
// when the rules were written is told in docs/specs/error-handling.md.
func TestFolds(t *testing.T) {
	c := newClassifier(t)
	folds := scores{}
	for _, l := range readCorpus(t) {
		right := c.Classify(l.evidence()).Reason == l.Reason
		folds.count(fmt.Sprintf("by message, fold %d", 1+fold(l.Tool+" "+levelled(l.Text))), right)
		folds.count(fmt.Sprintf("by tool, fold %d", 1+fold(l.Tool)), right)
	}
	folds.log(t, "")
}

// fold says to which fifth a line belongs, for ever.
func fold(key string) int {
	sum := sha256.Sum256([]byte(key))
	return int(sum[0]) % 5
}

var (
	colour = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)
	number = regexp.MustCompile(`[0-9]+`)
)

// levelled makes equal what differs only in numbers, colours and blanks, so that it falls into one fold.
func levelled(s string) string {
	s = number.ReplaceAllString(strings.ToLower(colour.ReplaceAllString(s, "")), "0")
	return strings.Join(strings.Fields(s), " ")
}

// TestPrograms reads lines of programs that the sample does not hold, written down from their documentation.
func TestPrograms(t *testing.T) {
	data, err := os.ReadFile("testdata/programs.tsv")
	if err != nil {
		t.Fatal(err)
	}
	c := newClassifier(t)
	var all score
	for n, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		cols := strings.SplitN(line, "\t", 4)
		code, err := strconv.Atoi(cols[1])
		if len(cols) != 4 || err != nil {
			t.Fatalf("line %d: want reason, exit code, program, text", n+1)
		}
		text := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\x1b`, "\x1b").Replace(cols[3])
		f := c.Classify(Evidence{Stderr: text, ExitCode: &code})
		all.count(string(f.Reason) == cols[0])
		if string(f.Reason) != cols[0] {
			t.Errorf("%s: %q is read as %s by %s, want %s", cols[2], cols[3], f.Reason, f.Rule, cols[0])
		}
	}
	t.Logf("programs: %s", &all)
}
