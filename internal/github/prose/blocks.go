package prose

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Style describes the place where rendered text is used.
type Style struct {
	Cell bool // in a table, where a bar ends the cell
	// The text might become a commit message, in which GitHub does not recognize code, so tokens in code are split as
	// well.
	Message bool
	Mask    func(string) string // applied to text after its escapes and entities are resolved; nil disables masking
}

// deepest is the maximum nesting of quotations and lists.
const deepest = 5

// The parsers parse Markdown as GitHub does, except for bare URLs, which writer.text handles. lines parses text as one
// paragraph.
var (
	inlineParsers = parser.WithInlineParsers(append(parser.DefaultInlineParsers(),
		util.Prioritized(extension.NewStrikethroughParser(), 500))...)
	texts = parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...), inlineParsers,
		parser.WithParagraphTransformers(append(parser.DefaultParagraphTransformers(),
			util.Prioritized(extension.NewTableParagraphTransformer(), 200))...),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
	lines = parser.NewParser(parser.WithBlockParsers(util.Prioritized(parser.NewParagraphParser(), 1)), inlineParsers)
)

// Blocks renders text as paragraphs of Markdown, at most limit characters long.
func Blocks(words string, limit int, style Style) string {
	return fitting(strings.TrimSpace(words), limit, func(words string) string {
		d := document{style, []byte(words)}
		return d.children(texts.Parse(text.NewReader(d.source)), 0)
	})
}

// Line renders text as one line of Markdown, at most limit characters long.
func Line(words string, limit int, style Style) string {
	return fitting(strings.Join(strings.Fields(words), " "), limit, func(words string) string {
		d := document{style, []byte(words)}
		return strings.ReplaceAll(d.children(lines.Parse(text.NewReader(d.source)), 0), "\n", " ")
	})
}

// fitting renders as much of the text as fits within limit. It cuts the input, because a cut in the rendered text could
// break its Markdown.
func fitting(words string, limit int, write func(string) string) string {
	for most := limit; most > 0; {
		written := write(Clip(words, most))
		long := utf8.RuneCountInString(written)
		if long <= limit {
			return written
		}
		most = min(most-1, most*limit/long)
	}
	return ""
}

// Clip cuts text to at most limit characters, including the "…" appended to shortened text.
func Clip(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:limit-1]), " ") + "…"
}

// document is a Markdown text that is being converted.
type document struct {
	Style
	source []byte
}

// children returns the rendered blocks of a node, in order.
func (d document) children(parent ast.Node, depth int) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		written := d.block(n, depth)
		if written == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
			if _, isList := n.(*ast.List); !isList || n.PreviousSibling().Kind() != ast.KindTextBlock {
				b.WriteByte('\n')
			}
		}
		b.WriteString(written)
	}
	return b.String()
}

func (d document) block(n ast.Node, depth int) string {
	if nested := n.Kind() == ast.KindBlockquote || n.Kind() == ast.KindList; nested && depth >= deepest {
		return d.children(n, depth)
	}
	switch n := n.(type) {
	case *ast.Paragraph, *ast.TextBlock, *ast.Heading:
		return d.inline(n)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return d.Fence(strings.TrimRight(string(n.Lines().Value(d.source)), "\n"))
	case *ast.HTMLBlock:
		raw := string(n.Lines().Value(d.source))
		if n.HasClosure() {
			raw += string(n.ClosureLine.Value(d.source))
		}
		return d.write([]run{{kind: asText, text: strings.TrimSpace(raw)}})
	case *ast.Blockquote:
		return Indent(d.children(n, depth+1), "> ", "> ")
	case *ast.List:
		return d.list(n, depth)
	case *east.Table:
		return d.table(n)
	case *ast.ThematicBreak:
		return ""
	}
	return d.children(n, depth+1)
}

func (d document) list(n *ast.List, depth int) string {
	between := "\n\n"
	if n.IsTight {
		between = "\n"
	}
	var items []string
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "- "
		if n.IsOrdered() {
			mark = strconv.Itoa(n.Start+len(items)) + ". "
		}
		if written := d.children(item, depth+1); written != "" { // "-" alone could be read as a heading or a rule
			items = append(items, Indent(written, mark, strings.Repeat(" ", len(mark))))
		}
	}
	return strings.Join(items, between)
}

func (d document) table(n *east.Table) string {
	d.Cell = true
	var rows []string
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		line := "|"
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			line += " " + strings.ReplaceAll(d.inline(cell), "\n", " ") + " |"
		}
		if rows = append(rows, line); len(rows) == 1 {
			rows = append(rows, "|"+strings.Repeat(" --- |", row.ChildCount()))
		}
	}
	return strings.Join(rows, "\n")
}

// Indent prefixes the first line of a text with first and all other lines with other.
func Indent(text, first, other string) string {
	return first + strings.ReplaceAll(text, "\n", "\n"+other)
}
