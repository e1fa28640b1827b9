package fsmtest

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// plantedVar selects the mutant in a simulator with several mutants, by its number from 1.
const plantedVar = "RETAKE_PLANTED"

// chooser is added to each package with mutants.
const chooser = `
import (
	"os"
	"strconv"
)

var planted, _ = strconv.Atoi(os.Getenv("` + plantedVar + `"))
`

// overlay maps files to their replacements.
type overlay map[string]string

// plant writes the bugs into copies of the production code. All bugs within functions share one copy, because a build
// takes longer than most searches; the variable planted selects the active bug. A bug in a table or a type gets a
// separate copy, under its index in mutants.
func plant(t *testing.T, internal string) (joined overlay, alone map[int]overlay) {
	t.Helper()
	joined, alone = overlay{}, map[int]overlay{}
	bodies := map[string][]change{}
	for i, m := range mutants {
		file := filepath.Join(internal, m.file)
		source := read(t, file)
		if n := strings.Count(source, m.old); n != 1 {
			t.Fatalf("%s has %d places like this, the mutant needs one:\n%s", m.file, n, m.old)
		}
		if c, ok := within(t, file, source, m); ok {
			c.number = i + 1
			bodies[file] = append(bodies[file], c)
		} else {
			alone[i] = overlay{file: strings.Replace(source, m.old, m.new, 1)}
		}
	}
	for file, changes := range bodies {
		// insert from the end, so that the other offsets stay valid
		slices.SortFunc(changes, func(a, b change) int { return b.at - a.at })
		source := read(t, file)
		for _, c := range changes {
			source = source[:c.at] + c.text() + source[c.at:] + mutantTails[mutants[c.number-1].name]
		}
		joined[file] = source
		dir := filepath.Dir(file)
		joined[filepath.Join(dir, "planted.go")] = "package " + filepath.Base(dir) + "\n" + chooser
	}
	return joined, alone
}

// change is an alternative body of a function.
type change struct {
	number        int // of the mutant, from 1
	at            int // offset of the function's own body
	results, body string
}

// text returns the code to insert before the function's own body.
func (c change) text() string {
	call := "func() " + c.results + " {" + c.body + "}()"
	if c.results == "" {
		call += "; return"
	} else {
		call = "return " + call
	}
	return " if planted == " + strconv.Itoa(c.number) + " { " + call + " }\n"
}

// within returns the mutant as an alternative body of the function that it changes. It returns false if the mutant is
// not within a function.
func within(t *testing.T, file, source string, m mutant) (change, bool) {
	t.Helper()
	fset := gotoken.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	at := func(p gotoken.Pos) int { return fset.Position(p).Offset }
	from := strings.Index(source, m.old)
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || at(f.Body.Lbrace) >= from || at(f.Body.Rbrace) < from+len(m.old) {
			continue
		}
		c := change{at: at(f.Body.Lbrace) + 1}
		if f.Type.Results != nil {
			c.results = source[at(f.Type.Results.Pos()):at(f.Type.Results.End())]
		}
		c.body = strings.Replace(source[c.at:at(f.Body.Rbrace)], m.old, m.new, 1)
		return c, true
	}
	return change{}, false
}

// build compiles the simulator with replaced files. The sources do not change.
func build(t *testing.T, files overlay) (bin string) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range files {
		changed, err := os.CreateTemp(dir, "*.go")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := changed.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := changed.Close(); err != nil {
			t.Fatal(err)
		}
		replace[file] = changed.Name()
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-overlay", list, "-o", bin,
		"./cmd/sim").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
