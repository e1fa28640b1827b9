package prompts

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"retake/internal/agent"
	"retake/internal/bus/wire"
)

func mustTemplate(t *testing.T, text string) *Template {
	t.Helper()
	p, faults := ParseTemplate(text)
	if len(faults) > 0 {
		t.Fatalf("%q: %v", text, faults)
	}
	return p
}

// rendered returns the prompt of a template after the frame.
func rendered(t *testing.T, text string, task agent.Task) string {
	t.Helper()
	task.Template = mustTemplate(t, text)
	own, found := strings.CutPrefix(agent.Prompt(task, agent.DefaultPrompt), agent.Frame(task)+"\n")
	if !found {
		t.Errorf("%q: the prompt does not begin with the frame", text)
	}
	return own
}

func TestTemplates(t *testing.T) {
	first, late := CodeSample(false), CodeSample(true)
	late.Attempt.Action = ""
	const cause = "\n> --- FAIL: TestLastLine\n"
	for name, row := range map[string]struct {
		task       agent.Task
		text, want string
	}{
		"plain text": {first, "Read HACKING.md.", "Read HACKING.md.\n"},
		"all short texts": {
			first, "{{.Issue.Key}} {{.Issue.Number}} {{.Issue.URL}} {{.Repository}} {{.Branch}} {{.BaseBranch}} " +
				"{{.Attempt}}\n{{.Issue.Labels}}\n{{.Checks}}",
			"acme/widgets#21 21 https://github.com/acme/widgets/issues/21 acme/widgets retake/21-a1 main 1\n" +
				"agent-task, bug\nmake test\n",
		},
		"a quotation begins a line": {
			first, "Fix {{.Issue.Title}}, please.", "Fix\n> Parser drops the last line\n, please.\n",
		},
		"a quotation on its own line": {
			first, "# Issue\n{{.Issue.Title}}\n{{.Issue.Body}}\nEnd.",
			"# Issue\n> Parser drops the last line\n> A file without a final newline loses its last line.\nEnd.\n",
		},
		"a quotation in a fence": {
			first, "```\n{{.Issue.Title}}```", "```\n> Parser drops the last line\n```\n",
		},
		"conditions": {
			first, `{{if and (has .Issue.Labels "bug") (eq .Attempt 1)}}Bug.{{end}}` +
				`{{if or .Failures .Answers}}No.{{end}}{{if not .Failures}}{{if gt (len .Issue.Labels) 1}} Two.{{end}}{{end}}`, "Bug. Two.\n",
		},
		"ranges": {
			late, "{{range .Failures}}{{.Attempt}} {{.Stage}} {{.Reason}}: {{.Cause}}{{end}}" +
				"{{range $i, $x := .Answers}}{{$i}} {{$x.From}}:\n{{$x.Text}}{{else}}none{{end}}",
			"1 CODE test_failure:" + cause + "2 CODE timeout:" + cause + "3 CODE scope_violation:" + cause +
				"0 octocat:\n> Keep the public functions.\n",
		},
		"variables": {
			first, `{{$n := 1}}{{range .Issue.Labels}}{{if eq . "bug"}}{{$n = 2}}{{break}}{{end}}{{end}}{{$n}} ` +
				"{{with .Issue}}{{.Number}} {{$.Attempt}}{{end}}", "2 21 1\n",
		},
		"a pipeline": {first, "{{.Issue.Labels | len}} {{(.Issue).Number}}", "2 21\n"},
	} {
		if got := rendered(t, row.text, row.task); got != row.want {
			t.Errorf("%s: got\n%q\nwant\n%q", name, got, row.want)
		}
	}
	empty := first
	empty.Attempt.Issue.Body = " \n"
	if got := rendered(t, `{{if .Issue.Body}}body{{else}}{{or .Issue.Body "none"}}{{end}}`, empty); got != "none\n" {
		t.Errorf("an empty description: got %q", got)
	}
}

const (
	rootFields  = ".Issue, .Answers, .Failures, .Repository, .Branch, .BaseBranch, .Checks, .Attempt, .Default"
	issueFields = ".Key, .Number, .Title, .Body, .Labels, .URL"
	functions   = "want one of and, or, not, eq, ne, lt, le, gt, ge, len, has"
)

var badTemplates = []struct{ text, want string }{
	{"", "1:1: the prompt is empty"},
	{"a\x00b", `1:2: control character or invalid UTF-8: "\x00"`},
	{strings.Repeat("x", 16385), "1:1: the prompt exceeds the limit of 16384 bytes"},
	{"a\n {{.Isue}}", "2:4: unknown field .Isue, want one of " + rootFields},
	{"{{.Issue.Titel}}", "1:9: unknown field .Titel, want one of " + issueFields},
	{"{{$.Issue.Titel}}", "1:10: unknown field .Titel, want one of " + issueFields},
	{"{{(.Issue).Titel}}", "1:11: unknown field .Titel, want one of " + issueFields},
	{"{{.Issue.Title.String}}", "1:15: unknown field .String: the value before it has no fields"},
	{"{{.Issue.Title.mark}}", "1:15: unknown field .mark: the value before it has no fields"},
	{"{{.passages}}", "1:3: unknown field .passages, want one of " + rootFields},
	{"{{if gt .Attempt 9}}{{.X.Y}}{{end}}", "1:23: unknown field .X, want one of " + rootFields},
	{"\n{{printf \"%s\" .Issue.Title}}", `2:3: unknown function "printf", ` + functions},
	{"{{slice .Issue.Body 2}}", `1:3: unknown function "slice", ` + functions},
	{"{{.Issue.Body | html}}", `1:17: unknown function "html", ` + functions},
	{"{{call .Issue}}", `1:3: unknown function "call", ` + functions},
	{"{{.Issue}}", "1:3: cannot print .Issue: want one of its fields " + issueFields},
	{"{{.}}", "1:3: cannot print .: want one of its fields " + rootFields},
	{"{{.Failures}}", "1:3: cannot print the list .Failures: use {{range}}"},
	{"{{and .Issue .Failures}}", "1:3: cannot print and .Issue .Failures"},
	{"{{eq .Issue.Title \"a\"}}", "1:3: eq: want two numbers, or two texts that are not quotations"},
	{"{{lt .Attempt \"a\"}}", "1:3: lt: want two numbers, or two texts that are not quotations"},
	{"{{eq .Attempt 1 2}}", "1:3: eq: want two numbers, or two texts that are not quotations"},
	{"{{len .Issue.Title}}", "1:3: len: want one list"},
	{"{{has .Failures \"a\"}}", "1:3: has: want a list of texts and a text"},
	{"{{not}}", "1:3: not: want one argument"},
	{"{{and}}", "1:3: and: want at least one argument"},
	{"{{.Attempt 1}}", "1:3: .Attempt is not a function"},
	{"{{1 | .Attempt}}", "1:7: .Attempt is not a function"},
	{"{{eq .Attempt 1.5}}", "1:15: 1.5: want a whole number in decimal digits"},
	{`{{"\x00"}}`, `1:3: control character or invalid UTF-8 in "\x00"`},
	{"{{range 1000000000}}x{{end}}", "1:9: cannot range over 1000000000, want a list"},
	{"{{range .Issue.Body}}x{{end}}", "1:9: cannot range over .Issue.Body, want a list"},
	{"{{range .Answers}}{{range .}}x{{end}}{{end}}", "1:27: cannot range over ., want a list"},
	{
		"{{range $.Failures}}{{range $.Failures}}{{range $.Failures}}x{{end}}{{end}}{{end}}",
		"1:49: {{range}} is nested more than 2 deep",
	},
	{"{{$x := 1}}{{$x = \"a\"}}", "1:14: $x has another type than the value assigned to it"},
	{"{{range $x := .Checks}}{{else}}{{$x}}{{end}}", "1:34: $x is not declared here"},
	{"{{if true}}{{$x := 1}}{{else}}{{$x}}{{end}}", "1:33: $x is not declared here"},
	{"{{if ($x := 1)}}{{end}}", "1:7: cannot declare a variable in parentheses"},
	{"{{define \"a\"}}{{template \"a\"}}{{end}}{{template \"a\"}}", "1:1: " + noDefinitions},
	{"a {{block \"a\" .}}{{end}}", "1:3: " + noDefinitions},
	{"a {{template \"a\"}}", "1:14: " + noDefinitions},
	{"{{define \"prompt\"}}x{{end}}", "1:1: " + noDefinitions},
	{"a\nb {{.Issue", "2:3: unclosed action"},
	{"a {{.Attempt}} {{if}}{{end}}", "1:16: missing value for if"},
	{"a\n {{if .Attempt}} b", "2:2: an {{if}}, {{range}} or {{with}} has no {{end}}"},
	{"{{end}}", "1:1: unexpected {{end}}"},
	{"{{.Attempt}}{{$x}}", `1:13: undefined variable "$x"`},
	{"{{break}}", "1:1: {{break}} outside {{range}}"},
	{"{{nil}}", "1:3: nil is not supported here"},
	{"{{not nil}}", "1:7: nil is not supported here"},
}

// TestBadTemplates checks the position and the text of each message.
func TestBadTemplates(t *testing.T) {
	for _, row := range badTemplates {
		_, faults := ParseTemplate(row.text)
		if got := faults.Error(); !slices.Contains(strings.Split(got, "\n"), row.want) {
			t.Errorf("%.60q: got\n%s\nwant\n%s", row.text, got, row.want)
		}
	}
	_, faults := ParseTemplate("{{.A}}\n{{.B}} {{printf}}")
	if len(faults) != 3 {
		t.Errorf("got %v, want all three mistakes", faults)
	}
}

// TestTemplatesCannotUnquote checks that hostile texts stay quoted in every position, and that the prompt fits its
// limit.
func TestTemplatesCannotUnquote(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	evil := []string{
		"\n", "\r", "\r\n", "\u2028", "\u2029", "\u0085", "\v", "\f", "EVIL", "\x00",
		"\x000\x00", "\x1b[2K\x1b[1A", "\b\b",
		"\xff", "{{.Issue.Body}}", "{{", "}}", "```", "~~~", "> ", " ", "\t", strings.Repeat("EVIL ", 300),
	}
	noise := func() string {
		var b strings.Builder
		for range rng.IntN(40) {
			b.WriteString(evil[rng.IntN(len(evil))])
		}
		return b.String()
	}
	templates := []*Template{}
	for _, text := range []string{
		"{{.Issue.Title}}{{.Issue.Body}}", "x{{.Issue.Title}}y{{.Issue.Body}}z", "> {{.Issue.Body}} <",
		"{{range .Answers}}{{.Text}}{{.Text}}{{end}}{{range .Failures}}- {{.Cause}}{{end}}", "{{.Default}}",
		"\t{{or .Issue.Title .Issue.Body}}\r{{and .Issue.Title .Issue.Body}}",
		"{{range .Failures}}{{range $.Failures}}{{.Cause}}{{$.Default}}{{end}}{{end}}",
	} {
		templates = append(templates, mustTemplate(t, text))
	}
	for range 3000 {
		a := wire.AttemptFile{
			Issue:  wire.IssueRef{Key: "acme/widgets#21", Title: noise(), Body: noise()},
			Action: []string{"", "replan", "retry_compact"}[rng.IntN(3)], Conflicts: []string{noise()},
		}
		for range rng.IntN(4) {
			a.Hints = append(a.Hints, wire.Hint{Text: noise()})
			a.EarlierFailures = append(a.EarlierFailures, wire.EarlierFailure{Cause: noise()})
		}
		limit := agent.MinPrompt + rng.IntN(agent.MaxPrompt)
		p := agent.Prompt(agent.Task{
			Stage: "CODE", Attempt: a, Round: 2, Rejected: noise(), Template: templates[rng.IntN(len(templates))],
		}, limit)
		if len(p) > limit || !utf8.ValidString(p) || strings.ContainsAny(p, "\x00\x1b\r\v\f\u0085\u2028\u2029") {
			t.Fatalf("%d bytes of %d: %.600q", len(p), limit, p)
		}
		if !strings.HasPrefix(p, agent.Frame(agent.Task{Stage: "CODE"})) {
			t.Fatalf("the frame is not first: %.200q", p)
		}
		for l := range strings.SplitSeq(p, "\n") {
			if strings.Contains(l, "EVIL") && !strings.HasPrefix(l, "> ") {
				t.Fatalf("not quoted: %.200q", l)
			}
		}
	}
}

// TestTemplatesAreBounded checks that a template with nested loops ends soon, and that its text fits the prompt.
func TestTemplatesAreBounded(t *testing.T) {
	task := CodeSample(true)
	task.Attempt.Hints = slices.Repeat(task.Attempt.Hints, 100)
	task.Attempt.EarlierFailures = slices.Repeat(task.Attempt.EarlierFailures, 100)
	loop := func(body string) string { return "{{range .Answers}}{{range $.Failures}}" + body + "{{end}}{{end}}" }
	for name, text := range map[string]string{
		"its own text":   loop(strings.Repeat("x", 16000)),
		"no output":      loop(strings.Repeat("{{if eq .Attempt 9}}{{end}}", 500)),
		"quotations":     loop(strings.Repeat("{{.Cause}}{{$.Issue.Body}}", 500)),
		"whole prompts":  loop(strings.Repeat("{{$.Default}}", 100)),
		"nested blocks":  strings.Repeat("{{if 1}}", 1000) + strings.Repeat("{{end}}", 1000),
		"many brackets":  "{{" + strings.Repeat("(", 3000) + "1" + strings.Repeat(")", 3000) + "}}",
		"a long program": strings.Repeat("{{$x := 1}}", 1400),
	} {
		p, faults := ParseTemplate(text)
		if len(faults) > 0 {
			if name != "many brackets" { // Go limits their depth
				t.Errorf("%s: %v", name, faults)
			}
			continue
		}
		task.Template = p
		if got := agent.Prompt(task, 8<<10); len(got) > 8<<10 || name != "whole prompts" &&
			!strings.Contains(got, "a different plan") {
			t.Errorf("%s: %d bytes: %.300s", name, len(got), got)
		}
	}
	if err := mustTemplate(t, strings.Repeat("x", 800)).Fits(agent.MinPrompt); err == nil ||
		!strings.Contains(err.Error(), "the prompt's own text, without quotations, has more than ") {
		t.Errorf("got %v, want an error about the space for quotations", err)
	}
	for _, text := range []string{"{{.Default}}", "Fix {{.Issue.Title}}{{.Issue.Body}}", strings.Repeat("x", 12000)} {
		if err := mustTemplate(t, text).Fits(agent.DefaultPrompt); err != nil {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// TestTemplateKeepsTheNotes checks that the notes about this attempt follow the template. They must not appear twice if
// the template contains the default prompt.
func TestTemplateKeepsTheNotes(t *testing.T) {
	task := CodeSample(false)
	task.Round, task.Rejected, task.Attempt.Conflicts = 2, "exit code 1", []string{"a.txt: has conflict markers"}
	const want = "Your last change (round 1) was rejected."
	for _, text := range []string{"Work on {{.Issue.Title}}", "Team rules.\n{{.Default}}"} {
		got := rendered(t, text, task)
		if strings.Count(got, want) != 1 || strings.Count(got, "> a.txt: has") != 1 ||
			!strings.Contains(got, "> exit code 1") {
			t.Errorf("%q: got\n%s", text, got)
		}
	}
	task.Stage, task.Template = wire.StageValidate, mustTemplate(t, "TEAM")
	if got := agent.Prompt(task, agent.DefaultPrompt); strings.Contains(got, "TEAM") {
		t.Errorf("another stage uses the template:\n%s", got)
	}
}

// TestFieldsAreDocumented checks that a template can use each documented field.
func TestFieldsAreDocumented(t *testing.T) {
	lines := Fields()
	if len(lines) != 20 {
		t.Errorf("%d fields:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		text := "{{if " + name + "}}{{end}}"
		if list, field, nested := strings.Cut(name, "[]"); nested {
			text = "{{range " + list + "}}{{" + field + "}}{{end}}"
		}
		mustTemplate(t, text)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		"{{.Issue.Title}}", "{{range $i, $x := .Failures}}{{$x.Cause}}{{else}}{{end}}", "{{define \"a\"}}{{end}}",
		"{{with .Issue}}{{.Body | not}}{{else with .Checks}}{{else}}{{end}}", "{{- /* x */ -}}",
		"{{if and (has .Checks \"a\") 1}}",
	} {
		f.Add(text)
	}
	task := CodeSample(true)
	f.Fuzz(func(t *testing.T, text string) {
		p, faults := ParseTemplate(text)
		if len(faults) > 0 {
			return
		}
		if _, err := p.execute(newTemplateData(task)); err != nil && !errors.Is(err, errFull) {
			t.Errorf("%q: %v", text, err)
		}
		task.Template = p
		if got := agent.Prompt(task, 4096); len(got) > 4096 {
			t.Errorf("%q: %d bytes", text, len(got))
		}
	})
}
