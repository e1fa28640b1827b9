package plaintext

import (
	"strings"
	"testing"
)

// TestWithoutControl checks that all sequences that a terminal interprets are removed.
func TestWithoutControl(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing to do", "a\tb\nc", "a\tb\nc"},
		{"colours", "\x1b[1;31mred\x1b[0m and \x1b[38;5;196mred\x1b[m", "red and red"},
		{"a title, ended by BEL", "\x1b]0;error 429\ax", "x"},
		{"a title, ended by ST", "\x1b]0;error 429\x1b\\x", "x"},
		{"a title, not ended", "\x1b]0;error 429\nx", "\nx"},
		{"a link", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"DCS, APC, PM, SOS", "\x1bPq#0\x1b\\a\x1b_G1\x1b\\b\x1b^p\x1b\\c\x1bXs\x1b\\d", "abcd"},
		{"two bytes", "\x1b7a\x1b8b\x1b(Bc\x1b=d\x1bce", "abcde"},
		{"C1", "\u009b31mred\u009b0m\u009d0;title\u009c.", "red."},
		{"a letter that looks like C1 at first", "¬ «é»", "¬ «é»"},
		{"overwritten", "10%\r20%\rdone\r\n", "done\n"},
		{"a return at the end", "done\r", "done"},
		{"line ends of Windows", "a\r\nb\r\r\nc", "a\nb\nc"},
		{"backspaces", "N\bNO\bO -\b\\\b|\b", "NO "},
		{"backspaces stop at the row's beginning", "a\n\b\bé\b\bb", "a\nb"},
		{"the cursor in place of blanks", "two\x1b[1Cwords", "two words"},
		{"the cursor in place of line ends", "one\x1b[2;1Htwo\x1b[1Ethree", "one\ntwo\nthree"},
		{"an overwritten row", "\x1b[2K\x1b[1Gspin\x1b[2K\x1b[1Gdone", "done"},
		{"cut off", "a\x1b", "a"},
		{"cut off in a sequence", "a\x1b[31", "a"},
		{"only control", "\x1b]0;t\a\x1b[?25l\x1b[2J\x1b[H\x1bPx\x1b\\\r", ""},
	} {
		if got := WithoutControl(tc.text); got != tc.want {
			t.Errorf("%s: %q becomes %q, want %q", tc.name, tc.text, got, tc.want)
		}
		if got := WithoutControl(tc.want); got != tc.want {
			t.Errorf("%s: %q becomes %q in a second pass", tc.name, tc.want, got)
		}
	}
}

// TestCleanUpTo checks that cleanUpTo finds each byte in suspect at each position.
func TestCleanUpTo(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			s := strings.Repeat("\n", at) + string([]byte{byte(c)}) + strings.Repeat("\xff", 20-at)
			want := len(s)
			if suspect[c] {
				want = at
			}
			if got := cleanUpTo(s); got != want {
				t.Errorf("%q: %d, want %d", s, got, want)
			}
			if got := HasControl(s[at:]); got != (c < ' ') {
				t.Errorf("%q has control characters: %v", s[at:], got)
			}
		}
	}
}
