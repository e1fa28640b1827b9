package pages

import (
	"testing"

	"retake/internal/secrets/redact"
)

func TestTextIsMadeSafe(t *testing.T) {
	r := Cleaner{}
	host := Cleaner{host: newHostPaths([]HostPath{{"/srv/retake/data", "<data_dir>"}, {"/data", "<shared_dir>"}})}
	for name, tc := range map[string]struct{ got, want string }{
		"mention": {
			r.prose("thanks @octocat and @acme/team", 100),
			"thanks @\u200boctocat and @\u200bacme/team",
		},
		"colours":              {r.line("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07", 100), "red link"},
		"progress bar":         {r.fence("10%\r50%\r100%\nok\r\n", 100), "```text\n100%\nok\n```"},
		"direction characters": {r.line("a\u202eb\u2066c", 100), "abc"},
		"unseen characters":    {r.Code("a\u200bb\u00adc\U000e0041d", 100), "`abcd`"},
		"control characters":   {r.line("a\x00b\x07c\x9bd", 100), "abc\uFFFDd"},
		"invalid utf-8":        {r.line("a\xffb", 100), "a\uFFFDb"},
		"lines":                {r.line("a\n\n b\tc", 100), "a b c"},
		"fence":                {r.fence("x\n```\ny", 100), "````text\nx\n```\ny\n````"},
		"longer fence":         {r.fence("x ````` y", 100), "``````text\nx ````` y\n``````"},
		"fence keeps the end":  {r.fence("0123456789", 4), "```text\n… (start cut)\n6789\n```"},
		"code":                 {r.Code("a `b` @c", 100), "``a `b` @c``"},
		"code at the edge":     {r.Code("`b`", 100), "`` `b` ``"},
		"empty code":           {r.Code(" \n", 100), ""},
		"code of a message":    {Cleaner{message: true}.Code("fixes #1 @c", 100), "`fixes #\u200b1 @\u200bc`"},
		"cell":                 {r.cell("a|b", 100), `a\|b`},
		"code in a cell":       {r.cellCode("a|b", 100), "`a\\|b`"},
		"clipped":              {r.line("ä öüß", 4), "ä ö…"},
		"file of a checkout": {
			host.Code("sh: /srv/retake/data/tasks/x/checkout/a/b.sh:1 in /srv/retake/data/tasks/x/checkout.", 200),
			"`sh: a/b.sh:1 in ..`",
		},
		"home": {host.Code("/srv/retake/data/processes/x-1/home/.npmrc", 100), "`~/.npmrc`"},
		"data directory": {
			host.Code("file:///srv/retake/data/bus /srv/retake/data", 100), "`file:<data_dir>/bus <data_dir>`",
		},
		"path in JSON":     {host.Code(`"\/srv\/retake\/data\/tasks\/x\/checkout\/a"`, 100), "`\"a\"`"},
		"path in entities": {host.line("&#47;srv/retake/data/tasks/x/checkout/a", 100), "a"},
		"another directory": {
			host.Code("/srv/retake/data2 https://x.org/data/a /data/a", 100),
			"`/srv/retake/data2 https://x.org/data/a <shared_dir>/a`",
		},
		"cut path": {host.Code("in /srv/retake/da…", 100), "`in …`"},
		"a secret in entities": {
			Cleaner{Redactor: redact.New("hunter2hunter2")}.line("hunter2&#104;unter2", 100),
			"\\[REDACTED\\]",
		},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %q, want %q", name, tc.got, tc.want)
		}
	}
}
