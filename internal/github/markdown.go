package github

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"retake/internal/leak"
	"retake/internal/recovery/plaintext"
	"retake/internal/redact"
)

// commentLimit is the length of a comment in characters. GitHub refuses more than 65,536.
const commentLimit = 60_000

// zeroWidth is put where characters must not be read together; people don't see it.
const zeroWidth = "\u200b"

var (
	mention = regexp.MustCompile(`@([A-Za-z0-9])`)
	tag     = regexp.MustCompile(`<([A-Za-z/?!])`)
	opening = regexp.MustCompile(`<!(-|>)`)
	fences  = regexp.MustCompile("`{3}|~{3}")
	run3    = regexp.MustCompile("`{3,}")
	run1    = regexp.MustCompile("`+")
	// entity is a character by its name or number: markdown shows the character, and GitHub then reads that.
	entity = regexp.MustCompile(`&(#[0-9]{1,7};|#[xX][0-9A-Fa-f]{1,6};|[A-Za-z][0-9A-Za-z]{1,31};)`)
	// closing keywords make a merged pull request close an issue; a person decides that. They count
	// at the edge of a word, whose formatting and backslashes are not part of it.
	closing = regexp.MustCompile(`(?i)((?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)[*_~\\]*[ \t]*:?[\s>*_~\\\[(]+)((?:[\w.\\-]+/[\w.\\-]+)?#|GH\\?-|https?://\S*/issues/)(\d)`)
)

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
	known *leak.Finder
}

// clean is text without escape sequences and secrets. It comes before any cut, because half a secret matches nothing.
func (r redactor) clean(text string) string { return r.Cut(plain(r.known.Mask(text))) }

// inert is cleaned text that notifies nobody and carries no HTML comment, also inside code.
func inert(text string) string {
	text = mention.ReplaceAllString(text, "@"+zeroWidth+"$1")
	return opening.ReplaceAllString(text, "<!"+zeroWidth+"$1")
}

// line is untrusted text as one line of markdown, at most limit characters.
func (r redactor) line(text string, limit int) string {
	text = strings.Join(strings.Fields(r.clean(text)), " ")
	return clip(asWritten(text), limit)
}

// sentence is line for what we say ourselves about a person's command: it begins like a sentence, and a command's usage in it can be copied.
func (r redactor) sentence(text string, limit int) string {
	text = r.line(text, limit)
	for _, c := range commands {
		usage := "`" + c.Usage + "`"
		text = strings.ReplaceAll(text, asWritten(usage), usage)
	}
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	return strings.ToUpper(string(first)) + text[size:]
}

// asWritten is cleaned text without effect in markdown, beside its formatting.
func asWritten(text string) string {
	text = tag.ReplaceAllString(entity.ReplaceAllString(text, "&"+zeroWidth+"$1"), "<"+zeroWidth+"$1")
	return noClosing(inert(text))
}

// prose is untrusted text as paragraphs of markdown: its formatting works, its HTML, mentions and markers don't, and neither
// do its code blocks, because one that is not closed would swallow what follows.
func (r redactor) prose(text string, limit int) string {
	return fences.ReplaceAllStringFunc(r.last(text, limit), func(f string) string { return f[:1] + zeroWidth + f[1:] })
}

// last is prose with code blocks, for where nothing follows: the end of a body, or a quotation.
func (r redactor) last(text string, limit int) string {
	text = strings.TrimSpace(r.clean(text))
	return clip(asWritten(text), limit)
}

// cell is line for a table.
func (r redactor) cell(text string, limit int) string {
	return strings.ReplaceAll(r.line(text, limit), "|", `\|`)
}

// cellCode is code for a table, where a bar ends the cell even inside code.
func (r redactor) cellCode(text string, limit int) string {
	return strings.ReplaceAll(r.code(text, limit), "|", `\|`)
}

// code is untrusted text as one inline code span.
func (r redactor) code(text string, limit int) string {
	text = clip(inert(strings.Join(strings.Fields(r.clean(text)), " ")), limit)
	if text == "" {
		return ""
	}
	ticks := strings.Repeat("`", longestRun(run1, text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return ticks + text + ticks
}

// fence is untrusted output as a code block that nothing in it can end. Of more than limit characters the last are kept:
// the end is where the error is.
func (r redactor) fence(text string, limit int) string {
	text = strings.TrimRight(inert(r.clean(text)), " \t\n")
	text = strings.TrimLeft(text, "\n")
	if n := utf8.RuneCountInString(text); n > limit {
		runes := []rune(text)[n-limit:]
		text = "… (start cut)\n" + string(runes)
	}
	ticks := strings.Repeat("`", max(3, longestRun(run3, text)+1))
	return ticks + "text\n" + text + "\n" + ticks
}

// noClosing makes references in text unable to close issues when a pull request is merged.
func noClosing(text string) string {
	return closing.ReplaceAllString(text, "${1}"+zeroWidth+"${2}"+zeroWidth+"${3}")
}

func quote(text string) string {
	return "> " + strings.ReplaceAll(text, "\n", "\n> ")
}

func longestRun(run *regexp.Regexp, text string) int {
	n := 0
	for _, m := range run.FindAllString(text, -1) {
		n = max(n, len(m))
	}
	return n
}

// clip cuts text to at most limit characters.
func clip(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:limit-1]), " ") + "…"
}
