package reports

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/secrets/redact"
)

// TestRedactedAsInItsJSON checks that redaction equals that of the JSON form, which does not miss any string. The
// original must not change.
func TestRedactedAsInItsJSON(t *testing.T) {
	by := redact.New("correct-horse-battery", "s3cr3t-of-two\nlines-here")
	text := rapid.OneOf(rapid.StringMatching(`[a-z \n"]{0,20}`), rapid.SampledFrom([]string{
		"", "password=correct-horse-battery", "lines-here", "AKIAIOSFODNN7EXAMPLE", "\x1b[31mred\x1b[0m s3cr3t-of-two",
		`{"token":"correct-horse-battery"}`, "https://me:hunter22@example.org",
	}))
	rapid.Check(t, func(t *rapid.T) {
		headers := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,8}`), text, 0, 3).Draw(t, "headers")
		headers[text.Draw(t, "header")] = text.Draw(t, "its value") // two secrets would become the same key
		e := &wire.WorkerError{
			ErrorID: "correct-horse-battery", WorkerID: "w-1", IssueNumber: 7, Stage: text.Draw(t, "stage"), Attempt: 1,
			ErrorType: text.Draw(t, "type"), Message: text.Draw(t, "message"),
			LastStdoutTail: text.Draw(t, "stdout"), LastStderrTail: text.Draw(t, "stderr"),
			Headers: headers, Question: text.Draw(t, "question"),
			ExitCode: new(1), Usage: &wire.Usage{Tokens: 3},
			Stages: []wire.StageResult{{
				Stage:   text.Draw(t, "its stage"),
				Command: rapid.SliceOfN(text, 0, 3).Draw(t, "command"),
			}},
		}
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var before, want wire.WorkerError
		if err := json.Unmarshal(data, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(by.JSON(string(data))), &want); err != nil {
			t.Fatal(err)
		}
		want.ErrorID, want.WorkerID = e.ErrorID, e.WorkerID
		got, err := json.Marshal(Redacted(bus.Report{Body: &before}, by).Body)
		if err != nil {
			t.Fatal(err)
		}
		wanted, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(wanted) {
			t.Errorf("got  %s\nwant %s", got, wanted)
		}
		var unchanged wire.WorkerError
		if err := json.Unmarshal(data, &unchanged); err != nil || !reflect.DeepEqual(before, unchanged) {
			t.Errorf("the original has changed: %+v, %v", before, err)
		}
	})
}
