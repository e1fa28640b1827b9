package github

import (
	"embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed pages
var pages embed.FS

// commentPages are the comments that people read. Everything in them that is somebody else's words goes through
// a redactor.
var commentPages = template.Must(template.New("").Funcs(plainFuncs).Funcs((&Client{}).pageFuncs(redactor{})).
	ParseFS(pages, "pages/*.md"))

// rowLimit bounds the lists and tables of a page; the oldest rows are left out.
const rowLimit = 20

// attemptLimit bounds a table of attempts; earlier ones are counted.
const attemptLimit = 5

func latest[T any](rows []T) []T { return rows[max(0, len(rows)-rowLimit):] }

func (c *Client) pageFuncs(r redactor) template.FuncMap {
	return template.FuncMap{
		"beginning": r.beginning,
		"blocked":   func() string { return c.labels.Blocked },
		"cell":      r.cell,
		"cellCode":  r.cellCode,
		"code":      r.code,
		"every":     func() any { return commands },
		"fence":     r.fence,
		"fleet":     func() string { return c.opts.Fleet },
		"latest":    latest[string],
		"line":      r.line,
		"prose":     r.prose,
		"quote":     quote,
		"rows":      func(a []AttemptLine) []AttemptLine { return a[max(0, len(a)-attemptLimit):] },
		"task":      func() string { return c.labels.Task },
		"sentence":  r.sentence,
		"trim":      strings.TrimSpace,
	}
}

// page fills a page in. Should its template be wrong for some data, what went wrong stands at the page's end.
func (c *Client) page(name string, data any) string { return c.filled(name, data, c.redactor()) }

// messagePage is page for what may become the message of a commit.
func (c *Client) messagePage(name string, data any) string {
	r := c.redactor()
	r.message = true
	return c.filled(name, data, r)
}

func (c *Client) filled(name string, data any, r redactor) string {
	var s strings.Builder
	filled := template.Must(commentPages.Clone()).Funcs(c.pageFuncs(r))
	if err := filled.ExecuteTemplate(&s, name+".md", data); err != nil {
		fmt.Fprintf(&s, "\n\nThe rest of this comment cannot be shown: %v\n", err)
	}
	return s.String()
}
