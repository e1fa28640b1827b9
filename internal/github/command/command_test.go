package command

import (
	"strings"
	"testing"
	"time"
)

// readCases maps comments to the expected answer. Our login is "retake[bot]".
var readCases = map[string]Answer{
	"/agent retry":                  {Command: Retry},
	"/agent retry use format B":     {Command: Retry, Rest: "use format B"},
	"/agent retry: use format B":    {Command: Retry, Rest: "use format B"},
	"/agent retry!":                 {Command: Retry},
	"/agent resume":                 {Command: Resume},
	"/agent fresh, with format B":   {Command: Fresh, Rest: "with format B"},
	"/agent STOP it":                {Command: Stop, Rest: "it"},
	"/agent take":                   {Command: Take},
	"/agent why":                    {Command: Why},
	"/agent why?":                   {Command: Why},
	"/agent help me":                {Command: Help, Rest: "me"},
	"/agent fix the header":         {Command: Fix, Rest: "the header"},
	"/agent fix\n\nthe header":      {Command: Fix, Rest: "the header"},
	"/agent snooze 2h":              {Command: Snooze, For: 2 * time.Hour},
	"/agent snooze 30m\nBob is out": {Command: Snooze, For: 30 * time.Minute, Rest: "Bob is out"},
	"/agent snooze 1D until then":   {Command: Snooze, For: 24 * time.Hour, Rest: "until then"},
	"/agent snooze for 2 hours":     {Command: Snooze, For: 2 * time.Hour},
	"/agent snooze 1 week":          {Command: Snooze, For: 7 * 24 * time.Hour},
	"/agent snooze 1m":              {Command: Snooze, For: time.Minute},
	"/agent snooze 30d":             {Command: Snooze, For: 30 * 24 * time.Hour},
	"/agent budget +2":              {Command: Budget, Amount: 2},
	"/agent budget 20 please":       {Command: Budget, Amount: 20, Rest: "please"},

	"\r\n\n  /AGENT  Retry\tuse B\r\n\r\nand C\r\n":    {Command: Retry, Rest: "use B\n\nand C"},
	"/agent retry\n\n```\n/agent resume\n```":          {Command: Retry, Rest: "```\n/agent resume\n```"},
	"> which one?\n\n/agent retry B":                   {Command: Retry, Rest: "B"},
	"```\nlog\n```\n/agent retry":                      {Command: Retry},
	"````\n```\n/agent retry\n````\n/agent resume":     {Command: Resume},
	"~~~ text\n```\n/agent retry\n~~~ \n/agent resume": {Command: Resume},
	"/agent retry \x1b[31mred\x00":                     {Command: Retry, Rest: "red"},

	"@retake retry use B":          {Command: Retry, Rest: "use B"},
	"@Retake[bot] retry use B":     {Command: Retry, Rest: "use B"},
	"@RETAKE, /Agent retry use B":  {Command: Retry, Rest: "use B"},
	"@retake: why":                 {Command: Why},
	"@retake stop":                 {Command: Stop},
	"@retake retyr use B":          {Command: Unknown, Word: "retyr", Meant: Retry},
	"@retake /agent look at this":  {Command: Unknown, Word: "look"},
	"@retake /agent take it":       {Command: Take, Rest: "it"},
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

	"/agent":                        {Command: Unknown},
	"/agent retyr use format B":     {Command: Unknown, Word: "retyr", Meant: Retry},
	"/agent try":                    {Command: Unknown, Word: "try", Meant: Retry},
	"/agent Resmue\nthe key is set": {Command: Unknown, Word: "Resmue", Meant: Resume},
	"/agent xyzzy":                  {Command: Unknown, Word: "xyzzy"},
	"/agent re\u200btry":            {Command: Unknown, Word: "re\u200btry"},

	"/agentretry":         {},
	"/agents retry":       {},
	"agent retry":         {},
	"Please\n/agent stop": {},
	"":                    {},

	"> /agent retry":                              {},
	"> which one?\n/agent retry B":                {}, // GitHub shows the second line in the quotation
	"> quoted\r/agent stop":                       {}, // GitHub shows the same as for \n
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
	"harmless\r/agent stop":                       {}, // a terminal shows only the second half
	strings.Repeat("> ", 400_000) + "/agent stop": {},
	"/agent " + strings.Repeat("x", 1_000_000): {
		Command: Unknown,
		Word:    strings.Repeat("x", WordLimit-1) + "…",
	},
}

func TestReadCommand(t *testing.T) {
	for body, want := range readCases {
		got := Read(body, "retake[bot]")
		want.Text = got.Text
		if got != want {
			t.Errorf("%.80q = %+v, want %+v", body, got, want)
		}
	}
}

// TestArgumentsThatAreNone checks that a command with a wrong argument has a Problem with an example.
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
		got := Read(body, "retake")
		if got.Command == None || got.Command == Unknown || !strings.Contains(got.Problem, "`"+example) ||
			got.Rest != "" || got.For != 0 || got.Amount != 0 {
			t.Errorf("%q = %+v, want a problem with an example", body, got)
		}
	}
}

// TestExamplesInTheTableAreCommands checks that the examples in Usage are valid commands.
func TestExamplesInTheTableAreCommands(t *testing.T) {
	for _, c := range All {
		got := Read(strings.ToUpper(c.Usage), "retake")
		if got.Command != c.Name || got.Problem != "" {
			t.Errorf("%q = %+v", c.Usage, got)
		}
		if c.Meaning == "" || c.Where == "" {
			t.Errorf("%q lacks words", c.Usage)
		}
	}
}
