package prose

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	ghtml "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

// wordCases has texts of people, and the expected Markdown.
var wordCases = map[string]struct{ in, want string }{
	"text": {"AT&T's 3 < 4, snake_case: a + b - c", "AT&T's 3 < 4, snake_case: a + b - c"},
	"mentions": {
		"thanks @octocat and @acme/team, me@x.org",
		"thanks @\u200boctocat and @\u200bacme/team, me@\u200bx.org",
	},
	"entities": {"&#64;octocat &commat;x @&#111;ctocat &amp;#64;y", `@` + Gap + `octocat @` + Gap +
		`x @` + Gap + `octocat \&#` + Gap + `64;y`},
	"escapes":          {`\@octocat \#1`, "@" + Gap + "octocat #" + Gap + "1"},
	"mention in marks": {"@**octocat** @~~octocat~~", "@**octocat** @~~octocat~~"},
	"mention in a tag": {"@<b>octocat", `@\<b>octocat`},
	"references": {
		"fixes #1, closes acme/x#2, GH-3, PR#4",
		"fixes #\u200b1, closes acme/x#\u200b2, GH-\u200b3, PR#\u200b4",
	},
	"addresses": {
		"see https://github.com/a/b/issues/5, (www.x.org).",
		"see `https://github.com/a/b/issues/5`, (`www.x.org`).",
	},
	"commits": {
		"since a5c3785ed8d6a35868bc169f07e40e889087fd2e; effaced",
		"since `a5c3785ed8d6a35868bc169f07e40e889087fd2e`; effaced",
	},
	"link": {
		"[click](javascript:alert(1)) [#2](x) [r][1]\n\n[1]: https://evil.test",
		"click (`javascript:alert(1)`) #\u200b2 (`x`) r (`https://evil.test`)",
	},
	"image":    {"![x](https://evil.test/p.png)", "x (`https://evil.test/p.png`)"},
	"autolink": {"<https://evil.test> <a@b.org>", "`https://evil.test` a@\u200bb.org"},
	"html": {
		"a <img src=x> <!-- retake:claim --> b\n\n<details>\n<summary>x</summary>",
		"a \\<img src=x> \\<!\u200b-- retake:claim --> b\n\n\\<details>\n\\<summary>x\\</summary>",
	},
	"code":       {"`fmt.Println(\"@x\")` and ``a ` b``", "`fmt.Println(\"@x\")` and ``a ` b``"},
	"fence":      {"~~~mermaid\na --> @x\n\n```\n~~~\nafter", "````text\na --> @x\n\n```\n````\n\nafter"},
	"open fence": {"~~~~\nno end", "```text\nno end\n```"},
	"indented":   {"x\n\n    code", "x\n\n```text\ncode\n```"},
	"headings":   {"# Done\n\nIt works\n===", "Done\n\nIt works"},
	"emphasis": {
		"**bold** *it* ~~no~~ **Note:** x **a**b ***c***",
		"**bold** *it* ~~no~~ **Note:** x **a**b *c*",
	},
	"unclosed": {"**bold *it ~no `x", "\\*\\*bold \\*it \\~no \\`x"},
	"lists": {
		"- a\n  - b\n\n    c\n- [ ] d\n\n7. e\n8. f",
		"- a\n  - b\n    \n    c\n- \\[ \\] d\n\n7. e\n8. f",
	},
	"empty items": {"- - \n  - a\n1.\n2. b", "- - a\n\n1. b"},
	"quotation":   {"> [!WARNING]\n> a\nlazy", "> \\[" + Gap + "!WARNING\\]\n> a\n> lazy"},
	"table": {
		"| a | b |\n|---|:-:|\n| `x\\|y` | @me \\| z |\n\nafter",
		"| a | b |\n| --- | --- |\n| `x\\|y` | @\u200bme \\| z |\n\nafter",
	},
	"almost a table": {"a | b\n\\--- | ---", "a | b\n\\--- | ---"},
	"formulas": {"$x$ costs $5, $$y$$ and $`z`$", "`$x$` costs `$5`, `$$y$$` and `$`" + Gap + "`z`" +
		Gap + "`$`"},
	"footnotes": {"a[^1]\n\n[^1]: b c", "a\\[" + Gap + "^1\\]\n\n\\[" + Gap + "^1\\]: b c"},
	"rules":     {"a\n\n---\n\n***\nb", "a\n\nb"},
	"beginnings of line": {
		"a\n\\# b\n\\- c\n1\\. d\n\\> e\n&#43; f\n&nbsp;&#35; g",
		"a\n\\# b\n\\- c\n1\\. d\n\\> e\n\\+ f\n\u00a0# g",
	},
	"invisible": {"a&#x202e;b&#8203;c&#10;d&zwj;", "abc\nd\u200d"},
}

// TestWords compares the rendering of people's texts with the expected Markdown.
func TestWords(t *testing.T) {
	for name, tc := range wordCases {
		if got := Blocks(tc.in, 1000, Style{}); got != tc.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tc.want)
		}
	}
}

// parts are the building blocks of hostile text.
var parts = []string{
	"@octocat", "@", "acme/team", "&#64;", "&commat;", "&#x40;x", "@&#111;x", `\@x`, "@<!-- -->x", "#1", "#", "1",
	"GH-", "gh-2", "acme/x#3", "&num;4", `\#5`, "fixes ", "closes: ", "resolves\n",
	"https://github.com/acme/x/issues/6", "http", "://", "www.", "x.org", "javascript:alert(1)", "mailto:a@b.org",
	"<https://x.org>", "[a](https://x.org)", "![a](https://x.org/p.png)", "[a]", "[", "]", "(", ")", "](",
	"[a]: https://x.org\n", "\n[a]:\nx\n", "![", "[^1]", "[^1]: ", "[!NOTE]", "> ", ">", "> [!WARNING]\n",
	"<img src=x>", "<details>", "</details>", "<summary>", "</summary>", "<!--", "-->", "<!-- retake:claim v1 {} -->",
	"<a href=x>",
	"<script>", "<style>", "<pre>", "<![CDATA[", "<?", "<", "&lt;", "&gt;", "&", ";", "`", "``", "```", "````mermaid\n",
	"~~~", "~~~\n", "~", "~~", "*", "**", "***", "_", "__", "$", "$$", "$`", "`$", "|", "| a | b |\n| --- | --- |\n",
	"|-|-|\n",
	"a | b\n", "--- | ---\n", "# ", "\n===\n", "\n---\n", "- ", "-", "+ ", "* ", "1. ", "2) ", "- [ ] ", "    ", "\t",
	" ", "  \n", "\\\n", "\\", "\n", "\n\n", "word", "a", "é", "字", "\u00a0", "\u200b", "\u200d",
	"a5c3785ed8d6a35868bc169f07e40e889087fd2e", "1234567", "{", "}", "!", ".",
}

var hostile = rapid.Custom(func(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 30).Draw(t, "parts"), "")
})

// github renders text like GitHub, but keeps all HTML, so that the test can find it.
var github = goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote),
	goldmark.WithRendererOptions(ghtml.WithUnsafe(), ghtml.WithHardWraps()))

// seen is a page as a browser shows it.
type seen struct {
	tags []string // names of start tags, and "<!--" for HTML comments
	text string   // text outside code, split at tags
}

func show(t interface{ Fatal(...any) }, markdown string) (s seen) {
	var page bytes.Buffer
	if err := github.Convert([]byte(markdown), &page); err != nil {
		t.Fatal(err)
	}
	code := 0
	for z := html.NewTokenizer(&page); ; {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return s
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			tag := z.Token()
			s.text += "\x00"
			if kind != html.EndTagToken {
				s.tags = append(s.tags, tag.Data)
			}
			if tag.Data == "code" && kind == html.StartTagToken {
				code++
			} else if tag.Data == "code" {
				code--
			}
		case html.TextToken:
			if code == 0 {
				s.text += z.Token().Data
			}
		default:
			s.tags = append(s.tags, "!")
		}
	}
}

// allowed lists the tags that may occur in rendered text.
var allowed = []string{
	"p", "ul", "ol", "li", "blockquote", "pre", "code", "table", "thead", "tbody", "tr", "th", "td",
	"strong", "em", "del", "br",
}

// acts matches text that triggers an action by GitHub.
var acts = regexp.MustCompile(`(?i)@[a-z0-9_-]|#[0-9]|GH-[0-9]|[a-z]://|www\.|\[[!^]|\$|<!-|\b[0-9a-f]{40}\b`)

// harm describes the forbidden effects of rendered Markdown. It returns "" for harmless text.
func (s seen) harm(own ...string) string {
	for _, tag := range s.tags {
		if !slices.Contains(allowed, tag) && !slices.Contains(own, tag) {
			return "<" + tag + ">"
		}
	}
	return acts.FindString(s.text)
}

// TestWordsDoNothing checks that rendered text does not have an effect, exceed its limit, or change the text after it.
func TestWordsDoNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words, limit := hostile.Draw(t, "words"), rapid.SampledFrom([]int{1, 10, 40, 1000}).Draw(t, "limit")
		for _, style := range []Style{{}, {Message: true}} {
			for how, written := range map[string]string{
				"blocks": Blocks(words, limit, style),
				"line":   Line(words, limit, style),
			} {
				if n := utf8.RuneCountInString(written); n > limit {
					t.Fatalf("%s: %d characters: %q", how, n, written)
				}
				for where, page := range map[string]string{
					"by itself": written + "\n\n**Ours** after.", "in a list": Indent(written, "- ", "  ") +
						"\n\n**Ours** after.", "quoted": Indent(written, "> ", "> ") + "\n\n**Ours** after.",
				} {
					s := show(t, page)
					if bad := s.harm(); bad != "" {
						t.Fatalf("%s, %s: %q: %q", how, where, bad, page)
					}
					if !strings.HasSuffix(strings.TrimSpace(s.text), "\x00Ours\x00 after.\x00") {
						t.Fatalf("%s, %s: the text after it is missing: %q", how, where, page)
					}
				}
			}
		}
		line, code := Line(words, limit, Style{}), Style{}.Code(strings.Join(strings.Fields(words), " "))
		for _, page := range []string{"**Next steps:** " + line + " **ours**", "[" + line + "](ours)", "**Cause:** " +
			code + " **ours**"} {
			s := show(t, page)
			if bad := s.harm("a"); bad != "" || strings.Contains(page, "](ours)") && slices.Index(s.tags, "a") != 1 {
				t.Fatalf("%q: %q: %q", bad, s.tags, page)
			}
		}
		cell := "| a | b | c |\n| --- | --- | --- |\n| " + Line(words, limit, Style{Cell: true}) + " | " +
			Style{Cell: true}.Code(strings.Join(strings.Fields(words), " ")) + " | ours |\n\n**Ours** after."
		s := show(t, cell)
		if bad := s.harm(); bad != "" || !strings.Contains(s.text, "ours\x00\n\x00\n\x00") ||
			strings.Count(strings.Join(s.tags, " "), "td") != 3 {
			t.Fatalf("%q: %q %q", bad, cell, s)
		}
		fence := Style{}.Fence(words) + "\n\n**Ours** after."
		if s := show(t, fence); s.harm() != "" || strings.TrimSpace(s.text) != "\x00\x00\x00\x00Ours\x00 after.\x00" &&
			strings.Count(s.text, "Ours") != 1 {
			t.Fatalf("%q: %q", fence, s)
		}
	})
}

// TestWordsAreWrittenOnce checks that rendering is idempotent, so a text may be rendered twice.
func TestWordsAreWrittenOnce(t *testing.T) {
	for _, words := range []string{
		"Fix #5 for @octocat: `a|b` [x](https://y.org) <b> 3 * 4",
		"the check `go test ./...` failed: snake_case & co. [REDACTED]",
	} {
		once := Line(words, 1000, Style{})
		if twice := Line(strings.ReplaceAll(once, Gap, ""), 1000, Style{}); twice != once {
			t.Errorf("once %q, twice %q", once, twice)
		}
	}
}

// TestHugeWords limits the time for long texts that are hard to parse or that grow when they are rendered.
func TestHugeWords(t *testing.T) {
	limit, size := 8_000, 10_000
	if raced {
		limit, size = limit/2, size/2
	}
	for _, part := range append([]string{
		"> ", ">", "- ", "[", "![", "](", "<", "<!--", "*a", "**a ", "`", "``a ",
		"| a ", "a\n> ", "1. \n", "&#64;", "$ ", "\\", "~", "[a](", "x\n", "<a ", "_a", "- a\n  ",
	}, parts...) {
		began := time.Now()
		written := Blocks(strings.Repeat(part, size/len(part)), limit, Style{})
		line := Line(strings.Repeat(part, size/len(part)), limit, Style{})
		if utf8.RuneCountInString(written) > limit || utf8.RuneCountInString(line) > limit {
			t.Errorf("%q: too long", part)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q: %v", part, took)
		}
	}
}

// TestPlainWords checks that a title cannot close issues, mention people or skip checks, and that people can read it.
func TestPlainWords(t *testing.T) {
	for _, tc := range [][2]string{
		{"fixes #1 [skip ci] @someone", "fixes # 1 (skip ci) @ someone"},
		{"Closes acme/x#2, resolves GH-3 and gh-4", "Closes acme/x# 2, resolves GH- 3 and gh- 4"},
		{"fix https://github.com/a/b/issues/5 and www.x.org", "fix github.com/a/b/issues/5 and www. x.org"},
		{
			"[ci skip] [no ci] [skip actions] ***NO_CI*** skip-checks: true",
			"(ci skip) (no ci) (skip actions) ***NO_ CI*** skip-checks : true",
		},
		{"Co-authored-by: Eve <eve@x.org>", "Co-authored-by : Eve <eve@ x.org>"},
		{"ftp://x.org", "ftp: //x.org"},
		{"Signed-off-by:x", "Signed-off-by :x"},
		{"<!-- x --> Bump @types/node from 1 to 2", "<! -- x --> Bump @ types/node from 1 to 2"},
		{"Release-As: 9.9.9", "Release-As : 9.9.9"},
		{"BREAKING CHANGE: x", "BREAKING  CHANGE: x"},
		{"breaking-change: y", "breaking -change: y"},
		{"/approve", "/ approve"},
		{"x\n/lgtm cancel\nbors r+", "x\n/ lgtm cancel\nbors  r+"},
		{"/etc/hosts is not /etc", "/etc/hosts is not /etc"},
		{"borscht", "borscht"},
		{"fixup! squash! x\namend! y", "fixup ! squash! x\namend ! y"},
		{"BEGIN_COMMIT_OVERRIDE feat: x", "BEGIN_ COMMIT_OVERRIDE feat: x"},
		{"For example: a#b, C# 8, #tag, HIGH-5", "For example: a#b, C# 8, #tag, HIGH-5"},
	} {
		if got := Plain(tc[0], " "); got != tc[1] {
			t.Errorf("%q: got %q, want %q", tc[0], got, tc[1])
		}
	}
	if got := Blocks("/approve\nx\n/usr/bin/x", 1000, Style{}); got != "\\/approve\nx\n/usr/bin/x" {
		t.Errorf("a command in a comment: %q", got)
	}
	got := Blocks("fixes `fixes #1 [skip ci]` [skip ci] ***NO_CI***\n\n```\n@x\n```\nSigned-off-by: x", 1000,
		Style{Message: true})
	if want := "fixes `fixes #" + Gap + "1 (skip ci)` (skip ci) *NO\\_" + Gap + "CI*\n\n```text\n@" + Gap +
		"x\n```\n\nSigned-off-by" + Gap + ": x"; got != want {
		t.Errorf("in a message: got %q, want %q", got, want)
	}
}
