package director

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecture = root + "/docs/architecture.md"

// walkStep matches a file with or without a function.
var walkStep = regexp.MustCompile("`((?:internal|cmd)/[\\w./-]+\\.\\w+)(?::(\\w+))?`")

// walks are the headings of the page's walkthroughs. A walkthrough follows one event through the code.
var walks = []string{
	"A `worker_error.v1` to the comment", "A missed heartbeat to the fresh container",
	"`/agent retry` to the resumed attempt", "A takeover by a standby", "A webhook to the poll",
}

// walkFiles limits the number of files in a walkthrough.
const walkFiles = 13

// section returns the text between a heading of the page and the next one.
func section(t *testing.T, heading string) string {
	t.Helper()
	page, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "# "+heading+"\n")
	if !found {
		t.Fatalf("the page has no %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n#")
	return text
}

// TestArchitectureNamesWhatExists checks that every file and function that the page names exists.
func TestArchitectureNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range walkStep.FindAllStringSubmatch(string(page), -1) {
		if step[2] == "" {
			if _, err := os.Stat(filepath.Join(root, step[1])); err != nil {
				t.Error(err)
			}
		} else if len(declared(t, step[1], step[2])) == 0 {
			t.Errorf("%s has no function %s", step[1], step[2])
		}
	}
}

// TestWalksAreShortAndEnterNoFileTwice checks that a walkthrough has few files, and does not return to a file.
func TestWalksAreShortAndEnterNoFileTwice(t *testing.T) {
	for _, walk := range walks {
		entered, last := map[string]bool{}, ""
		for _, step := range walkStep.FindAllStringSubmatch(section(t, walk), -1) {
			if entered[step[1]] && step[1] != last {
				t.Errorf("%s: %s is entered twice", walk, step[1])
			}
			entered[step[1]], last = true, step[1]
		}
		if n := len(entered); n == 0 || n > walkFiles {
			t.Errorf("%s: %d files, want 1 to %d", walk, n, walkFiles)
		}
	}
}

// mostHops limits the number of times that the path from a question to its answer changes the package.
const mostHops = 3

// TestSixQuestionsTakeThreeHops checks that each arrow of a path is a call in the code, and that at most mostHops of
// them leave a package.
func TestSixQuestionsTakeThreeHops(t *testing.T) {
	questions := 0
	for line := range strings.Lines(section(t, "Six questions")) {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 || !walkStep.MatchString(cells[1]) {
			continue
		}
		questions++
		question, hops, began := strings.TrimPrefix(cells[0], "| "), 0, ""
		for part := range strings.SplitSeq(cells[1], ";") {
			steps := walkStep.FindAllStringSubmatch(strings.Split(part, ", ")[0], -1)
			if began != "" && path.Dir(steps[0][1]) != began {
				hops++
			}
			began = path.Dir(steps[0][1])
			for i, to := range steps[1:] {
				from := steps[i]
				if path.Dir(from[1]) != path.Dir(to[1]) {
					hops++
				}
				if !calls(t, from[1], from[2], to[2]) {
					t.Errorf("%s: %s:%s does not call %s", question, from[1], from[2], to[2])
				}
			}
		}
		t.Logf("%d hops: %s", hops, question)
		if hops > mostHops {
			t.Errorf("%s: %d hops, want at most %d", question, hops, mostHops)
		}
	}
	if questions != 6 {
		t.Errorf("%d questions, want 6", questions)
	}
}

// shared matches the parts of the director that all parts may import.
var shared = regexp.MustCompile(`^retake/internal/director/(disk|failure|inforce|internal/witness|loop|operator|reports|view)\b`)

// joins lists the other parts that a part may import.
var joins = map[string][]string{
	"offline":   {"lead", "restore"},
	"preflight": {"engine", "lead", "offline", "restore"},
	"upkeep":    {"lead", "restore"},
}

// TestPartsMeetInTheDirector checks that a part of the director imports only shared parts.
func TestPartsMeetInTheDirector(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			name := strings.Trim(i.Path.Value, `"`)
			if strings.HasPrefix(name, "retake/internal/director") && !shared.MatchString(name) &&
				!slices.Contains(joins[filepath.Dir(file)], path.Base(name)) {
				t.Errorf("%s imports %s", file, name)
			}
		}
	}
}

// declared returns a file's functions and methods of a name.
func declared(t *testing.T, file, function string) (all []*ast.FuncDecl) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == function {
			all = append(all, f)
		}
	}
	return all
}

// calls reports whether a function of a file names another one.
func calls(t *testing.T, file, function, callee string) (found bool) {
	t.Helper()
	for _, f := range declared(t, file, function) {
		ast.Inspect(f.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == callee
			return !found
		})
	}
	return found
}
