package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// Names of products, acronyms and headers may begin an error with a capital letter.
var (
	properName  = regexp.MustCompile(`^(GitHub|Docker|Kubernetes|Go|Git|Linux|Prometheus|OpenTelemetry|Landlock|Retake|Markdown|Podman)\b`)
	capitalised = regexp.MustCompile(`^[A-Z][a-z]+\b`)
	sentinel    = regexp.MustCompile(`^[a-z][a-z0-9]*: .`)
)

// badErrors returns error texts that begin with a capital letter or end with punctuation, and sentinels that do not
// begin with the package name.
func badErrors(fset *token.FileSet, f *ast.File) (bad []sentence) {
	note := func(lit *ast.BasicLit, wrong bool, text string) {
		if wrong {
			bad = append(bad, sentence{fset.Position(lit.Pos()).Line, text})
		}
	}
	sentinels := map[*ast.BasicLit]bool{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			for _, value := range s.(*ast.ValueSpec).Values {
				if lit, text := errorText(value); lit != nil {
					sentinels[lit] = true
					note(lit, !sentinel.MatchString(text), text)
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		if lit, text := errorText(e); lit != nil && !sentinels[lit] {
			note(lit, capitalised.MatchString(text) && !properName.MatchString(text) ||
				strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "...") || strings.HasSuffix(text, "!") ||
				strings.HasSuffix(text, "\n"), text)
		}
		return true
	})
	return bad
}

// errorText returns the literal in a call to errors.New or fmt.Errorf.
func errorText(e ast.Expr) (*ast.BasicLit, string) {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil, ""
	}
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, ""
	}
	pkg, ok := fn.X.(*ast.Ident)
	if !ok || pkg.Name+"."+fn.Sel.Name != "errors.New" && pkg.Name+"."+fn.Sel.Name != "fmt.Errorf" {
		return nil, ""
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return nil, ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return lit, text
}
