package demo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"sync"

	"retake/internal/testbed"
)

// lint is the repository's check on pull requests, which requires a comment on every exported function. It reads the
// pushed branch. The issues and the director's stages do not mention this rule.
type lint struct {
	bare string // path of the bare repository

	mu     sync.Mutex
	passed map[string]bool     // the check's result for each commit
	failed map[string][]string // commits that failed, by branch, oldest first
}

// lintName is the name of the check.
const lintName = "lint"

func newLint(bare string) *lint {
	return &lint{bare: bare, passed: map[string]bool{}, failed: map[string][]string{}}
}

// judge runs the check on a commit, for the GitHub stand-in.
func (l *lint) judge(_, branch, sha string) (conclusion, summary string) {
	problems, files, err := lintCommit(l.bare, sha)
	if err != nil {
		problems = []string{err.Error()}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.passed[sha] = len(problems) == 0; l.passed[sha] {
		return "success", fmt.Sprintf("no findings in %d files", files)
	}
	l.failed[branch] = append(l.failed[branch], sha)
	return "failure", strings.Join(problems, "\n")
}

// of reports whether the check has judged a commit, and whether it passed.
func (l *lint) of(sha string) (passed, judged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	passed, judged = l.passed[sha]
	return passed, judged
}

// failures returns the commits of a branch that failed, oldest first.
func (l *lint) failures(branch string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed[branch]
}

// lintCommit checks the Go files of a commit, except tests.
func lintCommit(bare, sha string) (problems []string, files int, err error) {
	list, err := testbed.Git(bare, "ls-tree", "-r", "--name-only", sha)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", sha, err)
	}
	for _, path := range strings.Fields(list) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := testbed.Git(bare, "show", sha+":"+path)
		if err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", path, err)
		}
		files++
		problems = append(problems, lintFile(path, text)...)
	}
	return problems, files, nil
}

// lintFile lists exported functions without a comment. Methods are exempt.
func lintFile(path, text string) (problems []string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return []string{err.Error()}
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() && f.Doc == nil {
			problems = append(problems, fmt.Sprintf("%s:%d: exported func %s has no comment", path,
				set.Position(f.Pos()).Line, f.Name.Name))
		}
	}
	return problems
}
