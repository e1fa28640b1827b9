package classify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/testfiles"
)

// labelled is a failure with all acceptable causes.
type labelled struct {
	testfiles.Line                   // Reason is the best cause
	Agent          string            `json:"agent"`
	Accept         []recovery.Reason `json:"accept"`
	Retry          *bool             `json:"retry"`       // another attempt may help; nil accepts both answers
	NeedsHuman     bool              `json:"needs_human"` // no attempt succeeds before a person acts
	Source         string            `json:"source"`      // address of the public report, or "run: " with a command
	At             time.Time         `json:"at"`          // of the failure, for stated moments
	Wait           json.RawMessage   `json:"expected_wait"`
}

// labelledScore counts readings. retry and retryOf count only rows with a value of Retry.
type labelledScore struct{ exact, accepted, of, retry, retryOf int }

// labelledLists are lists that were labelled before the classifier read them, each with its last score. Later rules may
// raise a score, but never lower it. docs/specs/error-handling.md has the first scores.
var labelledLists = map[string]labelledScore{
	"testdata/everyday.jsonl": {exact: 125, accepted: 162, of: 181, retry: 145, retryOf: 151},
	"testdata/field.jsonl":    {exact: 101, accepted: 123, of: 124, retry: 101, retryOf: 101},
	"testdata/hosting.jsonl":  {exact: 157, accepted: 191, of: 196, retry: 158, retryOf: 158},
	"testdata/limits.jsonl":   {exact: 155, accepted: 190, of: 194, retry: 139, retryOf: 139},
	"testdata/locales.jsonl":  {exact: 137, accepted: 167, of: 186, retry: 156, retryOf: 164},
	"testdata/tools.jsonl":    {exact: 176, accepted: 228, of: 238, retry: 204, retryOf: 206},
	"testdata/trackers.jsonl": {exact: 68, accepted: 78, of: 82, retry: 72, retryOf: 73},
}

// sourced matches the source of a row.
var sourced = regexp.MustCompile(`^(?:https://|run: )`)

func readLabelled(t *testing.T, file string) (rows []labelled) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	_, known := labelledLists[file]
	for ids := map[string]bool{}; d.More(); {
		var row labelled
		if err := d.Decode(&row); err != nil {
			t.Fatalf("%s: row %d: %v", file, len(rows)+1, err)
		}
		row.File = file
		if !slices.Contains(row.Accept, recovery.Reason(row.Reason)) || ids[row.ID] ||
			known && !sourced.MatchString(row.Source) || row.NeedsHuman && row.Retry != nil && *row.Retry {
			t.Errorf("%s: %s contradicts itself, or its id is taken, or it has no source", file, row.ID)
		}
		for _, reason := range row.Accept {
			if _, ok := recovery.Describe(reason); !ok {
				t.Errorf("%s: %s: unknown label %s", file, row.ID, reason)
			}
		}
		ids[row.ID] = true
		rows = append(rows, row)
	}
	return rows
}

// TestLabelled compares the readings of text, exit code and stage with the labels. RETAKE_CORPUS may name another list
// with the same fields. With -v, the test prints the score of this list, without comparing it.
func TestLabelled(t *testing.T) {
	c := newClassifier(t)
	if file := os.Getenv("RETAKE_CORPUS"); file != "" {
		t.Logf("%s: %+v", file, scoreLabelled(t, c, file))
	}
	for file, first := range labelledLists {
		now := scoreLabelled(t, c, file)
		t.Logf("%s: %+v", file, now)
		if now.of != first.of || now.retryOf != first.retryOf {
			t.Errorf("%s has other rows: %+v, want %+v", file, now, first)
		}
		if now.exact < first.exact || now.accepted < first.accepted || now.retry < first.retry {
			t.Errorf("%s: %+v, want at least %+v", file, now, first)
		}
	}
}

func scoreLabelled(t *testing.T, c *Classifier, file string) (now labelledScore) {
	for _, row := range readLabelled(t, file) {
		e := evidenceOf(row.Line)
		e.Stage, e.At = row.Stage, row.At
		f := c.Classify(e)
		got, _ := recovery.Describe(f.Reason)
		exact, accepted := string(f.Reason) == row.Reason, slices.Contains(row.Accept, f.Reason)
		retry := row.Retry == nil || *row.Retry == got.Retryable
		now.of++
		now.exact += one(exact)
		now.accepted += one(accepted)
		now.retry += one(row.Retry != nil && retry)
		now.retryOf += one(row.Retry != nil)
		if (!exact || !retry) && os.Getenv("RETAKE_CORPUS_MISSES") != "" {
			t.Logf("MISS %s %s: want %v, got %s by %s after %s (accepted %t, retry %t): %.160q", row.ID,
				cmp.Or(row.Agent, row.Tool), row.Accept, f.Reason, f.Rule, f.RetryAfter, accepted, retry, row.Text)
		}
	}
	return now
}

func one(right bool) int {
	if right {
		return 1
	}
	return 0
}
