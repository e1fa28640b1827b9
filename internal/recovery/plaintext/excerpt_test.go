package plaintext

import (
	"fmt"
	"strings"
	"testing"
)

func TestExcerpt(t *testing.T) {
	numbered := func(n int, special map[int]string) string {
		var s strings.Builder
		for i := range n {
			line, ok := special[i]
			if !ok {
				line = fmt.Sprintf("line %d", i)
			}
			s.WriteString(line + "\n\n")
		}
		return s.String()
	}
	const failure = "widget_test.go:31: width 3, want 4"
	for name, tc := range map[string]struct {
		output, cause string
		n             int
		want          string
	}{
		"nothing": {"", "x", 12, ""},
		"blank":   {" \n\t\n", "", 12, ""},
		"short":   {"a\n\nb\n", "", 12, "a\nb"},
		"around the cause": {numbered(20, map[int]string{9: "    " + failure}), failure, 4, "…\nline 8\n    " +
			failure + "\nline 10\nline 11\n…"},
		"cause of two lines": {numbered(20, map[int]string{4: failure}), "VALIDATE: go returned exit code 1: " +
			failure, 4, "…\nline 3\n" + failure + "\nline 5\nline 6\n…"},
		"first error": {
			numbered(20, map[int]string{3: "ERROR: it", 9: "Error: again"}), "something else", 4,
			"…\nline 2\nERROR: it\nline 4\nline 5\n…",
		},
		"the end": {numbered(20, nil), "", 3, "…\nline 17\nline 18\nline 19"},
		"cause at the end": {numbered(20, map[int]string{19: failure}), failure, 4, "…\nline 16\nline 17\nline 18\n" +
			failure},
		"cause at the start": {numbered(6, map[int]string{0: failure}), failure, 4, failure +
			"\nline 1\nline 2\nline 3\n…"},
		"colours":   {"\x1b[31mred\x1b[0m\n10%\r100%\n", "", 12, "red\n100%"},
		"long line": {strings.Repeat("x", 300), "", 12, strings.Repeat("x", 240) + "..."},
	} {
		if got := Excerpt(tc.output, tc.cause, tc.n); got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tc.want)
		}
	}
	long := strings.Repeat("word ", 100) + failure + strings.Repeat(" more", 100)
	if got := Excerpt(long, failure, 12); !strings.Contains(got, failure) || len(got) > 300 {
		t.Errorf("the cause in a long line: %q", got)
	}
	if got := Excerpt(strings.Repeat("é", 1<<20), "", 12); len(got) > 300 || strings.Contains(got, "\uFFFD") {
		t.Errorf("%d bytes of a huge line: %.20q", len(got), got)
	}
}

func TestCommandLine(t *testing.T) {
	for want, argv := range map[string][]string{
		"go test ./...": {"go", "test", "./..."}, `sh -c 'a && b'`: {"sh", "-c", "a && b"},
		`echo 'it'\''s' ''`:  {"echo", "it's", ""},
		"claude -p {prompt}": {"claude", "-p", "{prompt}"}, "": nil,
	} {
		if got := CommandLine(argv); got != want {
			t.Errorf("%q: %s", argv, got)
		}
	}
}
