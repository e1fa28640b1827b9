package pages

import (
	"embed"
	"fmt"
	"strings"
	"sync/atomic"
	"text/template"

	"retake/internal/github/api"
	"retake/internal/github/command"
	"retake/internal/secrets/leak"
)

//go:embed *.md
var files embed.FS

// commentPages holds the templates for all texts. They must render untrusted text only through a Cleaner's functions.
var commentPages = template.Must(template.New("").Funcs(plainFuncs).Funcs((&Text{}).pageFuncs(Cleaner{})).
	ParseFS(files, "*.md"))

// RowLimit is the maximum number of rows in a list or table of a page. The page omits the oldest rows.
const RowLimit = 20

// AttemptLimit is the maximum number of attempts in a table. For earlier attempts, the page shows only their number.
const AttemptLimit = 5

// Options configure a Text.
type Options struct {
	Fleet, TaskLabel, BlockedLabel string
	Secrets                        []string     // values to mask, in addition to texts that the redactor recognizes
	Known                          []leak.Value // values to mask in any encoding
	HostPaths                      []HostPath
}

// Text renders the texts that people read on GitHub.
type Text struct {
	conn                           *api.Conn // its token is always masked
	fleet, taskLabel, blockedLabel string
	secrets                        []string
	known                          []leak.Value
	host                           hostPaths
	redacts                        atomic.Pointer[redactorOf]
}

// New returns a Text.
func New(conn *api.Conn, o Options) *Text {
	return &Text{
		conn: conn, fleet: o.Fleet, taskLabel: o.TaskLabel, blockedLabel: o.BlockedLabel,
		secrets: o.Secrets, known: o.Known, host: newHostPaths(o.HostPaths),
	}
}

func latest[T any](rows []T) []T { return rows[max(0, len(rows)-RowLimit):] }

func (c *Text) pageFuncs(r Cleaner) template.FuncMap {
	return template.FuncMap{
		"beginning": r.beginning,
		"blocked":   func() string { return c.blockedLabel },
		"cell":      r.cell,
		"cellCode":  r.cellCode,
		"code":      r.Code,
		"every":     func() any { return command.All },
		"fence":     r.fence,
		"fleet":     func() string { return c.fleet },
		"latest":    latest[string],
		"line":      r.line,
		"prose":     r.prose,
		"quote":     quote,
		"rows":      func(a []AttemptLine) []AttemptLine { return a[max(0, len(a)-AttemptLimit):] },
		"task":      func() string { return c.taskLabel },
		"sentence":  r.sentence,
		"trim":      strings.TrimSpace,
	}
}

// Page renders the template with the given name, such as "claim". If the template fails for the data, Page returns the
// text so far, followed by the error.
func (c *Text) Page(name string, data any) string { return filled(c.current().comments, name, data) }

// MessagePage is like Page, for text that may become a commit message.
func (c *Text) MessagePage(name string, data any) string {
	return filled(c.current().messages, name, data)
}

func (c *Text) templates(r Cleaner) *template.Template {
	return template.Must(commentPages.Clone()).Funcs(c.pageFuncs(r))
}

func filled(pages *template.Template, name string, data any) string {
	var s strings.Builder
	if err := pages.ExecuteTemplate(&s, name+".md", data); err != nil {
		fmt.Fprintf(&s, "\n\nThe rest of this comment cannot be shown: %v\n", err)
	}
	return s.String()
}
