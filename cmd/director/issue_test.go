package main

import (
	"strings"
	"testing"

	"retake/internal/fsm"
)

func TestAnIssueIsNamedInAnyWay(t *testing.T) {
	one, two := []string{"Acme/Widgets"}, []string{"acme/widgets", "acme/gadgets", "other/widgets"}
	for _, c := range []struct {
		name         string
		repositories []string
		want         fsm.IssueKey
		says         string // expected in the error
	}{
		{"21", one, "Acme/Widgets#21", ""},
		{"#21", one, "Acme/Widgets#21", ""},
		{" widgets#21 ", one, "Acme/Widgets#21", ""},
		{"acme/widgets#021", one, "Acme/Widgets#21", ""},
		{"https://github.com/acme/widgets/issues/21", one, "Acme/Widgets#21", ""},
		{"https://github.example/acme/widgets/issues/21#issuecomment-7", one, "Acme/Widgets#21", ""},
		{"gone/away#3", one, "gone/away#3", ""}, // the repository used to be in the configuration
		{"gone/away#3", nil, "gone/away#3", ""},
		{"gadgets#7", two, "acme/gadgets#7", ""},
		{"other/widgets#7", two, "other/widgets#7", ""},

		{"7", two, "", "specify the repository, e.g. acme/widgets#7"},
		{"widgets#7", two, "", "acme/widgets, other/widgets"},
		{"away#7", two, "", "away is not in github.repositories"},
		{"7", nil, "", "want owner/repo#7"},
		{"0", one, "", "numbers start at 1"},
		{"", one, "", "is not an issue"},
		{"widgets", one, "", "is not an issue"},
		{"a/b/c#1", one, "", "is not an issue"},
		{"-7", one, "", "is not an issue"},
		{"acme/widgets#9999999999999999999", one, "", "is not an issue"},
	} {
		got, err := issueKey(c.name, c.repositories)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q among %v: %q, %v; want %q or an error with %q", c.name, c.repositories, got, err, c.want,
				c.says)
		}
	}
}
