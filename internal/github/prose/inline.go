package prose

import (
	"bufio"
	"bytes"
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	ghtml "github.com/yuin/goldmark/renderer/html"
)

// Gap is a zero-width character that keeps GitHub from reading the text before and after it as one token.
const Gap = "\u200b"

// run is a part of a paragraph.
type run struct {
	kind runKind
	text string
}

type runKind int

const (
	asText runKind = iota // text with its escapes and entities resolved
	asCode
	asMark // an emphasis marker, such as **
)

// inline writes the content of a paragraph.
func (d document) inline(n ast.Node) string { return d.write(d.runs(n, true)) }

// runs returns the parts of a paragraph. Links, images, HTML and emphasis that could be misread become text.
func (d document) runs(parent ast.Node, emphasis bool) (all []run) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			words := d.resolved(n.Value(d.source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				words += "\n"
			}
			all = append(all, run{asText, words})
		case *ast.String:
			all = append(all, run{asText, d.resolved(n.Value)})
		case *ast.CodeSpan:
			all = append(all, run{asCode, d.codeText(n)})
		case *ast.RawHTML:
			all = append(all, run{asText, string(n.Segments.Value(d.source))})
		case *ast.AutoLink:
			all = append(all, run{asText, string(n.Label(d.source))})
		case *ast.Link:
			all = append(append(all, d.runs(n, false)...), d.target(n.Destination)...)
		case *ast.Image:
			all = append(append(all, d.runs(n, false)...), d.target(n.Destination)...)
		case *ast.Emphasis:
			all = append(all, d.emphasis(n, strings.Repeat("*", n.Level), emphasis)...)
		case *east.Strikethrough:
			all = append(all, d.emphasis(n, "~~", emphasis)...)
		default:
			all = append(all, d.runs(n, emphasis)...)
		}
	}
	return all
}

// target renders the address of a link or image as code in parentheses.
func (d document) target(address []byte) []run {
	if len(address) == 0 {
		return nil
	}
	return []run{{asText, " ("}, {asCode, d.resolved(address)}, {asText, ")"}}
}

// emphasis renders emphasized text. It omits the marks inside links and other emphasis, and anywhere that GitHub could
// read them differently.
func (d document) emphasis(n ast.Node, mark string, wanted bool) []run {
	inner := d.runs(n, false)
	if !wanted || len(inner) == 0 || inner[0].kind != asText || inner[len(inner)-1].kind != asText {
		return inner
	}
	first, _ := utf8.DecodeRuneInString(inner[0].text)
	last, _ := utf8.DecodeLastRuneInString(inner[len(inner)-1].text)
	next, ends := n.NextSibling().(*ast.Text)
	ends = n.NextSibling() == nil || ends && bytes.HasPrefix(next.Value(d.source), []byte(" "))
	if !isWord(first) || !isWord(last) && (!ends || unicode.IsSpace(last)) {
		return inner
	}
	return append(append([]run{{asMark, mark}}, inner...), run{asMark, mark})
}

// resolved returns text with Markdown's escapes and entities resolved.
func (d document) resolved(raw []byte) string {
	if !bytes.ContainsAny(raw, `&\`) {
		return string(raw)
	}
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	ghtml.DefaultWriter.Write(w, raw)
	_ = w.Flush() // writing to a buffer never fails
	words := Visible(html.UnescapeString(out.String()))
	if d.Mask != nil {
		words = d.Mask(words)
	}
	return words
}

func (d document) codeText(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Value(d.source))
		}
	}
	return b.String()
}

// Visible removes invisible characters and characters that change the direction of text. It replaces each control
// character with a space, except line feeds and tabs. It keeps the zero-width joiners that emoji and some scripts need.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d', blankLetters[r]:
			return -1
		}
		return r
	}, text)
}

// blankLetters contains letters and marks that are displayed as blanks.
var blankLetters = map[rune]bool{
	'\u034f': true, '\u115f': true, '\u1160': true, '\u17b4': true, '\u17b5': true,
	'\u3164': true, '\uffa0': true,
}

// write renders a paragraph's parts as Markdown.
func (d document) write(runs []run) string {
	w := writer{style: d.Style}
	for i := 0; i < len(runs); {
		kind, words := runs[i].kind, runs[i].text
		for i++; kind == asText && i < len(runs) && runs[i].kind == asText; i++ {
			words += runs[i].text // GitHub reads adjacent runs together
		}
		switch kind {
		case asText:
			if d.Message {
				words = instructsNobody(words, Gap)
			}
			w.text(words)
		case asCode:
			w.code(words)
		case asMark:
			w.b.WriteString(words)
		}
	}
	return strings.Trim(w.b.String(), " \n\t")
}

// writer writes a paragraph.
type writer struct {
	b     strings.Builder
	style Style
}

func (w *writer) lineBegins() bool {
	return w.b.Len() == 0 || strings.HasSuffix(w.b.String(), "\n")
}

func (w *writer) code(words string) {
	if strings.HasSuffix(w.b.String(), "`") {
		w.b.WriteString(Gap) // two adjacent code spans would become one
	}
	w.b.WriteString(w.style.Code(words))
}

var (
	wordsAndBlanks = regexp.MustCompile(`\s+|\S+`)
	// trimmed splits a word into leading punctuation, the word itself, and trailing punctuation.
	trimmed = regexp.MustCompile(`^([("'\[{<]*)(.*?)([)"'\]}>.,;:!?]*)$`)
	address = regexp.MustCompile(`(?i)[a-z]://|www\.`)
	commit  = regexp.MustCompile(`(?i)\b[0-9a-f]{7,64}\b`)
)

// text writes words. A word that contains a URL, a possible formula or a commit hash becomes code.
func (w *writer) text(words string) {
	for _, word := range wordsAndBlanks.FindAllString(words, -1) {
		if strings.TrimSpace(word) == "" {
			if strings.Contains(word, "\n") {
				word = "\n"
			}
			if !w.lineBegins() {
				w.b.WriteString(word[:1])
			}
			continue
		}
		parts := trimmed.FindStringSubmatch(word)
		if isCommit := strings.ContainsAny(strings.Join(commit.FindAllString(word, -1), ""), "0123456789"); !isCommit &&
			!strings.Contains(word, "$") && !address.MatchString(word) {
			w.escaped(word)
			continue
		} else if strings.Contains(parts[1]+parts[3], "$") || parts[2] == "" {
			parts = []string{"", "", word, ""}
		}
		w.escaped(parts[1])
		w.code(parts[2])
		w.escaped(parts[3])
	}
}

var (
	entity    = regexp.MustCompile(`^&(#[0-9]{1,7};|#[xX][0-9A-Fa-f]{1,6};|[A-Za-z][0-9A-Za-z]{1,31};)`)
	chatWord  = regexp.MustCompile(`(?i)^/[a-z][\w-]*$`) // a command for bots, such as /approve
	numbering = regexp.MustCompile(`^[0-9]{1,9}[.)]`)
)

// escaped writes a word with escapes, so that GitHub shows it as text.
func (w *writer) escaped(word string) {
	begins := w.lineBegins()
	var before rune
	for i, r := range word {
		rest := word[i+utf8.RuneLen(r):]
		after, _ := utf8.DecodeRuneInString(rest)
		switch {
		case strings.ContainsRune("\\`*~[]", r),
			r == '_' && (!isWord(before) || !isWord(after)),
			r == '<' && (isLetter(after) || strings.ContainsRune("/?!", after)),
			r == '&' && entity.MatchString(word[i:]),
			r == '|' && w.style.Cell,
			begins && i == 0 && (strings.ContainsRune("#+-=|:>", r) || chatWord.MatchString(word)),
			begins && (r == '.' || r == ')') && len(numbering.FindString(word)) == i+1:
			w.b.WriteByte('\\')
		}
		w.b.WriteRune(r)
		if readTogether(before, r, after, word[:i]) {
			w.b.WriteString(Gap)
		}
		before = r
	}
}

// readTogether reports whether GitHub would read the text before and after r as one token, such as a mention, a
// reference, an alert or an HTML comment.
func readTogether(before, r, after rune, written string) bool {
	switch r {
	case '@':
		return isWord(after) || after == '-' || after == '_'
	case '#':
		return unicode.IsDigit(after)
	case '-':
		return unicode.IsDigit(after) && len(written) >= 2 && strings.EqualFold(written[len(written)-2:], "GH")
	case '[':
		return after == '!' || after == '^'
	case '!':
		return before == '<'
	}
	return false
}

func isWord(r rune) bool   { return unicode.IsLetter(r) || unicode.IsDigit(r) }
func isLetter(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) }
