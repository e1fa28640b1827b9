package classify

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/testfiles"
)

// Required accuracy: for the sample from which the rules were written, for each label of the sample, and for the other
// files, which were not used for the rules.
const (
	wantKnown  = 0.97
	wantLabel  = 0.85
	wantUnseen = 0.80
	wantRetry  = 0.95 // of the decision to retry, for each file
)

// evidenceOf returns the director's evidence for the line.
func evidenceOf(l testfiles.Line) recovery.Evidence {
	return recovery.Evidence{Stderr: l.Text, ExitCode: l.ExitCode, Unended: l.ExitCode == nil}
}

// score counts correct results.
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

// scores has a score for each name.
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

// TestCorpus classifies the output of real programs by text and exit code only.
func TestCorpus(t *testing.T) {
	c := newClassifier(t)
	files, labels, unknown := scores{}, scores{}, map[string]int{}
	for _, l := range testfiles.Corpus(t) {
		if _, ok := recovery.Describe(recovery.Reason(l.Reason)); !ok {
			unknown[l.File+": unknown label "+l.Reason]++
			continue
		}
		f := c.Classify(evidenceOf(l))
		right := string(f.Reason) == l.Reason
		files.count(l.File, right)
		if l.File == "dev.jsonl" {
			labels.count(l.Reason, right)
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
	for what, n := range unknown {
		t.Errorf("%s, on %d lines", what, n)
	}
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

// TestFolds prints the accuracy for each fifth of the corpus. The corpus is divided once by message and once by tool.
func TestFolds(t *testing.T) {
	c := newClassifier(t)
	folds := scores{}
	for _, l := range testfiles.Corpus(t) {
		right := c.Classify(evidenceOf(l)).Reason == recovery.Reason(l.Reason)
		folds.count(fmt.Sprintf("by message, fold %d", 1+fold(l.Tool+" "+levelled(l.Text))), right)
		folds.count(fmt.Sprintf("by tool, fold %d", 1+fold(l.Tool)), right)
	}
	folds.log(t, "")
}

// fold returns the fifth of the corpus to which a key belongs, from 0 to 4. It depends only on the key.
func fold(key string) int {
	sum := sha256.Sum256([]byte(key))
	return int(sum[0]) % 5
}

var (
	colour = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)
	number = regexp.MustCompile(`[0-9]+`)
)

// levelled removes differences in numbers, colours and blanks, so that similar messages belong to the same fold.
func levelled(s string) string {
	s = number.ReplaceAllString(strings.ToLower(colour.ReplaceAllString(s, "")), "0")
	return strings.Join(strings.Fields(s), " ")
}

// written lists files with lines that the sample does not have. They come from documentation and sources of agents and
// other programs.
var written = []string{
	"testdata/programs.tsv", "testdata/agents.tsv", "testdata/agents-2.tsv", "testdata/agents-3.tsv",
	"testdata/agents-4.tsv", "testdata/agents-5.tsv",
}

// writtenLines reads one of these files. Each line has a reason, an exit code, a program and a text.
func writtenLines(t *testing.T, file string) (lines []testfiles.Line) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		cols := strings.SplitN(line, "\t", 4)
		code, err := strconv.Atoi(cols[1])
		if len(cols) != 4 || err != nil {
			t.Fatalf("%s: line %d: want reason, exit code, program, text", file, n+1)
		}
		text := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\x1b`, "\x1b").Replace(cols[3])
		lines = append(lines, testfiles.Line{File: file, Reason: cols[0], ExitCode: &code, Tool: cols[2], Text: text})
	}
	return lines
}

// TestPrograms checks lines that were classified wrongly in the past.
func TestPrograms(t *testing.T) {
	c := newClassifier(t)
	for _, file := range written {
		var all score
		for _, l := range writtenLines(t, file) {
			f := c.Classify(evidenceOf(l))
			all.count(string(f.Reason) == l.Reason)
			if string(f.Reason) != l.Reason {
				t.Errorf("%s: %q is read as %s by %s, want %s", l.Tool, l.Text, f.Reason, f.Rule, l.Reason)
			}
		}
		t.Logf("%s: %s", file, &all)
	}
}

// TestRetryOrNot checks the decision to retry, regardless of the reason's name.
func TestRetryOrNot(t *testing.T) {
	c := newClassifier(t)
	lines := testfiles.Corpus(t)
	for _, file := range written {
		lines = append(lines, writtenLines(t, file)...)
	}
	files, worse := scores{}, scores{}
	for _, l := range lines {
		want, _ := recovery.Describe(recovery.Reason(l.Reason))
		got, _ := recovery.Describe(c.Classify(evidenceOf(l)).Reason)
		files.count(l.File, got.Retryable == want.Retryable)
		if want.Retryable {
			worse.count("retried, of all retryable failures", got.Retryable)
		} else {
			worse.count("not retried, of all other failures", !got.Retryable)
		}
	}
	files.log(t, "retry or not, ")
	worse.log(t, "")
	for name, s := range files {
		if s.share() < wantRetry {
			t.Errorf("%s: %s is below %.0f %%", name, s, 100*wantRetry)
		}
	}
}

// TestCorpusWaits checks that nine of ten waits stated in the corpus are read, and that other texts are read without a
// wait. It does not pass a current time, so absolute times are not waits. The labels follow the same rule.
func TestCorpusWaits(t *testing.T) {
	c := newClassifier(t)
	stated, right := 0, 0
	for _, l := range testfiles.Corpus(t) {
		f := c.Classify(recovery.Evidence{Stderr: l.Text, ExitCode: l.ExitCode})
		switch {
		case l.RetryAfter != nil:
			stated++
			if want := time.Duration(*l.RetryAfter * float64(time.Second)); f.RetryAfter == want {
				right++
			} else {
				t.Logf("%s %s (%s): %s, want %s", l.ID, l.Tool, f.Reason, f.RetryAfter, want)
			}
		case f.RetryAfter > 0:
			t.Errorf("%s %s (%s): %s, and none is stated", l.ID, l.Tool, f.Reason, f.RetryAfter)
		}
	}
	t.Logf("%d of %d", right, stated)
	if right*10 < stated*9 {
		t.Errorf("%d of %d stated waits are read", right, stated)
	}
}
