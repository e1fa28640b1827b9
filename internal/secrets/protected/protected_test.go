package protected

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite README.md")

// intro has ~ in place of each backquote.
const intro = `# Protected paths

<!-- Made from the tables of this package: go test ./internal/secrets/protected -update -->

~@default~ in ~scope.deny~ and ~scope.ask~ stands for these globs. Case does not matter, and symbolic links to
a file, or in place of its directory, are protected too. To add or permit paths, write ~deny = ["@default", "infra/", "!netlify.toml"]~.
`

func readme() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(intro, "~", "`"))
	for _, class := range []struct {
		title, text string
		rows        []Row
	}{
		{"`scope.deny`", "These files run with secrets. Retake asks a person before it pushes them.", Deny},
		{
			"`scope.ask`", "These files act on people's machines, or steer agents, reviews and merges. Retake " +
				"delivers them as a draft\npull request that names them.", Ask,
		},
	} {
		b.WriteString("\n## " + class.title + "\n\n" + class.text + "\n\n| path | system | effect |\n|---|---|---|\n")
		for _, row := range class.rows {
			for _, glob := range row.Globs {
				fmt.Fprintf(&b, "| `%s` | [%s](%s) | %s |\n", glob, row.System, row.Doc, row.Runs)
			}
		}
	}
	return b.String()
}

func TestReadme(t *testing.T) {
	const file, want = "README.md", "go test ./internal/secrets/protected -update"
	if *update {
		if err := os.WriteFile(file, []byte(readme()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != readme() {
		t.Errorf("%s differs from the table (%v); run %s", file, err, want)
	}
}

// TestRows checks that each row is complete, that no glob occurs twice, and that one table protects a file.
func TestRows(t *testing.T) {
	deny, err := Compile([]string{Default}, Deny)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compile([]string{Default}, Ask); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range slices.Concat(Deny, Ask) {
		u, err := url.Parse(row.Doc)
		own := row.System == "Retake" && strings.HasPrefix(row.Doc, "../../../docs/")
		if err != nil || !own && (u.Scheme != "https" || u.Host == "") || row.System == "" || row.Runs == "" ||
			len(row.Globs) == 0 {
			t.Errorf("%+v is not complete", row)
		}
		for _, glob := range row.Globs {
			folded := strings.Map(foldRune, glob)
			if seen[folded] {
				t.Errorf("%s occurs twice", glob)
			}
			seen[folded] = true
		}
	}
	for _, glob := range all(Ask) {
		name := strings.NewReplacer("**/", "", "{.,}", ".", "*", "x").Replace(glob)
		if p := deny.By(name); p != nil {
			t.Errorf("%s is also denied by %s", glob, p.Glob)
		}
	}
}

// executed are files that other systems run with secrets; steering are files that act on people or agents.
var executed = strings.Fields(`
.github/workflows/x.yml .GitHub/Workflows/x.yml .github/workflows action.yml tools/lint/Action.YAML .gitlab-ci.yml
sub/.gitlab-ci.yml ci/x.gitlab-ci.yml Jenkinsfile sub/Jenkinsfile.release .circleci/config.yml .travis.yml
azure-pipelines.yaml sub/azure-pipelines-release.yml .azuredevops/x bamboo-specs/bamboo.yml .buildkite/hooks/command
.drone.jsonnet .drone.star .woodpecker.yaml .woodpecker/x.yaml .vela.yml .appveyor.yml .cirrus.star .semaphore/x.yml
.teamcity/settings.kts .tekton/x.yaml .zuul.yaml zuul.d/x.yaml screwdriver.yaml .build.yml .builds/x.yml .prow/x.yaml
.taskcluster.yml .packit.yaml codemagic.yaml bitrise.yml ci_scripts/ci_post_clone.sh buildspec.yml
app/buildspec-prod.yml
cloudbuild.yaml sub/cloudbuild.json netlify.toml site/netlify.toml vercel.json amplify.yml appspec.yml fly.toml
render.yaml railway.toml Procfile wrangler.toml .do/app.yaml .upsun/config.yaml .ebextensions/x.config atlantis.yaml .gitmodules
.github/retake.toml .GitHub/Retake-Prompt.md retake.toml
`)

var steering = strings.Fields(`
.claude/settings.json sub/.claude/commands/x.md CLAUDE.md claude.md sub/AGENTS.md AgentS.md .mcp.json GEMINI.md
.gemini/settings.json .cursor/rules/x.mdc .cursorrules .codex/config.toml .github/copilot-instructions.md
.github/instructions/x.instructions.md .windsurfrules .clinerules .clinerules/x.md opencode.json .opencode/plugin/x.ts
QWEN.md .vscode/tasks.json sub/.vscode/settings.json x.code-workspace .devcontainer/devcontainer.json .devcontainer.json
.envrc sub/.envrc .husky/pre-commit .pre-commit-config.yaml lefthook.yml .lefthook-local.yaml mise.toml .mise.local.toml
.idea/workspace.xml .run/x.run.xml .zed/tasks.json .nvim.lua .dir-locals.el .npmrc .yarnrc.yml .cargo/config.toml
.mvn/extensions.xml gradle/wrapper/gradle-wrapper.jar CODEOWNERS .github/CODEOWNERS renovate.json .github/renovate.json5
.github/dependabot.yml .mergify.yml .coderabbit.yaml .gitpod.yml NuGet.Config .openhands/setup.sh .kiro/steering/x.md
`)

var ordinary = strings.Fields(`
a.go Makefile package.json Dockerfile .gitignore .gitattributes README.md docs/agents/x.md src/hooks/useBuild.ts
.github/ISSUE_TEMPLATE/bug.md .github/pull_request_template.md src/action.ts workflows/x.yml .editorconfig src/vscode/x
docs/claude.txt internal/mise/cook.go sub/retake.toml docs/retake-prompt.md
`)

func TestTables(t *testing.T) {
	deny, err := Compile([]string{Default}, Deny)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := Compile([]string{Default}, Ask)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		names       []string
		deny, asked bool
	}{{executed, true, false}, {steering, false, true}, {ordinary, false, false}} {
		for _, name := range c.names {
			if d, a := deny.By(name), ask.By(name); (d != nil) != c.deny || (a != nil) != c.asked {
				t.Errorf("%s: denied by %+v, asked by %+v", name, d, a)
			}
		}
	}
}

// TestSpellings protects a path in every spelling that a file system accepts for it.
func TestSpellings(t *testing.T) {
	p, err := Compile([]string{Default, "infra/", "!infra/README.md"}, Deny)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		".GITHUB/WorkFlows/x.yml": ".github/workflows/", ".github./workflows /x.yml": ".github/workflows/",
		".git\u200bhub/workflows/x": ".github/workflows/", ".github/wor\u212aflows/x": ".github/workflows/",
		".travi\u017f.yml": ".travis.yml", ".travis.yml::$DATA": ".travis.yml", "Infra/main.tf": "infra/",
		"infra/README.md": "", "infra/readme.md": "", "infrastructure": "", ".": "", " . ": "",
	} {
		switch got := p.By(name); {
		case got == nil && want != "", got != nil && got.Glob != want:
			t.Errorf("%q: %+v, want %q", name, got, want)
		}
	}
	for dir, want := range map[string]bool{
		".github": true, ".GitHub": true, "docs": false, ".github/workflows/x": false, ".circleci": false,
		"sub/.eas": true, "a/b": false,
	} {
		if got := p.Below(dir); (got != nil) != want {
			t.Errorf("below %s: %+v, want %v", dir, got, want)
		}
	}
}

func TestHiddenIn(t *testing.T) {
	for name, want := range map[string]bool{
		"a.go": false, "übung/ñ 日本.md": false, "x/f\x1b[31mred": true, "a\nb": true, "a\u202egpj.exe": true,
		"a\u200bb": true, "a\u2028b": true, "a\u009bb": true, "a\u2066b": true, "a\ufeff": true,
	} {
		if got := HiddenIn(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
