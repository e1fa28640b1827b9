package pages

import (
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"retake/internal/github/prose"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/redact"
)

// Cleaner makes untrusted text safe to post.
type Cleaner struct {
	*redact.Redactor
	known   *leak.Finder
	host    hostPaths
	message bool // the rendered text may become a commit message
}

// Clean removes escape sequences, secrets, invisible characters and directories of this machine. Callers must not
// truncate the text before they call Clean, because it cannot recognize part of a secret.
func (r Cleaner) Clean(text string) string {
	return r.mask(prose.Visible(prose.Printable(r.known.Mask(text))))
}

func (r Cleaner) mask(text string) string { return r.Cut(r.host.hide(text)) }

// style returns the options for package prose.
func (r Cleaner) style() prose.Style { return prose.Style{Message: r.message, Mask: r.mask} }

// line renders untrusted text as one line of Markdown, at most limit characters long.
func (r Cleaner) line(text string, limit int) string {
	return prose.Line(r.Clean(text), limit, r.style())
}

// sentence is like line, but begins with a capital letter, and ends with a full stop unless it already ends.
func (r Cleaner) sentence(text string, limit int) string {
	text = r.line(text, limit)
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	if last, _ := utf8.DecodeLastRuneInString(text); !strings.ContainsRune(".!?…", last) {
		text += "."
	}
	return strings.ToUpper(string(first)) + text[size:]
}

// prose renders untrusted text as paragraphs of Markdown, without side effects on GitHub. It keeps paragraphs, lists
// and code. The result cannot change the text after it.
func (r Cleaner) prose(text string, limit int) string {
	return prose.Blocks(r.Clean(text), limit, r.style())
}

// beginning renders the first lines of a long text, which a page shows above the folded full text.
func (r Cleaner) beginning(text string) string {
	const runes, lines = 600, 6
	rows := strings.Split(strings.TrimSpace(r.Clean(text)), "\n")
	return prose.Blocks(prose.Clip(strings.TrimSpace(strings.Join(rows[:min(len(rows), lines)], "\n"))+" …", runes),
		2*runes, r.style())
}

// cell is like line, for a cell of a table.
func (r Cleaner) cell(text string, limit int) string {
	s := r.style()
	s.Cell = true
	return prose.Line(r.Clean(text), limit, s)
}

// Code renders untrusted text as one inline code span.
func (r Cleaner) Code(text string, limit int) string { return r.span(text, limit, r.style()) }

// cellCode is like Code, for a cell of a table, where a vertical bar ends the cell even inside code.
func (r Cleaner) cellCode(text string, limit int) string {
	s := r.style()
	s.Cell = true
	return r.span(text, limit, s)
}

func (r Cleaner) span(text string, limit int, s prose.Style) string {
	return s.Code(prose.Clip(strings.Join(strings.Fields(r.Clean(text)), " "), limit))
}

// fence renders untrusted output as a code block that its content cannot close. It keeps the last limit characters,
// because errors are usually at the end.
func (r Cleaner) fence(text string, limit int) string {
	text = strings.TrimLeft(strings.TrimRight(r.Clean(text), " \t\n"), "\n")
	if n := utf8.RuneCountInString(text); n > limit {
		runes := []rune(text)[n-limit:]
		text = "… (start cut)\n" + string(runes)
	}
	return r.style().Fence(text)
}

func quote(text string) string { return prose.Indent(text, "> ", "> ") }

// Cleaner returns a Cleaner that masks the configured secrets and the current token.
func (c *Text) Cleaner() Cleaner { return c.current().Cleaner }

// current returns the redactor and templates for the current token. It builds new ones after the token has changed.
func (c *Text) current() *redactorOf {
	token := c.conn.Token()
	if made := c.redacts.Load(); made != nil && made.token == token {
		return made
	}
	values := append(slices.Clone(c.secrets), token)
	for _, v := range c.known {
		values = append(values, v.Text)
	}
	r := Cleaner{
		Redactor: leak.Redactor(values...),
		known:    leak.New(append(slices.Clone(c.known), leak.Value{Text: token})...),
		host:     c.host,
	}
	made := &redactorOf{token: token, Cleaner: r, comments: c.templates(r)}
	r.message = true
	made.messages = c.templates(r)
	c.redacts.Store(made)
	return made
}

// redactorOf contains the cleaner and the templates for one token.
type redactorOf struct {
	token string
	Cleaner
	comments *template.Template
	messages *template.Template // templates for texts that may become a commit message
}

// Secrets returns a redactor that masks only secrets. It returns nil if c is nil.
func (c *Text) Secrets() *redact.Redactor {
	if c == nil {
		return nil
	}
	return c.Cleaner().Redactor
}

// Redact masks the configured secrets, the current token, and text that looks like a secret. It keeps the directories
// of this machine, because it is for logs and audits, which stay on this machine.
func (c *Text) Redact(text string) string {
	r := c.Cleaner()
	r.host = nil
	return r.Clean(text)
}
