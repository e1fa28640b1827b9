package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// The kinds of code, which have different goals.
const (
	production = "production"
	harness    = "harness"
	tests      = "tests"
	document   = "document"
)

// harnessDirs are directories used only for tests, demonstrations and measurements. Their subdirectories are included.
var harnessDirs = []string{
	"bench", "cmd/demo", "cmd/githubsim", "cmd/providersim", "docs/examples", "internal/agenttest", "internal/attack",
	"internal/bench", "internal/bus/bustest", "internal/chaos", "internal/container/containertest",
	"internal/container/kubernetes/kubetest", "internal/demo", "internal/director/loop/looptest",
	"internal/fsm/fsmtest",
	"internal/github/githubtest", "internal/patience", "internal/recovery/recoverytest",
	"internal/sys/clockshift", "internal/sys/crashpoint", "internal/sys/powercut", "internal/testbed",
	"internal/testfiles",
	"internal/trace/tracetest", "internal/worker/testdata", "tools",
}

// file is one measured Go file.
type file struct {
	name     string
	pkg      string // its directory
	kind     string
	code     int // lines without comments and blank lines
	lines    int
	wide     []int // lines over 120 columns, except in raw strings
	widest   int
	funcs    []function
	exported int
	text     sentences
	errors   []sentence // texts of malformed errors
}

type function struct {
	name     string
	receiver string // type of the receiver, without the pointer
	line     int
	lines    int
}

type tree struct{ files []file }

// measure reads every Go file and document known to git.
func measure(root string) (*tree, error) {
	git := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard",
		"*.go", "*.md")
	git.Stderr = os.Stderr
	data, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	t := &tree{}
	for name := range strings.SplitSeq(strings.TrimRight(string(data), "\x00"), "\x00") {
		src, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed from the disk but not from git
		}
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(name, ".go") {
			if isDocument(name) {
				t.files = append(t.files, file{name: name, pkg: name, kind: document, text: proseOf(src)})
			}
			continue
		}
		f, err := measureFile(name, src)
		if err != nil {
			return nil, err
		}
		t.files = append(t.files, f)
	}
	return t, nil
}

func measureFile(name string, src []byte) (file, error) {
	f := file{name: name, pkg: path.Dir(name), kind: kindOf(name), lines: bytes.Count(src, []byte("\n"))}
	f.code, f.wide, f.widest = scanLines(src)
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return f, err
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			from, to := fset.Position(d.Pos()).Line, fset.Position(d.End()).Line
			f.funcs = append(f.funcs, function{d.Name.Name, receiverOf(d), from, to - from + 1})
			if d.Name.IsExported() {
				f.exported++
			}
		case *ast.GenDecl:
			f.exported += exportedIn(d)
		}
	}
	f.text = sentencesOf(fset, parsed)
	if f.kind == production {
		f.errors = badErrors(fset, parsed)
	}
	return f, nil
}

func kindOf(name string) string {
	if strings.HasSuffix(name, "_test.go") {
		return tests
	}
	for _, dir := range harnessDirs {
		if strings.HasPrefix(name, dir+"/") {
			return harness
		}
	}
	return production
}

func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch x := t.(type) {
	case *ast.IndexExpr:
		t = x.X
	case *ast.IndexListExpr:
		t = x.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func exportedIn(d *ast.GenDecl) (n int) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				n++
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() {
					n++
				}
			}
		}
	}
	return n
}

const (
	maxColumns = 120
	tabWidth   = 4
)

// scanLines counts lines of code, and returns the line numbers of wide lines and the greatest width. It does not
// measure the width of lines in raw strings, because they are data.
func scanLines(src []byte) (code int, wide []int, widest int) {
	fset := token.NewFileSet()
	f := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(f, src, nil, scanner.ScanComments)
	has, data := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		from := f.Line(pos)
		to := from + strings.Count(lit, "\n")
		if tok == token.STRING && strings.HasPrefix(lit, "`") {
			for n := from; n <= to; n++ {
				data[n] = true
			}
		}
		if tok != token.COMMENT {
			for n := from; n <= to; n++ {
				has[n] = true
			}
		}
	}
	for i, line := range bytes.Split(src, []byte("\n")) {
		if has[i+1] && len(bytes.TrimSpace(line)) > 0 {
			code++
		}
		n := columns(line)
		if data[i+1] || bytes.HasPrefix(bytes.TrimSpace(line), []byte("//go:")) {
			continue
		}
		if widest = max(widest, n); n > maxColumns {
			wide = append(wide, i+1)
		}
	}
	return code, wide, widest
}

func columns(line []byte) (n int) {
	for _, r := range string(line) {
		if r == '\t' {
			n += tabWidth
		} else {
			n++
		}
	}
	return n
}

// print writes the table of packages, and the sums by kind.
func (t *tree) print(out io.Writer) {
	type row struct {
		code, test, files, exported, widest, longest int
		sentences, idioms                            int
		kind                                         string
	}
	rows := map[string]*row{}
	sum := map[string]int{}
	for _, f := range t.files {
		r := rows[f.pkg]
		if r == nil {
			r = &row{kind: f.kind}
			if r.kind != document {
				r.kind = kindOf(f.pkg + "/x.go")
			}
			rows[f.pkg] = r
		}
		sum[f.kind] += f.code
		r.widest = max(r.widest, f.widest)
		r.sentences, r.idioms = r.sentences+f.text.all, r.idioms+len(f.text.idioms)
		for _, fn := range f.funcs {
			r.longest = max(r.longest, fn.lines)
		}
		if f.kind == document {
			continue
		}
		if f.kind == tests {
			r.test += f.code
			continue
		}
		r.code, r.files, r.exported = r.code+f.code, r.files+1, r.exported+f.exported
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "package\tkind\tcode\ttests\tfiles\texported\twidest\tlongest function\tidioms\t")
	for _, pkg := range sortedKeys(rows) {
		r := rows[pkg]
		rate := 0.0
		if r.sentences > 0 {
			rate = 100 * float64(r.idioms) / float64(r.sentences)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f %%\t\n", pkg, r.kind, r.code, r.test, r.files,
			r.exported, r.widest, r.longest, rate)
	}
	_ = w.Flush()
	for _, kind := range []string{production, harness, tests} {
		fmt.Fprintf(out, "%s: %d lines of code\n", kind, sum[kind])
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
