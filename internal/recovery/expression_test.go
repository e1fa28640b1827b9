package recovery

import (
	"strings"
	"testing"
)

// TestExpressionTwin: taken apart, the rules' expressions match the same lines as they do whole.
func TestExpressionTwin(t *testing.T) {
	c := newClassifier(t)
	lines := []string{"", "Error: 429", "ECONNRESET while reading", "Permission Denied (publickey)"}
	for _, r := range c.rules {
		lines = append(lines, r.Examples...)
	}
	matched, total := 0, 0
	for _, r := range c.rules {
		if r.re == nil {
			continue
		}
		x, err := newExpression(r.Match)
		if err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
		for _, line := range lines {
			want := r.re.MatchString(line)
			if got := x.matches(line, strings.ToLower(line)); got != want {
				t.Errorf("%s, %q: %v, want %v", r.ID, line, got, want)
			}
			total++
			if want {
				matched++
			}
		}
	}
	t.Logf("%d of %d match", matched, total)
	if matched < len(c.rules) {
		t.Errorf("only %d matches among the rules' own examples", matched)
	}
}

func TestExpressionParts(t *testing.T) {
	for match, want := range map[string]string{
		`a|b`:                  "a / b",
		`(?i)a|b`:              "(?i)a / (?i)b",
		`a(b|c)|[|]d\|e|[]|]f`: `a(b|c) / [|]d\|e / []|]f`,
		`[^|[:alpha:]|]|x`:     "[^|[:alpha:]|] / x",
		`a|(?i)b|c`:            "a|(?i)b|c",
		``:                     "",
	} {
		if got := strings.Join(outermost(match), " / "); got != want {
			t.Errorf("%s: %q, want %q", match, got, want)
		}
	}
}

func TestExpressionNeeds(t *testing.T) {
	for match, want := range map[string]string{
		`(?i)Connection ?refused`:        "connection",
		`\d+ problems? \(`:               " problem",
		`a|b`:                            "",
		`(?:foo|barbaz) x`:               "foo|barbaz",
		`(?:foo)?`:                       "",
		`(?:foo){2,3}`:                   "foo",
		`(?:missing|required) scope`:     "missing|required",
		`[abc]+\s*(alpha|beta).{0,20}xy`: "alpha|beta",
	} {
		x, err := newExpression(match)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(x.alternatives[0].needs, "|")
		if len(x.alternatives) == 1 && got != want {
			t.Errorf("%s needs %q, want %q", match, got, want)
		}
	}
}
