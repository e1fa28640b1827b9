package main

import (
	"strings"
	"testing"
)

// TestCheckAndRunNameAllThatIsMissing checks that `config check` finds the problems that would stop `run`, and that
// `run` reports them at once.
func TestCheckAndRunNameAllThatIsMissing(t *testing.T) {
	const files = `touch file; umask 077; printf 'tok\n' >token; : >empty.toml
printf '[github]\nrepositories = ["acme/widgets"]\ntoken_file = "%s"\n[containers]\nenv_passthrough = ["%s"]\n[director]\ndata_dir = "%s"\n[[stage]]\nname = "CODE"\nrun = ["true"]\n' \
  no-token NOT_SET file/data >bad.toml
sed 's/no-token/token/; s/NOT_SET/PATH/; s/file.data/new/' bad.toml >good.toml
`
	for file, want := range map[string][]string{
		"empty.toml": {"github.repositories: ", "stage: ", "github.token_env: no GitHub token: environment variable " +
			"GITHUB_TOKEN is empty or not set"},
		"bad.toml": {
			"github.token_file: names no-token: no such file", "containers.env_passthrough: NOT_SET is not set",
			"director.data_dir: ",
		},
		"good.toml": nil,
	} {
		for command, wantExit := range map[string]int{
			"director config check": 1, "director doctor --offline": 1,
			"director run": 2,
		} {
			if command != "director config check" && want == nil {
				continue
			}
			out, exit := shell(t, t.TempDir(), files+command+" -c "+file)
			for _, w := range want {
				if exit != wantExit || !strings.Contains(out, w) {
					t.Errorf("%s %s: exit %d, want %q in\n%s", command, file, exit, w, out)
				}
			}
			if want == nil && (out != file+": ok\n" || exit != 0) {
				t.Errorf("%s: %s", file, out)
			}
		}
	}
}
