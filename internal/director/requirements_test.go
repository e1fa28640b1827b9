package director

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	root         = "../.."
	requirements = root + "/docs/specs/requirements.md"
	transcripts  = root + "/internal/fsm/testdata/"
)

var (
	quoted         = regexp.MustCompile("`([^`]+)`")
	testName       = regexp.MustCompile(`^[a-z]+\.(Test|Fuzz)\w+$`)
	transcriptName = regexp.MustCompile(`^\d\d-[a-z-]+$`)
	pathName       = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+$|^[\w-]+\.(yml|md)$|^Makefile$`)
)

// TestRequirementsNameWhatExists checks the page of requirements. Every test, transcript and path that it names is in
// the tree, its rows are in order, and each names its proof, or "none".
func TestRequirementsNameWhatExists(t *testing.T) {
	page, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	tests, rows, last := testNames(t), 0, map[string]int{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		id := strings.TrimSpace(cells[0])
		n, err := strconv.Atoi(strings.TrimLeft(id, "RC"))
		if len(cells) < 3 || err != nil {
			continue
		}
		rows++
		if n <= last[id[:1]] {
			t.Errorf("%s is a duplicate, or out of order", id)
		}
		last[id[:1]] = n
		for i, cell := range cells[2:] {
			checkNames(t, id, cell, tests, id[0] == 'R' && i == 2)
		}
	}
	if rows < 80 {
		t.Errorf("read %d rows, want all", rows)
	}
}

// TestKindsOfRepositoriesNameTheirTests checks that each row of the page has tests, and that these are in the tree.
func TestKindsOfRepositoriesNameTheirTests(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/specs/repositories.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, rows := testNames(t), 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.Contains(cells[2], "shown by") {
			continue
		}
		rows++
		checkNames(t, strings.TrimSpace(cells[0]), strings.ReplaceAll(cells[2], "(`make nightly`)", ""), tests, true)
	}
	if rows < 20 {
		t.Errorf("%d rows read, want all", rows)
	}
}

// checkNames checks the names in a cell. In the column of proofs everything must be a proof.
func checkNames(t *testing.T, id, cell string, tests map[string]bool, proofs bool) {
	names := quoted.FindAllStringSubmatch(cell, -1)
	if proofs && len(names) == 0 && strings.TrimSpace(cell) != "none" {
		t.Errorf("%s: %q names no test; write none", id, cell)
	}
	for _, q := range names {
		switch name := q[1]; {
		case testName.MatchString(name):
			if !tests[name] {
				t.Errorf("%s: there is no test %s", id, name)
			}
		case transcriptName.MatchString(name):
			mustExist(t, id, transcripts+name+".txt")
		case proofs:
			t.Errorf("%s: %q names neither a test nor a transcript", id, name)
		case pathName.MatchString(name):
			mustExist(t, id, filepath.Join(root, name))
		}
	}
}

func mustExist(t *testing.T, id, path string) {
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s: %v", id, err)
	}
}

// testNames returns all tests of the module, as package.Test.
func testNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				names[strings.TrimSuffix(file.Name.Name, "_test")+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
