package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCutTail(t *testing.T) {
	cases := []struct {
		text string
		max  int
		want string
	}{
		{"short", 5, "short"},
		{"", 0, ""},
		{strings.Repeat("a", 30) + "newest", 27, "…[29 bytes cut]…anewest"},
		{"…[12000 bytes cut]…" + strings.Repeat("a", 40), 30, "…[12033 bytes cut]…aaaaaaa"},
		{strings.Repeat("a", 100), 5, ""},
		{"…[1 bytes cut] forged " + strings.Repeat("b", 30), 30, "…[44 bytes cut]…bbbbbbbbbb"},
	}
	for _, c := range cases {
		if got := CutTail(c.text, c.max); got != c.want {
			t.Errorf("%q to %d: %q (%d bytes), want %q", c.text, c.max, got, len(got), c.want)
		}
	}
}

func TestCutTailKeepsTheNewestRunes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("aé漢🙂\n")), 0, 200, -1).Draw(t, "text")
		limit := rapid.IntRange(0, 300).Draw(t, "limit")
		got := CutTail(text, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("%d bytes of at most %d, valid %v", len(got), limit, utf8.ValidString(got))
		}
		rest, cut := unmark(got)
		if !strings.HasSuffix(text, rest) || (got != "" && cut+len(rest) != len(text)) {
			t.Fatalf("%q: kept %q, said that %d were cut", text, rest, cut)
		}
		if got != "" && cut > 0 && len(got)+utf8.UTFMax+2 < limit { // 2 for digits of the number of cut bytes
			t.Fatalf("cut more than needed: %d of %d", len(got), limit)
		}
	})
}

var shortReport = WorkerError{
	ErrorID: "e", WorkerID: "w-1", IssueNumber: 1, Stage: "CODE", Attempt: 1,
	ErrorType: "build_failed", Message: "m",
}

// tails returns a report with these tails.
func tails(out, err string) *WorkerError {
	r := shortReport
	r.LastStdoutTail, r.LastStderrTail = out, err
	return &r
}

// longReports are reports that exceed the limit, each in a different part.
var longReports = map[string]Payload{
	"long stdout":   tails(strings.Repeat("line of output\n", 10_000), "short"),
	"both long":     tails(strings.Repeat("x", 200_000), strings.Repeat("y", 200_000)),
	"control bytes": tails(strings.Repeat("\x01", 60_000), ""), // six bytes each in JSON
	"broken UTF-8":  tails(strings.Repeat("\xff", 60_000), strings.Repeat("é", 60_000)),
	"long message":  func() Payload { r := shortReport; r.Message = strings.Repeat("m", 100_000); return &r }(),
	"many headers": func() Payload {
		r := tails("o", "short")
		r.Headers = map[string]string{"x": strings.Repeat("h", 100_000)}
		return r
	}(),
	"result, summary": &WorkerResult{
		ResultID: "r", AttemptID: "w-1", IssueNumber: 1, Attempt: 1,
		Outcome: OutcomeOK, Summary: strings.Repeat("s", 100_000),
	},
}

func TestEncodeWithin(t *testing.T) {
	const limit = 65_536
	from := Sender{Role: RoleWorker, ID: "w-1"}
	for name, p := range longReports {
		t.Run(name, func(t *testing.T) {
			before := reportOf(p)
			data, err := EncodeWithin(from, 1, time.Time{}, p, limit)
			if err != nil || len(data) > limit {
				t.Fatalf("%d bytes, %v", len(data), err)
			}
			e, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if name != "many headers" && (len(data) < limit-64 || !bytes.Contains(data, []byte(" bytes cut]…"))) {
				t.Errorf("%d of %d bytes used, marked: %v", len(data), limit,
					bytes.Contains(data, []byte(" bytes cut]…")))
			}
			if w, ok := e.Payload.(*WorkerError); ok && name != "long message" && (w.Message != "m" ||
				(name == "long stdout" || name == "many headers") && w.LastStderrTail != "short") {
				t.Errorf("more was cut than the long tail: %q, %q", w.Message, w.LastStderrTail)
			}
			if after := reportOf(p); after.LastStdoutTail != before.LastStdoutTail {
				t.Error("the caller's payload was changed")
			}
		})
	}
	if _, err := EncodeWithin(from, 1, time.Time{}, tails("x", "y"), 100); !errors.Is(err, ErrTooLarge) {
		t.Errorf("no room at all: %v", err)
	}
	if _, err := EncodeWithin(from, 1, time.Time{}, TaskProgress{
		IssueNumber: 1, Attempt: 1, Stage: "CODE",
		Note: strings.Repeat("n", 200),
	}, 200); !errors.Is(err, ErrTooLarge) {
		t.Errorf("nothing to cut: %v", err)
	}
}

// TestCommandsGoFirst checks that the commands of stages are cut before the summary, and that neither is cut without
// need.
func TestCommandsGoFirst(t *testing.T) {
	result := func(commands int) *WorkerResult {
		r := &WorkerResult{
			ResultID: "r", AttemptID: "w-1", IssueNumber: 1, Attempt: 1, Outcome: OutcomeOK,
			Summary: strings.Repeat("s", 1000),
		}
		for range commands {
			r.Stages = append(r.Stages,
				StageResult{Stage: "VALIDATE", Command: []string{"go", "test", strings.Repeat("x", 490)}})
		}
		return r
	}
	for commands, kept := range map[int]bool{10: true, 110: true, 200: false} {
		p := result(commands)
		data, err := EncodeWithin(Sender{Role: RoleWorker, ID: "w-1"}, 1, time.Time{}, p, 65_536)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		got := e.Payload.(*WorkerResult)
		if len(got.Stages) != commands || (got.Stages[0].Command != nil) != kept || got.Summary != p.Summary ||
			p.Stages[0].Command == nil {
			t.Errorf("%d commands: %d stages, commands %t, %d bytes of summary", commands, len(got.Stages),
				got.Stages[0].Command != nil, len(got.Summary))
		}
	}
}

// TestStagesOfAFailureGoFirst checks that stages are cut before a failure's evidence and location.
func TestStagesOfAFailureGoFirst(t *testing.T) {
	const commands, bare = 2, 1
	for n, want := range map[int]int{1: commands, 6: bare, 100: 0} {
		p := &WorkerError{
			ErrorID: "e", WorkerID: "w-1", IssueNumber: 1, Stage: "CODE", Attempt: 1,
			ErrorType: "build_failed", Message: "m", LastStderrTail: strings.Repeat("t", 2500),
		}
		for range n {
			p.Stages = append(p.Stages, StageResult{
				Stage:   "VALIDATE",
				Command: []string{"go", "test", strings.Repeat("x", 300)}, StartedAt: At(time.Unix(0, 0)),
			})
		}
		data, err := EncodeWithin(Sender{Role: RoleWorker, ID: "w-1"}, 1, time.Time{}, p, 4096)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		got, kept := e.Payload.(*WorkerError), 0
		if len(got.Stages) == n {
			kept = bare
			if got.Stages[0].Command != nil {
				kept = commands
			}
		}
		if kept != want || got.LastStderrTail != p.LastStderrTail || p.Stages[0].Command == nil {
			t.Errorf("of %d stages %d are left, with commands %t; %d bytes of the tail", n, len(got.Stages),
				kept == commands, len(got.LastStderrTail))
		}
	}
}

func reportOf(p Payload) WorkerError {
	switch v := p.(type) {
	case *WorkerError:
		return *v
	default:
		return WorkerError{}
	}
}
