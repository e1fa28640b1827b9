package classify

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"retake/internal/recovery"
	"retake/internal/testfiles"
)

// inventorySeed chooses the samples of TestInventoryNeverDecides.
const inventorySeed = 32

// wantInventories is the greatest share of readings that an inventory may change.
const wantInventories = 0.005

// inventory is a list of names that contain words for failures, such as names of tests, as a program prints it.
type inventory struct{ name, text string }

func inventories(t *testing.T) (all []inventory) {
	t.Helper()
	data, err := os.ReadFile("testdata/inventories.txt")
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq("\n"+string(data), "\n== ") {
		if name, text, ok := strings.Cut(part, "\n"); ok && name != "" {
			all = append(all, inventory{name, strings.TrimSuffix(text, "\n") + "\n"})
		}
	}
	if len(all) < 20 {
		t.Fatalf("%d inventories, want at least 20", len(all))
	}
	return all
}

// everyLine returns the texts of all corpora.
func everyLine(t *testing.T) []testfiles.Line {
	lines := testfiles.Corpus(t)
	for _, file := range written {
		lines = append(lines, writtenLines(t, file)...)
	}
	for file := range labelledLists {
		for _, row := range readLabelled(t, file) {
			lines = append(lines, row.Line)
		}
	}
	return lines
}

// insertions lists the positions of an inventory around or in a text.
var insertions = []struct {
	name string
	of   func(text, names string) string
}{
	{"in front", func(text, names string) string { return names + text }},
	{"between", func(text, names string) string {
		lines := strings.SplitAfter(text, "\n")
		half := strings.Join(lines[:len(lines)/2], "")
		return half + names + text[len(half):]
	}},
	{"behind", func(text, names string) string { return strings.TrimSuffix(text, "\n") + "\n" + names }},
}

// TestInventoryNeverDecides checks that names of passed tests, packages and files do not change a reading. The daily
// test tries four inventories for each text, drawn with inventorySeed. RETAKE_NIGHTLY=1 tries all inventories at all
// positions.
func TestInventoryNeverDecides(t *testing.T) {
	c, lists := newClassifier(t), inventories(t)
	draw := rand.New(rand.NewPCG(inventorySeed, 0)) //nolint:gosec // a reproducible sample
	all := os.Getenv("RETAKE_NIGHTLY") == "1"
	changed, of := 0, 0
	by := map[string]int{}
	try := func(l testfiles.Line, want recovery.Reason, list, at int) {
		e := evidenceOf(l)
		e.Stderr = insertions[at].of(l.Text, lists[list].text)
		of++
		if got := c.Classify(e); got.Reason != want {
			changed++
			by[insertions[at].name]++
			by[lists[list].name]++
			t.Logf("%s %s, %s %s: %s becomes %s by %s: %.100q", l.File, l.ID, lists[list].name, insertions[at].name,
				want, got.Reason, got.Rule, got.Cause)
		}
	}
	for _, l := range everyLine(t) {
		want := c.Classify(evidenceOf(l)).Reason
		if !all {
			for range 4 {
				try(l, want, draw.IntN(len(lists)), draw.IntN(len(insertions)))
			}
			continue
		}
		for list := range lists {
			for at := range insertions {
				try(l, want, list, at)
			}
		}
	}
	share := float64(changed) / float64(of)
	t.Logf("%d of %d readings change, %.2f %%: %v", changed, of, 100*share, by)
	if share > wantInventories {
		t.Errorf("%.2f %% of the readings change, want at most %.1f %%", 100*share, 100*wantInventories)
	}
}

// TestInventoryAlone checks that a text with only an inventory is read like a text without evidence. An exception is
// SIGKILL: then an inventory of running tests means that the tests failed.
func TestInventoryAlone(t *testing.T) {
	c := newClassifier(t)
	for _, list := range inventories(t) {
		for _, stage := range []string{"", "CODE", "VALIDATE"} {
			for _, code := range []int{0, 1, 137, 143} {
				e := recovery.Evidence{Stderr: list.text, ExitCode: exit(code), Stage: stage}
				want := recovery.Evidence{Stderr: "nothing of note\n", ExitCode: exit(code), Stage: stage}
				got, plain := c.Classify(e), c.Classify(want)
				ofTests := code == codeKilled && got.Rule == "check" && got.Reason == recovery.TestsFailed
				if got.Reason != plain.Reason && !ofTests {
					t.Errorf("%s, stage %q, exit %d: %s by %s: %q, want %s", list.name, stage, code, got.Reason,
						got.Rule, got.Cause, plain.Reason)
				}
			}
		}
	}
}

// TestNamesAreNoEvents classifies outputs that earlier rules misread because of a name.
func TestNamesAreNoEvents(t *testing.T) {
	c := newClassifier(t)
	const killed = "tests/test_a.py::test_rate_limit_exceeded PASSED [ 50%]\n" +
		"tests/test_a.py::test_rounding Killed\n"
	for _, tc := range []struct {
		stage, text string
		exit        int
		want        recovery.Reason
	}{
		{"VALIDATE", killed, 137, recovery.TestsFailed},
		{"VALIDATE", "plugins: timeout-2.1.0\ntimeout: 60.0s\ncollected 1 item\n", 137, recovery.TestsFailed},
		{"VALIDATE", "plugins: timeout-2.1.0\ntimeout: 60.0s\n", 137, recovery.Unknown},
		{"VALIDATE", "=== RUN   TestRateLimit/burst\n--- PASS: TestRateLimit (0.00s)\n", 1, recovery.Validation},
		{"", "cc -c -o ratelimit.o ratelimit.c\nmake: *** [Makefile:2: all] Error 1\n", 2, recovery.BuildFailed},
		{"CODE", "├── rate-limiter@1.0.0\n└── ratelimit@2.0.1\n", 1, recovery.Unknown},
		{"CODE", "timeout (default: 0.2.0)\n", 1, recovery.Unknown},
		{"CODE", "   Compiling rate-limit v0.1.0\nerror: 429 Too Many Requests\n", 1, recovery.RateLimited},
		{"CODE", "ratelimit.go: rate limit exceeded, try again in 7s\n", 1, recovery.RateLimited},
		{"VALIDATE", "client: the rate limit is 5 per minute\n", 1, recovery.Validation},
		{"VALIDATE", "npm error 429 Too Many Requests\n", 1, recovery.RateLimited},
		{"VALIDATE", "client: 429 Too Many Requests\n2 of 31 tests failed\n", 1, recovery.TestsFailed},
	} {
		e := recovery.Evidence{Stage: tc.stage, Stderr: tc.text, ExitCode: exit(tc.exit)}
		if f := c.Classify(e); f.Reason != tc.want {
			t.Errorf("%s %d %q: %s by %s, want %s", tc.stage, tc.exit, tc.text, f.Reason, f.Rule, tc.want)
		}
	}
}

// TestStatedStatusPrecedesHTML classifies pages that gateways send with a status.
func TestStatedStatusPrecedesHTML(t *testing.T) {
	c := newClassifier(t)
	const form = "error, status code: %s, message: invalid character '<' looking for beginning of value, body: <html>"
	for status, want := range map[string]recovery.Reason{
		"500, status: 500 Internal Server Error": recovery.Overloaded,
		"502, status: 502 Bad Gateway":           recovery.NetworkTransient,
		"503, status: 503 Service Unavailable":   recovery.Overloaded,
		"504, status: 504 Gateway Timeout":       recovery.Timeout,
		"200, status: 200 OK":                    recovery.NetworkPermanent,
	} {
		text := strings.Replace(form, "%s", status, 1)
		if f := c.Classify(recovery.Evidence{Stage: "CODE", Stderr: text, ExitCode: exit(1)}); f.Reason != want {
			t.Errorf("%q: %s by %s, want %s", text, f.Reason, f.Rule, want)
		}
	}
}
