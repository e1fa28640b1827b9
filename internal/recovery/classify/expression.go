package classify

import (
	"regexp"
	"regexp/syntax"
	"sync"
)

// expression is a valid regular expression. It is compiled on first use, because most rules are never used and
// compiling them all would take 10 MB of memory. It is safe for concurrent use.
type expression struct {
	text   string
	groups int

	once sync.Once
	re   *regexp.Regexp
}

// parseExpression checks the syntax. Compiling cannot fail afterwards.
func parseExpression(text string) (*expression, *syntax.Regexp, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, nil, err
	}
	return &expression{text: text, groups: tree.MaxCap()}, tree, nil
}

func (e *expression) compiled() *regexp.Regexp {
	e.once.Do(func() { e.re = regexp.MustCompile(e.text) })
	return e.re
}
