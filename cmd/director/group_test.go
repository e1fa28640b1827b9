package main

import (
	"strings"
	"testing"
)

func TestGroupsAreAlike(t *testing.T) {
	for _, g := range []string{"", " config", " budget", " policy", " agents", " completion"} {
		out, exit := shell(t, t.TempDir(), "director"+g+" 2>/dev/null")
		if exit != 0 || !strings.Contains(out, "director"+g+" [command]") ||
			strings.Contains(out, "director"+g+" [flags]") {
			t.Errorf("director%s alone: exit %d\n%s", g, exit, out)
		}
		out, exit = shell(t, t.TempDir(), "director"+g+" frob")
		if want := `unknown command "frob" for "director` + g + `": want one of `; exit != 2 ||
			!strings.HasPrefix(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("director%s frob: exit %d\n%s", g, exit, out)
		}
	}
	for command, near := range map[string]string{
		"director clasify": "classify", "director config chek": "check",
		"director budget rest ISSUE": "reset",
	} {
		if out, exit := shell(t, t.TempDir(), command); exit != 2 ||
			!strings.HasSuffix(out, ": did you mean "+near+"?\n") {
			t.Errorf("%s: exit %d\n%s", command, exit, out)
		}
	}
	if out, exit := shell(t, t.TempDir(), "director classify --help"); exit != 0 ||
		!strings.Contains(out, "director classify [FILE...] [flags]") {
		t.Errorf("an ordinary command: exit %d\n%s", exit, out)
	}
}

func TestExitCodesOfRecords(t *testing.T) {
	const stats = `mkdir -p d/state/acme_widgets_7 d/state/acme_gadgets_7 d/state/acme_widgets_8
echo '{"issue":"acme/widgets#7","state":"Running","run_id":"run_1","paid_calls_used":1,"paid_call_budget":10}' >d/state/acme_widgets_7/stats.json
echo '{"issue":"acme/gadgets#7","state":"Queued","run_id":"run_1","paid_calls_used":1,"paid_call_budget":10}' >d/state/acme_gadgets_7/stats.json
echo '{"issue":"acme/widgets#8","state":"Done","run_id":"run_2","paid_calls_used":10,"paid_call_budget":10}' >d/state/acme_widgets_8/stats.json
`
	for _, c := range []struct {
		command string
		exit    int
		says    string
	}{
		{`director report --dir .`, 2, "not a director's data directory: "},
		{`director report --dir none`, 2, "not a director's data directory: "},
		{`director budget show --dir .`, 2, "not a director's data directory: "},
		{`director report --dir d --run run_9`, 2, "no such run: run_9; the latest in "},
		{`director report --dir d --run run_1`, 0, "| Total Tasks | 2 |"},
		{`director budget show --dir d`, 0, "acme/widgets#8"}, // the command has ended
		{
			`director budget show --dir d acme/widgets#9 >/dev/null`, 1,
			"unknown task: acme/widgets#9; director budget show lists",
		},
		{`director budget show --dir d 7 >/dev/null`, 2, "more than one task has that number"},
		{`director budget reset --dir d`, 2, "want one issue, e.g. acme/widgets#21"},
		{`director agents try`, 2, "want the name of an agent listed in docs/specs/agents.md"},
		{
			`director budget reset --dir d acme/widgets#9`, 2,
			"d/state/acme_widgets_9/stats.json to 0: the next director reads it when it starts",
		},
		{
			`printf '[[stage]]\nname = "CODE"\nagent = "codex"\n' >c.toml; director config check -c c.toml`, 1,
			"warning: stage[0].agent: codex does not receive any of OPENAI_API_KEY, CODEX_API_KEY",
		},
	} {
		out, exit := shell(t, t.TempDir(), stats+c.command)
		if exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
	}
}
