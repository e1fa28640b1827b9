package github

import (
	"strings"
	"testing"
	"time"
)

func TestReadCommand(t *testing.T) {
	for body, want := range map[string]Answer{
		"/agent retry":                  {Command: CommandRetry},
		"/agent retry use format B":     {Command: CommandRetry, Rest: "use format B"},
		"/agent retry: use format B":    {Command: CommandRetry, Rest: "use format B"},
		"/agent retry!":                 {Command: CommandRetry},
		"/agent resume":                 {Command: CommandResume},
		"/agent fresh, with format B":   {Command: CommandFresh, Rest: "with format B"},
		"/agent STOP it":                {Command: CommandStop, Rest: "it"},
		"/agent take":                   {Command: CommandTake},
		"/agent why":                    {Command: CommandWhy},
		"/agent why?":                   {Command: CommandWhy},
		"/agent help me":                {Command: CommandHelp, Rest: "me"},
		"/agent fix the header":         {Command: CommandFix, Rest: "the header"},
		"/agent fix\n\nthe header":      {Command: CommandFix, Rest: "the header"},
		"/agent snooze 2h":              {Command: CommandSnooze, For: 2 * time.Hour},
		"/agent snooze 30m\nBob is out": {Command: CommandSnooze, For: 30 * time.Minute, Rest: "Bob is out"},
		"/agent snooze 1D until then":   {Command: CommandSnooze, For: 24 * time.Hour, Rest: "until then"},
		"/agent snooze for 2 hours":     {Command: CommandSnooze, For: 2 * time.Hour},
		"/agent snooze 1 week":          {Command: CommandSnooze, For: 7 * 24 * time.Hour},
		"/agent snooze 1m":              {Command: CommandSnooze, For: time.Minute},
		"/agent snooze 30d":             {Command: CommandSnooze, For: 30 * 24 * time.Hour},
		"/agent budget +2":              {Command: CommandBudget, Amount: 2},
		"/agent budget 20 please":       {Command: CommandBudget, Amount: 20, Rest: "please"},

		"\r\n\n  /AGENT  Retry\tuse B\r\n\r\nand C\r\n":    {Command: CommandRetry, Rest: "use B\n\nand C"},
		"/agent retry\n\n```\n/agent resume\n```":          {Command: CommandRetry, Rest: "```\n/agent resume\n```"},
		"> which one?\n\n/agent retry B":                   {Command: CommandRetry, Rest: "B"},
		"```\nlog\n```\n/agent retry":                      {Command: CommandRetry},
		"````\n```\n/agent retry\n````\n/agent resume":     {Command: CommandResume},
		"~~~ text\n```\n/agent retry\n~~~ \n/agent resume": {Command: CommandResume},
		"/agent retry \x1b[31mred\x00":                     {Command: CommandRetry, Rest: "red"},

		"@retake retry use B":          {Command: CommandRetry, Rest: "use B"},
		"@Retake[bot] retry use B":     {Command: CommandRetry, Rest: "use B"},
		"@RETAKE, /Agent retry use B":  {Command: CommandRetry, Rest: "use B"},
		"@retake: why":                 {Command: CommandWhy},
		"@retake stop":                 {Command: CommandStop},
		"@retake retyr use B":          {Command: CommandUnknown, Word: "retyr", Meant: CommandRetry},
		"@retake /agent look at this":  {Command: CommandUnknown, Word: "look"},
		"@retake /agent take it":       {Command: CommandTake, Rest: "it"},
		"@retake take a look at this":  {},
		"@retake stop adding comments": {},
		"@retake fresh ideas?":         {},
		"@retake make it blue":         {},
		"@retake thanks":               {},
		"@retake":                      {},
		"@retaker retry":               {},
		"@octocat retry":               {},
		"retake retry":                 {},
		"Please\n@retake retry":        {},

		"/agent":                        {Command: CommandUnknown},
		"/agent retyr use format B":     {Command: CommandUnknown, Word: "retyr", Meant: CommandRetry},
		"/agent try":                    {Command: CommandUnknown, Word: "try", Meant: CommandRetry},
		"/agent Resmue\nthe key is set": {Command: CommandUnknown, Word: "Resmue", Meant: CommandResume},
		"/agent xyzzy":                  {Command: CommandUnknown, Word: "xyzzy"},
		"/agent re\u200btry":            {Command: CommandUnknown, Word: "re\u200btry"},

		"/agentretry":         {},
		"/agents retry":       {},
		"agent retry":         {},
		"Please\n/agent stop": {},
		"":                    {},

		"> /agent retry":                              {},
		"> which one?\n/agent retry B":                {}, // shown inside the quotation
		"> quoted\r/agent stop":                       {}, // the same, for GitHub
		"> > /agent retry\n\nnot that":                {},
		"```\n/agent retry\n```":                      {},
		"```\n/agent retry":                           {},
		"    /agent retry":                            {},
		"\t/agent retry":                              {},
		"`/agent retry`":                              {},
		"<!--\n/agent retry\n-->":                     {},
		"<!-- -->/agent retry":                        {},
		"<!-- retake:claim v1 {} -->\n/agent retry":   {},
		"<details>\n/agent stop\n</details>":          {},
		"/agent\u00a0retry":                           {},
		"/ag\u200bent retry":                          {},
		"\u200b/agent retry":                          {},
		"/\u0430gent retry":                           {}, // Cyrillic
		"harmless\r/agent stop":                       {}, // a terminal would show the second half only
		strings.Repeat("> ", 400_000) + "/agent stop": {},
		"/agent " + strings.Repeat("x", 1_000_000): {
			Command: CommandUnknown,
			Word:    strings.Repeat("x", wordLimit-1) + "…",
		},
	} {
		got := toAnswer(comment{body: body}, "retake[bot]")
		want.Text = got.Text
		if got != want {
			t.Errorf("%.80q = %+v, want %+v", body, got, want)
		}
	}
}

// TestArgumentsThatAreNone: the command is known, and not carried out.
func TestArgumentsThatAreNone(t *testing.T) {
	for body, example := range map[string]string{
		"/agent snooze":                          "/agent snooze 2h",
		"/agent snooze later":                    "/agent snooze 2h",
		"/agent snooze 0h":                       "/agent snooze 2h",
		"/agent snooze 30s":                      "/agent snooze 2h",
		"/agent snooze 31d":                      "/agent snooze 2h",
		"/agent snooze 2 months":                 "/agent snooze 2h",
		"/agent snooze -2h":                      "/agent snooze 2h",
		"/agent snooze 1h30m":                    "/agent snooze 2h",
		"/agent snooze 99999999999999999999999h": "/agent snooze 2h",
		"/agent snooze\n\n3 days ago it worked":  "/agent snooze 2h",
		"/agent budget":                          "/agent budget +2",
		"/agent budget +0":                       "/agent budget +2",
		"/agent budget 21":                       "/agent budget +2",
		"/agent budget -2":                       "/agent budget +2",
		"/agent budget 2.5":                      "/agent budget +2",
		"/agent budget more":                     "/agent budget +2",
		"/agent fix":                             "/agent fix the header",
		"/agent fix \n \n":                       "/agent fix the header",
	} {
		got := toAnswer(comment{body: body}, "retake")
		if got.Command == CommandNone || got.Command == CommandUnknown || !strings.Contains(got.Problem, "`"+example) ||
			got.Rest != "" || got.For != 0 || got.Amount != 0 {
			t.Errorf("%q = %+v, want a problem with an example", body, got)
		}
	}
}

// TestExamplesInTheTableAreCommands: what people copy works.
func TestExamplesInTheTableAreCommands(t *testing.T) {
	for _, c := range commands {
		got := toAnswer(comment{body: strings.ToUpper(c.Usage)}, "retake")
		if got.Command != c.Command || got.Problem != "" {
			t.Errorf("%q = %+v", c.Usage, got)
		}
		if c.Meaning == "" || c.Where == "" {
			t.Errorf("%q lacks words", c.Usage)
		}
	}
}
