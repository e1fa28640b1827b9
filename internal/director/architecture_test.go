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

// walks are the walks of the page, and whether each enters no file twice. The others return to attempt.go.
var walks = map[string]bool{
	"A `worker_error.v1` to the comment":        true,
	"A missed heartbeat to the fresh container": false,
	"`/agent retry` to the resumed attempt":     false,
	"A takeover by a standby":                   true,
	"A webhook to the poll":                     true,
}

// walkFiles bounds how many files a walk may lead through: a longer one means that a detour was built.
const walkFiles = 13

// TestArchitectureNamesWhatExists: every file and function that the page names is there, and the walks stay short.
func TestArchitectureNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	heading, last, files := "", "", map[string]map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(line, "#"); ok {
			heading = strings.TrimSpace(strings.TrimLeft(title, "#"))
			files[heading], last = map[string]bool{}, ""
		}
		for _, step := range walkStep.FindAllStringSubmatch(line, -1) {
			if walks[heading] && files[heading][step[1]] && step[1] != last {
				t.Errorf("%s: %s is entered twice", heading, step[1])
			}
			files[heading][step[1]], last = true, step[1]
			if !declares(t, filepath.Join(root, step[1]), step[2]) {
				t.Errorf("%s: %s has no function %s", heading, step[1], step[2])
			}
		}
	}
	for walk := range walks {
		if n := len(files[walk]); n == 0 || n > walkFiles {
			t.Errorf("%s: %d files, want 1 to %d", walk, n, walkFiles)
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
