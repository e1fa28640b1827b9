package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// sentences counts the sentences in a file, and lists the sentences with an idiom to rewrite.
type sentences struct {
	all    int
	idioms []sentence
}

type sentence struct {
	line int
	text string
}

var sentenceEnd = regexp.MustCompile(`[.!?]\s+`)

// add adds the sentences of a paragraph or a comment.
func (s *sentences) add(line int, text string) {
	text = strings.Join(strings.Fields(text), " ")
	for len(text) > 0 {
		one, rest := text, ""
		if at := sentenceEnd.FindStringIndex(text); at != nil {
			one, rest = text[:at[0]+1], text[at[1]:]
		}
		text = rest
		if one = strings.TrimSuffix(strings.TrimSpace(one), "."); strings.Count(one, " ") < 2 {
			continue
		}
		s.all++
		if hasIdiom(one) {
			s.idioms = append(s.idioms, sentence{line, one})
		}
	}
}

// sentencesOf extracts the sentences from the comments of a file, and from every string that looks like a sentence.
func sentencesOf(fset *token.FileSet, f *ast.File) (s sentences) {
	for _, group := range f.Comments {
		s.add(fset.Position(group.Pos()).Line, group.Text())
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && !strings.HasPrefix(lit.Value, "`") {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Count(text, " ") >= 3 {
				s.add(fset.Position(lit.Pos()).Line, text)
			}
		}
		return true
	})
	return s
}

// printText prints the idioms or the malformed errors in files whose names begin with one of the prefixes.
func (t *tree) printText(kind string, prefixes []string, out io.Writer) {
	all, found := 0, 0
	for _, f := range t.files {
		if !hasAnyPrefix(f.name, prefixes) {
			continue
		}
		texts := f.text.idioms
		if kind == "errors" {
			texts = f.errors
		}
		all, found = all+f.text.all, found+len(texts)
		for _, s := range texts {
			fmt.Fprintf(out, "%s:%d: %s\n", f.name, s.line, s.text)
		}
	}
	fmt.Fprintf(out, "%d in %d sentences, %.1f %%\n", found, all, 100*float64(found)/float64(max(all, 1)))
}

func hasAnyPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return len(prefixes) == 0
}
