package shown

import (
	"bytes"
	"cmp"
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"retake/internal/recovery/plaintext"
)

// longestCaption is the maximum length of an image's description that counts as a caption, in characters. Browsers show
// the description if the image is missing.
const longestCaption = 60

var parser = goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()

var (
	// A comment, a processing instruction, a CDATA section or a declaration, up to its closing delimiter or the end of
	// the text.
	unseenHTML = regexp.MustCompile(
		`(?s)<!--.*?(?:-->|\z)|<\?.*?(?:\?>|\z)|<!\[CDATA\[.*?(?:\]\]>|\z)|<![A-Za-z].*?(?:>|\z)`)
	tag = regexp.MustCompile(
		`(?s)<[A-Za-z][A-Za-z0-9-]*((?:\s+[A-Za-z_:][\w:.-]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>]+))?)+)\s*/?>`)
	attribute = regexp.MustCompile(`(?s)\s+([A-Za-z_:][\w:.-]*)(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>]+))?`)
	entity    = regexp.MustCompile(`&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});`)
	footnote  = regexp.MustCompile(`^\[\^[^\]\s]+\]:`)
)

// seenAttributes lists the HTML attributes that name a target or affect the layout of the page. All other attributes
// can contain hidden text.
var seenAttributes = []string{
	"href", "src", "width", "height", "align", "open", "checked", "disabled", "start",
	"colspan", "rowspan",
}

// Markdown returns the visible part of a text and the number of removed passages.
func Markdown(words string) (seen string, hidden int) {
	d := &document{source: []byte(words)}
	d.root = parser.Parse(text.NewReader(d.source))
	_ = ast.Walk(d.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if entering {
			d.visit(n)
		}
		return ast.WalkContinue, nil
	})
	rest, cut := d.without()
	seen, blank := plaintext.Seen(rest)
	return seen, cut + blank
}

// span is a removed part of the source.
type span struct{ from, to int }

type document struct {
	source []byte
	root   ast.Node
	cuts   []span
}

func (d *document) cut(from, to int) {
	if from >= 0 && from < to {
		d.cuts = append(d.cuts, span{from, to})
	}
}

// without returns the source with all cut parts removed, and the number of removed parts.
func (d *document) without() (rest string, parts int) {
	slices.SortFunc(d.cuts, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var b strings.Builder
	at := 0
	for _, c := range d.cuts {
		if c.from > at || at == 0 {
			parts++
		}
		if c.from > at {
			b.Write(d.source[at:c.from])
		}
		at = max(at, c.to)
	}
	b.Write(d.source[at:])
	return b.String(), parts
}

func (d *document) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.HTMLBlock:
		from, to := linesOf(n)
		if n.HasClosure() {
			to = max(to, n.ClosureLine.Stop)
			if from < 0 {
				from = n.ClosureLine.Start
			}
		}
		d.html(from, to)
	case *ast.RawHTML:
		if s := n.Segments; s.Len() > 0 {
			d.html(s.At(0).Start, s.At(s.Len()-1).Stop)
		}
	case *ast.LinkReferenceDefinition:
		d.definition(n)
	case *ast.Paragraph:
		if from, to := linesOf(n); from >= 0 {
			if label := footnote.Find(d.source[from:to]); label != nil &&
				bytes.Count(d.source, label[:len(label)-1]) == 1 {
				d.cut(from, to)
			}
		}
	case *ast.Image:
		d.caption(n)
		d.title(n, n.Title, n.Reference)
	case *ast.Link:
		d.title(n, n.Title, n.Reference)
	case *ast.Text:
		if _, code := n.Parent().(*ast.CodeSpan); !code {
			d.entities(n.Segment.Start, n.Segment.Stop)
		}
	}
}

// linesOf returns the range of a block in the source, or -1, -1 if the block is empty.
func linesOf(n ast.Node) (from, to int) {
	lines := n.Lines()
	if lines == nil || lines.Len() == 0 {
		return -1, -1
	}
	return lines.At(0).Start, lines.At(lines.Len() - 1).Stop
}

// html cuts comments and hidden attributes from HTML. An unclosed comment hides the rest of the source.
func (d *document) html(from, to int) {
	if from < 0 {
		return
	}
	raw := d.source[from:to]
	for _, m := range unseenHTML.FindAllIndex(raw, -1) {
		if part := raw[m[0]:m[1]]; bytes.HasPrefix(part, []byte("<!--")) && !bytes.HasSuffix(part, []byte("-->")) {
			d.cut(from+m[0], len(d.source))
			return
		}
		d.cut(from+m[0], from+m[1])
	}
	for _, t := range tag.FindAllSubmatchIndex(raw, -1) {
		begin := from + t[2]
		for _, a := range attribute.FindAllSubmatchIndex(raw[t[2]:t[3]], -1) {
			if name := strings.ToLower(string(d.source[begin+a[2] : begin+a[3]])); !slices.Contains(seenAttributes,
				name) {
				d.cut(begin+a[0], begin+a[1])
			}
		}
	}
}

// definition cuts the definition of a link. If a link or an image uses the definition, only its title is cut.
func (d *document) definition(n *ast.LinkReferenceDefinition) {
	from, to := linesOf(n)
	label, used := util.ToLinkReference(n.Label), false
	_ = ast.Walk(d.root, func(other ast.Node, _ bool) (ast.WalkStatus, error) { // the function never fails
		var r *ast.ReferenceLink
		switch other := other.(type) {
		case *ast.Link:
			r = other.Reference
		case *ast.Image:
			r = other.Reference
		}
		used = used || r != nil && util.ToLinkReference(r.Value) == label
		return ast.WalkContinue, nil
	})
	if !used {
		d.cut(from, to)
		return
	}
	d.quoted(from, to, n.Title)
}

// title cuts the title of a link or image, because browsers show it only on hover. It does nothing for a reference
// link, whose title is part of the definition.
func (d *document) title(n ast.Node, title []byte, r *ast.ReferenceLink) {
	if r != nil || len(title) == 0 {
		return
	}
	block := n.Parent()
	for block != nil && block.Type() != ast.TypeBlock {
		block = block.Parent()
	}
	if block != nil {
		from, to := linesOf(block)
		d.quoted(from, to, title)
	}
}

// quoted cuts the given words, together with their delimiters, where they form a title: between quotation marks or
// parentheses.
func (d *document) quoted(from, to int, words []byte) {
	if from < 0 || len(words) == 0 {
		return
	}
	for at := from; at < to; {
		next := bytes.Index(d.source[at:to], words)
		if next < 0 {
			return
		}
		begin, end := at+next-1, at+next+len(words)
		if begin >= from && end < to && slices.Contains([]string{`""`, "''", "()"}, string(d.source[begin])+
			string(d.source[end])) {
			for begin > from && (d.source[begin-1] == ' ' || d.source[begin-1] == '\t') {
				begin--
			}
			d.cut(begin, end+1)
		}
		at = end
	}
}

// caption cuts the description of an image if it is longer than longestCaption.
func (d *document) caption(n *ast.Image) {
	from, to := -1, -1
	_ = ast.Walk(n, func(in ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if t, ok := in.(*ast.Text); ok && entering {
			if from < 0 {
				from = t.Segment.Start
			}
			to = max(to, t.Segment.Stop)
		}
		return ast.WalkContinue, nil
	})
	if from >= 0 && utf8.RuneCount(d.source[from:to]) > longestCaption {
		d.cut(from, to)
	}
}

// entities cuts entities for invisible characters.
func (d *document) entities(from, to int) {
	for _, m := range entity.FindAllIndex(d.source[from:to], -1) {
		named := html.UnescapeString(string(d.source[from+m[0] : from+m[1]]))
		if left, hidden := plaintext.Seen(named); hidden > 0 && left == "" {
			d.cut(from+m[0], from+m[1])
		}
	}
}
