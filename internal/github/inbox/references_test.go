package inbox

import (
	"strings"
	"testing"

	"retake/internal/github/api"
)

func TestReferences(t *testing.T) {
	in := api.Place{Owner: "acme", Repo: "widgets", Number: 1}
	for text, want := range map[string]string{
		"":                                      "",
		"Fixes #2, see #3, after #4":            "",
		"Blocked by #2":                         "acme/widgets#2",
		"It is blocked by: #2, #3 and #4.":      "acme/widgets#2 acme/widgets#3 acme/widgets#4",
		"Depends on acme/gadgets#7 and also #8": "acme/gadgets#7",
		"depends on https://github.com/acme/gadgets/issues/7, " +
			"https://github.com/acme/widgets/pull/9": "acme/gadgets#7 acme/widgets#9",
		"Blocked by #1":                  "", // itself
		"Blocked by #2\r\nBlocked by #2": "acme/widgets#2",
		"- [ ] #2\n- [x] #3\n* [ ] acme/gadgets#4: done soon\n- [ ] see #5": "acme/widgets#2 acme/gadgets#4",
		"> Blocked by #2\n\nDepends on #3":                                  "acme/widgets#3",
		"```\nBlocked by #2\n```\nDepends on #3":                            "acme/widgets#3",
		"Depends on https://codeberg.org/acme/widgets/issues/3":             "",
		"<!-- e.g.\nBlocked by #2 -->\nDepends on `#4`":                     "",
		"Write `Blocked by #2` if it is. Blocked by #5":                     "acme/widgets#5",
		"Unblocked by #2":                                "",
		"Blocked by #0, blocked by #2":                   "acme/widgets#2",
		"Blocked by #99999999999999999999":               "",
		"Blocked by " + strings.Repeat("#2 #3 ", 10_000): "acme/widgets#2 acme/widgets#3",
	} {
		if got := strings.Join(references(in, "github.com", text), " "); got != want {
			t.Errorf("%.60q: got %q, want %q", text, got, want)
		}
	}
	many := "Blocked by"
	for n := range 1000 {
		many += " #" + string(rune('1'+n%9)) + strings.Repeat("0", n%5) + "7"
	}
	if n := len(references(in, "github.com", many)); n != 20 {
		t.Errorf("got %d references, want %d", n, 20)
	}
}
