package timeline

import "testing"

// TestPlainIsWhatIsSeen checks that a terminal shows foreign text in its written order, and completely.
func TestPlainIsWhatIsSeen(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"turned around", "invoice\u202egpj.exe", "invoicegpj.exe"},
		{"isolated", "a \u2066b\u2069 c", "a b c"},
		{"invisible", "de\u200blete\u2060 \U000E0041\u00adit", "delete it"},
		{"a separate line", "a\u2028b", "a b"},
		{"only invisible characters between blanks", "a \u202e b", "a b"},
		{"in colour", "\x1b[31mred\u202e\x1b[0m", "red"},
		{"as people write", "می\u200cخواهم 👩\u200d💻 ❤\ufe0f", "می\u200cخواهم 👩\u200d💻 ❤\ufe0f"},
	} {
		if got := Plain(c.text); got != c.want {
			t.Errorf("%s: %q becomes %q, want %q", c.name, c.text, got, c.want)
		}
		if got := whole(c.text); got != c.want {
			t.Errorf("%s, whole: %q becomes %q, want %q", c.name, c.text, got, c.want)
		}
	}
}
