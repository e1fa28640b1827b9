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

// demo is the directory of the demo, because tests change the working directory.
var demo, _ = filepath.Abs("..") // fails only without a working directory

// checkout changes into a fresh copy of the demo's repository, and returns the texts of its issues by number.
func checkout(t *testing.T) (issues map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, f := range archive(t, "widgets.txtar") {
		if err := write(f.Name, string(f.Data)); err != nil {
			t.Fatal(err)
		}
	}
	issues = map[string]string{}
	for _, f := range archive(t, "issues.txtar") {
		_, issues[f.Name], _ = strings.Cut(string(f.Data), "\n")
	}
	return issues
}

func archive(t *testing.T, name string) []txtar.File {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join(demo, name))
	if err != nil {
		t.Fatal(err)
	}
	return a.Files
}

// attempt runs the agent on an issue with this text, in round fix of an attempt.
func attempt(t *testing.T, body string, a wire.AttemptFile, fix int) error {
	t.Helper()
	a.Issue.Body = body
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(filepath.Join(".retake", "attempt.json"), string(data)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RETAKE_FIX_ROUND", strconv.Itoa(fix))
	return run()
}

func goTool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOPROXY=off", "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// passes builds, vets and tests the checkout like the demo's stages, and returns the built programs.
func passes(t *testing.T) (programs []string) {
	t.Helper()
	if err := os.RemoveAll("bin"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"build", "-o", "bin/", "./..."}, {"vet", "./..."}, {"test", "./..."}} {
		if out, err := goTool(t, args...); err != nil {
			t.Errorf("go %v: %v\n%s", args, err, out)
		}
	}
	programs, _ = filepath.Glob("bin/*") // the pattern is well-formed
	return programs
}

// contains fails the test unless a file of the checkout has a text in it.
func contains(t *testing.T, file, text string) {
	t.Helper()
	if data, err := os.ReadFile(filepath.FromSlash(file)); err != nil || !strings.Contains(string(data), text) {
		t.Errorf("%s: want %q in it (%v)\n%s", file, text, err, data)
	}
}

// told returns the file of a second attempt with a hint.
func told(text string) wire.AttemptFile {
	return wire.AttemptFile{Attempt: 2, Hints: []wire.Hint{{From: "octocat", Text: text}}}
}

// The issues touch different files, so one checkout has the work on all of them. Go checks it twice: after the first
// scripts, and after the scripts with hints.
func TestScriptsPassWhatJudgesThem(t *testing.T) {
	issues := checkout(t)
	if programs := passes(t); !slices.Equal(programs, []string{"bin/pricelist"}) {
		t.Fatalf("the repository builds %v, want bin/pricelist", programs)
	}
	works := func(issue string, a wire.AttemptFile) {
		t.Helper()
		if err := attempt(t, issues[issue], a, 1); err != nil {
			t.Errorf("issue %s: %v", issue, err)
		}
	}
	first := wire.AttemptFile{Attempt: 1}
	t.Setenv(providerVariable, "")
	works("1", first)
	asksItsModel(t, issues["4"])
	goesOn(t, issues["6"], "stock", "stock/limits.go")
	goesOn(t, issues["7"], "quantity", "quantity/units.go")
	for issue, question := range map[string]string{"9": "short form", "13": "format A"} {
		works(issue, first)
		contains(t, ".retake/question.md", question)
		if err := attempt(t, issues[issue], told("yes"), 1); err == nil {
			t.Errorf("issue %s: an empty answer was accepted", issue)
		}
	}
	works("9", told("use the long form"))
	contains(t, "weight/weight.go", "%d kilograms")
	works("13", told("use format B"))
	contains(t, "export/export.go", "%d;%d")
	works("10", first)
	works("11", first)
	if text, _ := os.ReadFile("shelf/shelf.go"); strings.Contains(string(text), "// Number ") {
		t.Error("shelf: the first attempt passes the check")
	}
	works("12", first)
	contains(t, "publish/publish.go", plantedKey)
	passes(t)

	works("8", first)
	works("9", told("the short one, please"))
	contains(t, "weight/weight.go", "%d kg")
	works("13", told("use format A"))
	contains(t, "export/export.go", "%d,%d")
	if err := attempt(t, issues["11"], wire.AttemptFile{Attempt: 2}, 1); err == nil {
		t.Error("shelf: it fixed the fault without a hint")
	}
	works("11", told("shelf/shelf.go:7: exported func Number has no comment"))
	contains(t, "shelf/shelf.go", "// Number ")
	if programs := passes(t); !slices.Equal(programs, []string{"bin/prices"}) {
		t.Errorf("built: %v, want bin/prices", programs)
	}
}

// asksItsModel checks that the agent sends its question to the model's address, and fails without an answer.
func asksItsModel(t *testing.T, issue string) {
	t.Helper()
	var prompt []byte
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		prompt, _ = io.ReadAll(r.Body)
	}))
	t.Setenv(modelVariable, model.URL)
	if err := attempt(t, issue, wire.AttemptFile{Attempt: 1, Summary: "do it"}, 1); err != nil {
		t.Error(err)
	}
	if model.Close(); string(prompt) != "do it" {
		t.Errorf("the model got the question %q", prompt)
	}
	if err := attempt(t, issue, wire.AttemptFile{Attempt: 1}, 1); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without a model: %v, want %v", err, syscall.ECONNREFUSED)
	}
}

// goesOn checks that the second attempt needs the work of the first attempt, and continues from it.
func goesOn(t *testing.T, issue, script, half string) {
	t.Helper()
	second := wire.AttemptFile{AttemptID: "k3v9qx2m-2", Attempt: 2}
	if err := attempt(t, issue, second, 1); err == nil {
		t.Errorf("%s: the second attempt succeeded without the first one's half", script)
	}
	began := round{attempt: wire.AttemptFile{AttemptID: "k3v9qx2m-1", Attempt: 1}} // the script writes before it thinks
	if err := errors.Join(put(began, script, 1), attempt(t, issue, second, 1)); err != nil {
		t.Fatal(err)
	}
	contains(t, half, "// Started in attempt k3v9qx2m-1.")
}

func TestAcceptanceTestAsksForSomethingNew(t *testing.T) {
	path, text, err := acceptanceTest(checkout(t)["1"])
	if err == nil {
		err = write(path, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := goTool(t, "vet", "./price"); err == nil {
		t.Errorf("go vet passes without the work:\n%s", out)
	}
}

func TestWrongScriptsFailAsTheyShould(t *testing.T) {
	for _, c := range []struct {
		issue, tool string
		want        []string // expected output of each round; the last one repeats
	}{
		{"2", "build", []string{"undefined: exchange", "cannot use", "undefined: dailyRate", "undefined: dailyRate"}},
		{"3", "test", []string{
			"widgets cost $3, want $3.75", "widgets cost $3.8, want $3.75", "widgets cost $4, want $3.75",
		}},
	} {
		issues := checkout(t)
		for i, want := range c.want {
			if err := attempt(t, issues[c.issue], wire.AttemptFile{Attempt: 1}, i+1); err != nil {
				t.Fatal(err)
			}
			if out, err := goTool(t, c.tool, "./price"); err == nil || !strings.Contains(out, want) {
				t.Errorf("issue %s, round %d: %v, want %q in\n%s", c.issue, i+1, err, want, out)
			}
		}
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

func TestEveryIssueWithATestHasAScript(t *testing.T) {
	issues := checkout(t)
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
		t.Error("a text without a test was accepted")
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
