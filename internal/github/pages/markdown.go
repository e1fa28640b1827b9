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

// Cleaner makes text safe to post.
type Cleaner struct {
	*redact.Redactor
	known   *leak.Finder
	message bool // what it writes may become the message of a commit
}

// Clean is text without escape sequences, secrets, and characters that nobody sees. It comes before any cut,
// because half a secret matches nothing.
func (r Cleaner) Clean(text string) string {
	return r.Cut(prose.Visible(prose.Printable(r.known.Mask(text))))
}

// style is how a Cleaner writes.
func (r Cleaner) style() prose.Style { return prose.Style{Message: r.message, Mask: r.Cut} }

// line is untrusted text as one line of markdown, at most limit characters.
func (r Cleaner) line(text string, limit int) string {
	return prose.Line(r.Clean(text), limit, r.style())
}

// sentence is line for what we say ourselves about a person's command: it begins like a sentence.
func (r Cleaner) sentence(text string, limit int) string {
	text = r.line(text, limit)
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	return strings.ToUpper(string(first)) + text[size:]
}

// prose is untrusted text as paragraphs of markdown: its paragraphs, lists and code stay, nothing in it has an
// effect, and nothing in it swallows what follows.
func (r Cleaner) prose(text string, limit int) string {
	return prose.Blocks(r.Clean(text), limit, r.style())
}

// beginning is prose of what is shown of a text that is not brief.
func (r Cleaner) beginning(text string) string {
	const runes, lines = 600, 6
	rows := strings.Split(strings.TrimSpace(r.Clean(text)), "\n")
	return prose.Blocks(prose.Clip(strings.TrimSpace(strings.Join(rows[:min(len(rows), lines)], "\n"))+" …", runes),
		2*runes, r.style())
}

// cell is line for a table.
func (r Cleaner) cell(text string, limit int) string {
	s := r.style()
	s.Cell = true
	return prose.Line(r.Clean(text), limit, s)
}

// Code is untrusted text as one inline code span.
func (r Cleaner) Code(text string, limit int) string { return r.span(text, limit, r.style()) }

// cellCode is code for a table, where a bar ends the cell even inside code.
func (r Cleaner) cellCode(text string, limit int) string {
	s := r.style()
	s.Cell = true
	return r.span(text, limit, s)
}

func (r Cleaner) span(text string, limit int, s prose.Style) string {
	return s.Code(prose.Clip(strings.Join(strings.Fields(r.Clean(text)), " "), limit))
}

// fence is untrusted output as a code block that nothing in it can end. Of more than limit characters the last
// are kept: the end is where the error is.
func (r Cleaner) fence(text string, limit int) string {
	text = strings.TrimLeft(strings.TrimRight(r.Clean(text), " \t\n"), "\n")
	if n := utf8.RuneCountInString(text); n > limit {
		runes := []rune(text)[n-limit:]
		text = "… (start cut)\n" + string(runes)
	}
	return r.style().Fence(text)
}

func quote(text string) string { return prose.Indent(text, "> ", "> ") }

// Cleaner masks what must not be posted: the configured secrets and the token in use.
func (c *Text) Cleaner() Cleaner { return c.current().Cleaner }

// current returns the redactor and the templates for the token in use. A new token replaces them.
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
	}
	made := &redactorOf{token: token, Cleaner: r, comments: c.templates(r)}
	r.message = true
	made.messages = c.templates(r)
	c.redacts.Store(made)
	return made
}

// redactorOf is the cleaner for the token in use, with the templates that use it.
type redactorOf struct {
	token string
	Cleaner
	comments *template.Template
	messages *template.Template // of what may become the message of a commit
}

// Secrets returns a redactor that changes nothing besides secrets. It is nil for a nil Text.
func (c *Text) Secrets() *redact.Redactor {
	if c == nil {
		return nil
	}
	return c.Cleaner().Redactor
}

// Redact masks what must not be shown: the configured secrets, the token in use, and what looks like a secret.
func (c *Text) Redact(text string) string { return c.Cleaner().Clean(text) }
