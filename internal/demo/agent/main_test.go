package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"

	"retake/internal/bus/wire"
)

func TestMain(m *testing.M) {
	reads = 0
	os.Exit(m.Run())
}

// demo is the folder of the demo; tests change theirs.
var demo, _ = filepath.Abs("..") // fails only without a working directory

// checkout is the demo's repository, and the texts of its issues by number.
func checkout(t *testing.T) (dir string, issues map[string]string) {
	t.Helper()
	dir, issues = t.TempDir(), map[string]string{}
	for _, f := range archive(t, "widgets.txtar") {
		put := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(put), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(put, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range archive(t, "issues.txtar") {
		_, issues[f.Name], _ = strings.Cut(string(f.Data), "\n")
	}
	return dir, issues
}

func archive(t *testing.T, name string) []txtar.File {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join(demo, name))
	if err != nil {
		t.Fatal(err)
	}
	return a.Files
}

// begin puts the attempt's file where the worker would.
func begin(t *testing.T, a wire.AttemptFile, fix string) {
	t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(".retake", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(".retake", "attempt.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RETAKE_FIX_ROUND", fix)
}

func goTool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOPROXY=off", "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestDiscountPassesItsTest(t *testing.T) {
	dir, issues := checkout(t)
	t.Chdir(dir)
	if out, err := goTool(t, "test", "./..."); err != nil {
		t.Fatalf("the repository is broken from the start: %v\n%s", err, out)
	}
	path, text, err := acceptanceTest(issues["1"])
	if err != nil {
		t.Fatal(err)
	}
	if err := write(path, text); err != nil {
		t.Fatal(err)
	}
	if out, err := goTool(t, "vet", "./..."); err == nil {
		t.Errorf("the acceptance test asks for nothing new:\n%s", out)
	}
	t.Setenv(providerVariable, "")
	begin(t, wire.AttemptFile{Attempt: 1, Issue: wire.IssueRef{Body: issues["1"]}}, "1")
	if err := run(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"build", "./..."}, {"vet", "./..."}, {"test", "./..."}} {
		if out, err := goTool(t, args...); err != nil {
			t.Errorf("go %v: %v\n%s", args, err, out)
		}
	}
}

func TestWrongScriptsFailAsTheyShould(t *testing.T) {
	for _, c := range []struct {
		issue string
		tool  string
		want  []string // in the output, by round; the last one stays
	}{
		{"2", "build", []string{"undefined: exchange", "cannot use", "undefined: dailyRate", "undefined: dailyRate"}},
		{"3", "test", []string{
			"widgets cost $3, want $3.75", "widgets cost $3.8, want $3.75",
			"widgets cost $4, want $3.75", "widgets cost $4, want $3.75",
		}},
	} {
		dir, issues := checkout(t)
		t.Chdir(dir)
		for i, want := range c.want {
			begin(t, wire.AttemptFile{Attempt: 1, Issue: wire.IssueRef{Body: issues[c.issue]}}, strconv.Itoa(i+1))
			if err := run(); err != nil {
				t.Fatal(err)
			}
			if out, err := goTool(t, c.tool, "./..."); err == nil || !strings.Contains(out, want) {
				t.Errorf("issue %s, round %d: %v, want %q in\n%s", c.issue, i+1, err, want, out)
			}
		}
	}
}

// attempt runs the agent on an issue in a fresh checkout, after what before does to it.
func attempt(t *testing.T, issue string, a wire.AttemptFile, before func()) error {
	t.Helper()
	dir, issues := checkout(t)
	t.Chdir(dir)
	if before != nil {
		before()
	}
	a.Issue.Body = issues[issue]
	begin(t, a, "1")
	return run()
}

func passes(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"build", "-o", "bin/", "./..."}, {"vet", "./..."}, {"test", "./..."}} {
		if out, err := goTool(t, args...); err != nil {
			t.Errorf("go %v: %v\n%s", args, err, out)
		}
	}
}

func TestHalvesGoOnWithTheFirstHalf(t *testing.T) {
	second := wire.AttemptFile{AttemptID: "k3v9qx2m-2", Attempt: 2}
	for script, c := range map[string]struct{ issue, half string }{
		"stock": {"6", "stock/limits.go"}, "quantity": {"7", "quantity/units.go"},
	} {
		if err := attempt(t, c.issue, second, nil); err == nil {
			t.Errorf("%s: the second attempt did without the first one's half", script)
		}
		first := func() { // what the script does before it thinks
			if err := put(round{attempt: wire.AttemptFile{AttemptID: "k3v9qx2m-1", Attempt: 1}}, script,
				1); err != nil {
				t.Fatal(err)
			}
		}
		if err := attempt(t, c.issue, second, first); err != nil {
			t.Fatal(err)
		}
		passes(t)
		half, err := os.ReadFile(filepath.FromSlash(c.half))
		if err != nil || !strings.Contains(string(half), "// Begun in attempt k3v9qx2m-1.") {
			t.Errorf("%v\n%s", err, half)
		}
	}
}

func TestShippingAsksTheModel(t *testing.T) {
	var prompt []byte
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		prompt,
			_ = io.ReadAll(r.Body)
	}))
	t.Setenv(modelVariable, model.URL)
	if err := attempt(t, "4", wire.AttemptFile{Attempt: 1, Summary: "do it"}, nil); err != nil ||
		string(prompt) != "do it" {
		t.Fatalf("%v, the model was asked %q", err, prompt)
	}
	passes(t)
	model.Close()
	if err := attempt(t, "4", wire.AttemptFile{Attempt: 1}, nil); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without a model: %v, want %v", err, syscall.ECONNREFUSED)
	}
}

func TestEatTouchesWhatItTakes(t *testing.T) {
	resident := func() (pages int) {
		var size int
		data, err := os.ReadFile("/proc/self/statm")
		if _, err2 := fmt.Sscan(string(data), &size, &pages); err != nil || err2 != nil {
			t.Skip("no /proc/self/statm: ", errors.Join(err, err2))
		}
		return pages
	}
	before := resident()
	kept := eat(64 << 20)
	if grown := (resident() - before) * os.Getpagesize(); grown < 60<<20 {
		t.Errorf("grown by %d bytes, want about 64 MiB", grown)
	}
	runtime.KeepAlive(kept)
}

func TestRenameLeavesNoOldProgram(t *testing.T) {
	if err := attempt(t, "8", wire.AttemptFile{Attempt: 1}, func() {
		passes(t)
		if _, err := os.Stat("bin/pricelist"); err != nil {
			t.Errorf("the repository's program is not built: %v", err)
		}
		if err := os.RemoveAll("bin"); err != nil {
			t.Fatal(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	passes(t)
	if programs, err := filepath.Glob("bin/*"); err != nil || !slices.Equal(programs, []string{"bin/prices"}) {
		t.Errorf("built: %v (%v), want bin/prices", programs, err)
	}
}

func TestQuestionsAreAskedAndAnswersObeyed(t *testing.T) {
	for _, c := range []struct {
		issue, file, asks string
		answers           map[string]string // what is in the file then
	}{
		{"9", "weight/weight.go", "short form", map[string]string{
			"use the long form":     "%d kilograms",
			"the short one, please": "%d kg",
		}},
		{"13", "export/export.go", "format A", map[string]string{"use format B": "%d;%d", "use format A": "%d,%d"}},
	} {
		if err := attempt(t, c.issue, wire.AttemptFile{Attempt: 1}, nil); err != nil {
			t.Fatal(err)
		}
		if asked, err := os.ReadFile(".retake/question.md"); err != nil || !strings.Contains(string(asked), c.asks) {
			t.Errorf("issue %s: asked %q (%v)", c.issue, asked, err)
		}
		for said, want := range c.answers {
			hints := []wire.Hint{{From: "octocat", Text: said}}
			if err := attempt(t, c.issue, wire.AttemptFile{Attempt: 2, Hints: hints}, nil); err != nil {
				t.Fatal(err)
			}
			passes(t)
			if text, err := os.ReadFile(c.file); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("issue %s, %q: %v\n%s", c.issue, said, err, text)
			}
		}
		if err := attempt(t, c.issue, wire.AttemptFile{Attempt: 2, Hints: []wire.Hint{{Text: "yes"}}},
			nil); err == nil {
			t.Errorf("issue %s: an answer that says nothing was taken", c.issue)
		}
	}
}

// The second attempt mends what the first forgot only if it is told.
func TestShelfMendsWhatItIsTold(t *testing.T) {
	told := []wire.Hint{{From: "check lint", Text: "shelf/shelf.go:7: exported func Number has no comment"}}
	for _, c := range []struct {
		attempt wire.AttemptFile
		want    bool // a comment
	}{{wire.AttemptFile{Attempt: 1}, false}, {wire.AttemptFile{Attempt: 2, Hints: told}, true}} {
		if err := attempt(t, "11", c.attempt, nil); err != nil {
			t.Fatal(err)
		}
		passes(t)
		text, err := os.ReadFile("shelf/shelf.go")
		if err != nil || strings.Contains(string(text), "// Number ") != c.want {
			t.Errorf("attempt %d: %v\n%s\nwith a comment: want %v", c.attempt.Attempt, err, text, c.want)
		}
	}
	if err := attempt(t, "11", wire.AttemptFile{Attempt: 2}, nil); err == nil {
		t.Error("it knew what was wrong, and nobody had said it")
	}
}

func TestPublishLeavesAKey(t *testing.T) {
	if err := attempt(t, "12", wire.AttemptFile{Attempt: 1}, nil); err != nil {
		t.Fatal(err)
	}
	passes(t)
	if text, err := os.ReadFile("publish/publish.go"); err != nil || !strings.Contains(string(text), plantedKey) {
		t.Errorf("%v\n%s\nwant the key in it", err, text)
	}
}

func TestTaxPassesItsTest(t *testing.T) {
	if err := attempt(t, "10", wire.AttemptFile{Attempt: 1}, nil); err != nil {
		t.Fatal(err)
	}
	passes(t)
}

func TestEveryIssueWithATestHasAScript(t *testing.T) {
	_, issues := checkout(t)
	var found []string
	for number, body := range issues {
		path, _, err := acceptanceTest(body)
		if err != nil {
			continue
		}
		if scripts[path] == nil {
			t.Errorf("issue %s: no script for %s", number, path)
		}
		found = append(found, path)
	}
	if len(found) != len(scripts) {
		t.Errorf("%d issues with a test, %d scripts: %v", len(found), len(scripts), found)
	}
}

func TestAcceptanceTestStaysInTheCheckout(t *testing.T) {
	for _, path := range []string{"../x_test.go", "/etc/x_test.go", "a/../../x_test.go"} {
		if got, _, err := acceptanceTest("```go\n// " + path + "\npackage x\n```"); err == nil {
			t.Errorf("%s: got %s", path, got)
		}
	}
	if _, _, err := acceptanceTest("no test here"); err == nil {
		t.Error("a text without a test was taken")
	}
}

func TestTriesAreFormatted(t *testing.T) {
	gofmt, err := exec.LookPath("gofmt")
	if err != nil {
		t.Skip("no gofmt in PATH")
	}
	for _, f := range slices.Concat(txtar.Parse(tries).Files, archive(t, "widgets.txtar")) {
		if !strings.HasSuffix(f.Name, ".go") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), gofmt)
		cmd.Stdin = strings.NewReader(string(f.Data))
		if out, err := cmd.Output(); err != nil || string(out) != string(f.Data) {
			t.Errorf("%s is not as gofmt writes it (%v)", f.Name, err)
		}
	}
}
