package githubtest

import (
	"bytes"
	"html"
	"html/template"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	ghtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// markdown renders comments like GitHub: GitHub-flavoured Markdown with a few harmless HTML tags and without HTML
// comments. goldmark escapes everything else, and drops URLs such as javascript:.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithRendererOptions(ghtml.WithHardWraps(),
		renderer.WithNodeRenderers(util.Prioritized(harmlessHTML{}, 1))),
)

// Render converts a comment to HTML.
func Render(source string) template.HTML {
	var out bytes.Buffer
	if err := markdown.Convert([]byte(source), &out); err != nil {
		return template.HTML("<pre>" + html.EscapeString(source) + "</pre>")
	}
	return template.HTML(out.String())
}

// harmlessHTML renders raw HTML. It keeps allowed tags without attributes, removes comments, and shows the rest as
// text.
type harmlessHTML struct{}

func (h harmlessHTML) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindHTMLBlock, h.block)
	reg.Register(ast.KindRawHTML, h.inline)
}

func (h harmlessHTML) block(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	b := node.(*ast.HTMLBlock)
	raw := string(b.Lines().Value(source))
	if b.HasClosure() {
		raw += string(b.ClosureLine.Value(source))
	}
	_, err := w.WriteString(harmless(raw))
	return ast.WalkContinue, err
}

func (h harmlessHTML) inline(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkSkipChildren, nil
	}
	_, err := w.WriteString(harmless(string(node.(*ast.RawHTML).Segments.Value(source))))
	return ast.WalkSkipChildren, err
}

var (
	htmlComment = regexp.MustCompile(`(?s)<!--.*?(?:-->|\z)`)
	htmlTag     = regexp.MustCompile(`</?(?:details|details open|summary|sub|sup|kbd|b|i|em|strong|p|br|hr)>`)
)

func harmless(raw string) string {
	raw = htmlComment.ReplaceAllString(raw, "")
	var b strings.Builder
	at := 0
	for _, m := range htmlTag.FindAllStringIndex(raw, -1) {
		b.WriteString(html.EscapeString(raw[at:m[0]]))
		b.WriteString(raw[m[0]:m[1]])
		at = m[1]
	}
	b.WriteString(html.EscapeString(raw[at:]))
	return b.String()
}
