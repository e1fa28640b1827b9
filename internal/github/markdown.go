package github

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"retake/internal/github/prose"
	"retake/internal/recovery/plaintext"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/redact"
)

// commentLimit is the length of a comment in characters. GitHub refuses more than 65,536.
const commentLimit = 60_000

// plain is text as a terminal would leave it on paper: valid UTF-8 without control or direction-changing characters.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Bidi_Control) || r == '\u2028' || r == '\u2029' {
			return -1
		}
		return r
	}, plaintext.WithoutControl(strings.ToValidUTF8(text, "\uFFFD")))
}

// redactor makes text safe to post.
type redactor struct {
	*redact.Redactor
	known   *leak.Finder
	message bool // what it writes may become the message of a commit
}

// clean is text without escape sequences, secrets, and characters that nobody sees. It comes before any cut,
// because half a secret matches nothing.
func (r redactor) clean(text string) string {
	return r.Cut(prose.Visible(plain(r.known.Mask(text))))
}

// style is how a redactor writes.
func (r redactor) style() prose.Style { return prose.Style{Message: r.message, Mask: r.Cut} }

// line is untrusted text as one line of markdown, at most limit characters.
func (r redactor) line(text string, limit int) string {
	return prose.Line(r.clean(text), limit, r.style())
}

// sentence is line for what we say ourselves about a person's command: it begins like a sentence.
func (r redactor) sentence(text string, limit int) string {
	text = r.line(text, limit)
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	return strings.ToUpper(string(first)) + text[size:]
}

// prose is untrusted text as paragraphs of markdown: its paragraphs, lists and code stay, nothing in it has an
// effect, and nothing in it swallows what follows.
func (r redactor) prose(text string, limit int) string {
	return prose.Blocks(r.clean(text), limit, r.style())
}

// beginning is prose of what is shown of a text that is not brief.
func (r redactor) beginning(text string) string {
	const runes, lines = 600, 6
	rows := strings.Split(strings.TrimSpace(r.clean(text)), "\n")
	return prose.Blocks(prose.Clip(strings.TrimSpace(strings.Join(rows[:min(len(rows), lines)], "\n"))+" …", runes),
		2*runes, r.style())
}

// cell is line for a table.
func (r redactor) cell(text string, limit int) string {
	s := r.style()
	s.Cell = true
	return prose.Line(r.clean(text), limit, s)
}

// code is untrusted text as one inline code span.
func (r redactor) code(text string, limit int) string { return r.span(text, limit, r.style()) }

// cellCode is code for a table, where a bar ends the cell even inside code.
func (r redactor) cellCode(text string, limit int) string {
	s := r.style()
	s.Cell = true
	return r.span(text, limit, s)
}

func (r redactor) span(text string, limit int, s prose.Style) string {
	return s.Code(clip(strings.Join(strings.Fields(r.clean(text)), " "), limit))
}

// fence is untrusted output as a code block that nothing in it can end. Of more than limit characters the last
// are kept: the end is where the error is.
func (r redactor) fence(text string, limit int) string {
	text = strings.TrimLeft(strings.TrimRight(r.clean(text), " \t\n"), "\n")
	if n := utf8.RuneCountInString(text); n > limit {
		runes := []rune(text)[n-limit:]
		text = "… (start cut)\n" + string(runes)
	}
	return r.style().Fence(text)
}

func quote(text string) string { return prose.Indent(text, "> ", "> ") }

// clip cuts text to at most limit characters.
func clip(text string, limit int) string { return prose.Clip(text, limit) }
