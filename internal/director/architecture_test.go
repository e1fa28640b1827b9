package director

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const architecture = root + "/docs/architecture.md"

// walkStep is file:function, or a file alone.
var walkStep = regexp.MustCompile("`((?:internal|cmd)/[\\w./-]+\\.\\w+)(?::(\\w+))?`")

// walkFiles bounds how many files each walk may lead through: a longer one means that a detour was built.
var walkFiles = map[string]int{
	"A `worker_error.v1` to the comment":        12,
	"A missed heartbeat to the fresh container": 12,
	"`/agent retry` to the resumed attempt":     12,
}

// TestArchitectureNamesWhatExists: every file and function that the page names is there, and the walks stay short.
func TestArchitectureNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	heading, files := "", map[string]map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(line, "#"); ok {
			heading = strings.TrimSpace(strings.TrimLeft(title, "#"))
			files[heading] = map[string]bool{}
		}
		for _, step := range walkStep.FindAllStringSubmatch(line, -1) {
			files[heading][step[1]] = true
			if !declares(t, filepath.Join(root, step[1]), step[2]) {
				t.Errorf("%s: %s has no function %s", heading, step[1], step[2])
			}
		}
	}
	for walk, most := range walkFiles {
		if n := len(files[walk]); n == 0 || n > most {
			t.Errorf("%s: %d files, want 1 to %d", walk, n, most)
		}
	}
}

// declares reports whether a file is there and, if a function is named, declares it.
func declares(t *testing.T, path, function string) bool {
	if function == "" {
		_, err := os.Stat(path)
		return err == nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return false
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == function {
			return true
		}
	}
	return false
}
