package shown

import (
	"strings"
	"testing"

	"retake/internal/recovery/plaintext"
)

// TestWhatIsSeenStays checks that Markdown does not change visible text.
func TestWhatIsSeenStays(t *testing.T) {
	for _, words := range []string{
		"",
		"Plain words.\r\n\r\nMore of them.\n\n",
		"# Title\n\n- [ ] one\n- [x] two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
		"`<!-- shown -->` and\n\n```html\n<!-- shown, too -->\n[//]: # (shown)\n```\n\n    <!-- indented -->\n",
		"~~~\n&#8203;\n~~~\nand `&#8203;`",
		"<details>\n<summary>Log</summary>\n\nfolded, and one click away\n\n</details>",
		"a < b && b > c, <b>bold</b><br>, x<!y",
		"[link](https://example.com/a?b=c) and [ref][r], ![shot](https://example.com/s.png)\n\n[r]: " +
			"https://example.com/r\n",
		"<img src=\"https://example.com/s.png\" width=\"300\">",
		"A note[^1].\n\n[^1]: that is referred to",
		"👩‍👩‍👧‍👦 👨🏽‍💻 ❤️ ☂︎ 1️⃣ 🏳️‍🌈 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
		"می\u200cخواهم کتاب\u200cها را بخوانم",
		"שלום\u200f! مرحبا\u200f (ok)",
		"क्\u200dष और क्\u200cष", "漢\U000E0100字", "日本語、한국어, Ελληνικά, é\u0301",
		"&amp; &lt;b&gt; &nbsp;&copy;",
		"tabs\tand\n\nform: 100 %",
	} {
		if got, n := Markdown(words); got != words || n != 0 {
			t.Errorf("%q became %q, %d passages", words, got, n)
		}
	}
}

// inTags converts text to Unicode's tag characters, which are invisible.
func inTags(s string) string {
	return strings.Map(func(r rune) rune { return r + 0xE0000 }, s)
}

// hiddenCases has texts with hidden passages, the expected visible text, and the number of hidden passages.
var hiddenCases = map[string]struct {
	words, want string
	hidden      int
}{
	"a comment of a block":           {"a\n\n<!-- do evil -->\n\nb", "a\n\n\n\nb", 1},
	"of several lines":               {"a\n\n<!--\ndo\n\nevil\n-->\n\nb", "a\n\n\n\nb", 1},
	"within a line":                  {"a <!-- do evil --> b", "a  b", 1},
	"two":                            {"<!-- x -->a<!-- y -->", "a", 2},
	"never closed":                   {"a\n\n<!-- do evil\n\nmore", "a\n\n", 1},
	"never closed, in another block": {"<div>\n<!-- do\n\nevil\n\n-->\n", "<div>\n", 1},
	"in a list":                      {"- a\n  <!-- do evil -->\n- b", "- a\n  \n- b", 1},
	"in a quotation":                 {"> a <!-- do\n> evil --> b", "> a  b", 1},
	"in HTML":                        {"<div>\n<!-- do evil -->\nb\n</div>", "<div>\n\nb\n</div>", 1},
	"an instruction":                 {"a <?do evil?> b", "a  b", 1},
	"a declaration":                  {"a <!DO evil> b", "a  b", 1},
	"a definition as comment":        {"a\n\n[//]: # (do evil)\n\nb", "a\n\n\n\nb", 1},
	"in quotes":                      {"a\n\n[comment]: <> \"do evil\"\n\nb", "a\n\n\n\nb", 1},
	"the title of a definition": {
		"[a]\n\n[a]: https://x.test \"do evil\"", "[a]\n\n[a]: https://x.test",
		1,
	},
	"of a link":   {"[a](https://x.test \"do evil\") b", "[a](https://x.test) b", 1},
	"of an image": {"![a](https://x.test 'do evil')", "![a](https://x.test)", 1},
	"an unneeded description": {
		"![" + strings.Repeat("do evil ", 20) + "x](https://x.test)",
		"![](https://x.test)", 1,
	},
	"attributes": {
		"<img src=\"https://x.test\" alt=\"do evil\" title='more'>",
		"<img src=\"https://x.test\">", 1,
	},
	"attributes within a line":          {"a <span data-x=\"do evil\">b</span>", "a <span>b</span>", 1},
	"a note that nothing refers to":     {"a\n\n[^x]: do evil", "a\n\n", 1},
	"zero width":                        {"i\u200bg\u2060n\ufeffore", "ignore", 3},
	"words in tags":                     {"a" + inTags("do evil") + "b", "ab", 1},
	"behind a flag":                     {"\U0001F3F4" + inTags("do evil\x7f"), "\U0001F3F4", 1},
	"in variation selectors":            {"❤\ufe0f\ufe01\ufe02\U000E0101", "❤\ufe0f", 1},
	"in joiners":                        {"a\u200c\u200d\u200c\u200db", "ab", 1},
	"in joiners behind letters of join": {"ب\u200d\u200d\u200d\u200c", "ب", 1},
	"in marks of direction":             {"a\u200e\u200f\u200eb", "ab", 1},
	"overrides":                         {"a\u202eb\u202c \u2066c\u2069", "ab c", 4},
	"control characters":                {"a\x00\x1b[8mb\u0085", "a[8mb", 2},
	"private use":                       {"a\ue000\U000F0000b", "ab", 1},
	"letters without a shape":           {"a\u3164\u115f\u2800b", "ab", 1},
	"soft hyphens":                      {"a\u00adb", "ab", 1},
	"in code, too":                      {"`a" + inTags("x") + "b`", "`ab`", 1},
	"by entities":                       {"a&#8203;&#xE0041;&ZeroWidthSpace;b&shy;", "ab", 2},
	"a comment behind a character":      {"<\u200b!-- seen -->", "<!-- seen -->", 1},
}

func TestWhatIsHiddenIsLeftOut(t *testing.T) {
	for name, x := range hiddenCases {
		got, n := Markdown(x.words)
		if got != x.want || n != x.hidden {
			t.Errorf("%s: %q became %q with %d passages, want %q with %d", name, x.words, got, n, x.want, x.hidden)
		}
		if again, more := Markdown(got); name != "a comment behind a character" && (again != got || more != 0) {
			t.Errorf("%s: once more: %q, %d", name, again, more)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add("a <!-- b --> [c](d \"e\")\n\n[f]: # (g)\n")
	f.Add("![a](b 'c')\n\n<div title=x>\n<!--")
	f.Fuzz(func(t *testing.T, words string) {
		got, n := Markdown(words)
		if (n == 0) != (got == words) && strings.ToValidUTF8(words, "") == words {
			t.Errorf("%q became %q, %d passages", words, got, n)
		}
		if _, more := plaintext.Seen(got); more > 0 {
			t.Errorf("%q still has %d", got, more)
		}
	})
}
