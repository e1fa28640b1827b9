package director

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestThreatModelNamesWhatExists checks that every row in docs/specs/attacks.md names a test, or a row of the attacks,
// and that all of them exist.
func TestThreatModelNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/specs/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, attacks, lines := testNames(t), attackNames(t), 0
	inside := false
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		if len(cells) == 3 && strings.TrimSpace(cells[2]) == "shown by" {
			inside = true
			continue
		}
		if !inside || strings.HasPrefix(cells[0], "---") {
			continue
		}
		lines++
		names := quoted.FindAllStringSubmatch(cells[2], -1)
		if len(cells) != 3 || len(names) == 0 {
			t.Errorf("nothing shows %q", line)
		}
		for _, q := range names {
			if name := q[1]; !tests[name] && !attacks[name] {
				t.Errorf("%q names neither a test nor an attack: %s", name, strings.TrimSpace(cells[0]))
			}
		}
	}
	if lines < 25 || len(attacks) < 50 {
		t.Errorf("read %d lines and %d attacks, want all", lines, len(attacks))
	}
}

// attackNames returns the names in the tables of attacks.
func attackNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(root + "/internal/attack/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, isName := pair.Key.(*ast.Ident)
			value, isText := pair.Value.(*ast.BasicLit)
			if isName && isText && key.Name == "name" {
				if name, err := strconv.Unquote(value.Value); err == nil {
					names[name] = true
				}
			}
			return true
		})
	}
	return names
}
