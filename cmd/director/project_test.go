package main

import (
	"strings"
	"testing"
)

func TestProjectCommands(t *testing.T) {
	const setup = `mkdir -p .github co
echo 'go 1.26' >co/go.mod
printf '[github]\nrepositories = ["acme/widgets"]\n[projects]\nallow = ["stage"]\n' >d.toml
printf '[[stage]]\nname = "CODE"\nagent = "codex"\n' >>d.toml
printf '[[project]]\nrepository = "acme/widgets"\ncontainers.cpus = 3.0\n' >>d.toml
printf '[[stage]]\nname = "CODE"\nagent = "codex"\n' >good.toml
printf 'containers.image = "a:1"\n' >image.toml
printf 'containers.cpus = "x"\nscope.nope = 1\n' >bad.toml
`
	for _, c := range []struct {
		command string
		exit    int
		says    string
	}{
		{`director project check good.toml`, 0, "good.toml: ok\nstages: CODE (codex)\n"},
		{`director project check good.toml --json`, 0, `{"ok":true,"file":"good.toml","problems":[],`},
		{`director project check bad.toml`, 2, "bad.toml:1:12: containers.cpus: got \"x\", want a number"},
		{`director project check bad.toml`, 2, "\nbad.toml:2:7: scope.nope: a contract has no such key"},
		{`director project check bad.toml --json 2>/dev/null`, 2, `"problems":[{"line":1,"col":12,"key":"containers.`},
		{`director project check`, 2, "no contract found in .: "},
		{`director project check d.toml`, 2, "is a director's configuration, because it has github.repositories"},
		{`director project check image.toml`, 0, "image: a:1"},
		{`director project check image.toml -c d.toml`, 2, "the operator does not allow this key"},
		{`director project check image.toml --allow stage`, 2, "the operator does not allow this key"},
		{`director project check image.toml --allow stag`, 2, "did you mean stage?"},
		{`director project check good.toml --repository a/b`, 2, "it requires -c"},
		{`director project check -c d.toml --repository acme/widgets good.toml`, 0, "ok"},
		{`director project show acme/widgets -c d.toml | grep cpus`, 0, "[[project]] d.toml:10"},
		{`director project show acme/widgets -c d.toml --contract good.toml | grep 0..ag`, 0, "contract good.toml:3"},
		{`director project show acme/other -c d.toml 2>&1 >/dev/null`, 0, "does not contain acme/other"},
		{`director project show widgets -c d.toml`, 2, "want owner/name"},
		{`director project init co --no-run && director project check co && ls co/.github`, 0, "retake.schema.json"},
		{`mkdir co/.github && >co/.github/retake.toml; director project init co`, 1, "already exists: use --force"},
		{`director project init co --dry-run --run "sh -c x" --no-run`, 0, `run = ["sh", "-c", "x"]`},
		{
			`printf -- '---\ncodex: {image: "a:1"}\n---\n' >W.md && director project init co --from W.md --no-run`, 0,
			`allow = ["containers.image", "stage"]`,
		},
		{`director project init co --agent claud`, 2, "unknown profile, want one of claude-code"},
		{`printf 'test:\n\tfalse\n' >co/Makefile; director project init co --dry-run`, 0, `# run = ["make", "test"]`},
	} {
		if out, exit := shell(t, t.TempDir(), setup+c.command); exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
	}
}
