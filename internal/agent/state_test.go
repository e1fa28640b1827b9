package agent

import (
	"slices"
	"strings"
	"testing"

	"retake/internal/bus/wire"
	"retake/internal/worktree"
)

// stateOf compiles the state globs for these stages.
func stateOf(t *testing.T, table *Table, stages ...Stage) worktree.Globs {
	t.Helper()
	globs, err := worktree.Compile(table.StatePaths(stages))
	if err != nil {
		t.Fatal(err)
	}
	return globs
}

// TestStateOfKnownAgents checks that an agent's private files do not count as work, regardless of the program that
// runs. Files that people write for an agent do count.
func TestStateOfKnownAgents(t *testing.T) {
	globs := stateOf(t, Builtin(), Stage{Name: wire.StageCode, Run: []string{"sh", "-c", "whatever"}})
	for name, want := range map[string]bool{
		".crush/crush.db": true, ".crush/logs/crush.log": true, ".crush.json": false, "crush.json": false,
		".opencode/opencode.db": true, ".opencode/opencode.db-wal": true, ".opencode/agents/review.md": false,
		".opencode/opencode.json":              false,
		".opencode/node_modules/x/agents/y.js": true,
		".aider.chat.history.md":               true, ".aider.tags.cache.v4/cache.db": true, ".aider.conf.yml": false,
		".claude/settings.local.json": true, ".claude/settings.json": false, ".claude/commands/release.md": false,
		".claude-plugin/plugin.json":   false,
		".codex/sessions/2026/x.jsonl": true, ".codex/config.toml": false, ".gemini/tmp/x/logs.json": true,
		".gemini/settings.json": false,
		".qwen/tmp/x":           true, ".qwen/settings.json": false, ".continue/sessions/x.json": true,
		".continue/rules/x.md": false, ".cline/data/x": true,
		".clinerules/x.md": false, ".pi/sessions/x.jsonl": true, ".pi/settings.json": false,
		".goose/memory/x.txt": true, ".goosehints": false,
		"AGENTS.md": false, "CLAUDE.md": false, ".github/workflows/ci.yml": false, ".gitignore": false,
		"parser.go": false, ".sh/x": false,
		"docs/.crush/x": false,
	} {
		if got := globs.Match(name); got != want {
			t.Errorf("%s: state is %v, want %v", name, got, want)
		}
	}
}

// TestStateUnderItsOwnName checks that for an unknown program, files under a dot and its name do not count as work.
// Globs of the stage take precedence.
func TestStateUnderItsOwnName(t *testing.T) {
	table, err := Parse(Builtin(),
		[]byte("[[agent]]\nname = \"mine\"\nprogram = \"./tools/coder.sh\"\nargs = [\"{prompt}\"]\nstate_paths = "+
			"[\"scratch/*.tmp\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for row, c := range map[string]struct {
		stage Stage
		want  map[string]bool
	}{
		"a profile": {Stage{Name: wire.StageCode, Agent: "mine"}, map[string]bool{
			".coder/x.db": true, ".coder-history": true, ".coder.log": true, ".mine/x": true, "scratch/a.tmp": true,
			"scratch/a.go":     false,
			".coderabbit.yaml": false, "sub/.coder/x": false, "coder/x": false,
		}},
		"a known one": {Stage{Name: wire.StageCode, Agent: "opencode"}, map[string]bool{
			".opencode/anything": true, ".opencode/agents/x.md": false, ".opencode/package.json": true,
		}},
		"a program": {
			Stage{Name: wire.StageCode, Run: []string{"/opt/novel", "-x"}},
			map[string]bool{".novel/session.db": true, ".novel_state": true, ".novelty": false},
		},
		"an interpreter": {
			Stage{Name: wire.StageCode, Run: []string{"node", "agent.js"}},
			map[string]bool{".node-version": false, ".node/x": false},
		},
		"a check": {Stage{Name: "VALIDATE", Run: []string{"lint"}}, map[string]bool{".lint.yml": false}},
		"its own globs": {Stage{
			Name: wire.StageCode, Run: []string{"novel"},
			StatePaths: []string{"!.novel/rules", "!.crush", "tmp"},
		}, map[string]bool{
			".novel/x.db": true, ".novel/rules/x.md": false, ".crush/crush.db": false, "tmp/x": true,
		}},
		"odd names": {
			Stage{Name: wire.StageCode, Run: []string{"./a*[b"}},
			map[string]bool{".a*[b/x": true, ".axxb/x": false},
		},
	} {
		globs := stateOf(t, table, c.stage)
		for name, want := range c.want {
			if got := globs.Match(name); got != want {
				t.Errorf("%s: %s: state is %v, want %v", row, name, got, want)
			}
		}
	}
	twice := Builtin().StatePaths([]Stage{
		{Name: wire.StageCode, Agent: "claude-code"},
		{Name: "VALIDATE", StatePaths: []string{".crush"}},
	})
	if n := len(slices.Compact(slices.Sorted(slices.Values(twice)))); n != len(twice) ||
		twice[len(twice)-1] != ".crush" {
		t.Errorf("%d globs, %d different ones, the last %q", len(twice), n, twice[len(twice)-1])
	}
}

// TestLogPaths checks the log paths of a profile, and of known programs without a profile.
func TestLogPaths(t *testing.T) {
	table, err := Parse(Builtin(), []byte(`
[[agent]]
name = "mine"
program = "/usr/bin/crush"
args = ["{prompt}"]
[[agent]]
name = "silent"
program = "crush"
args = ["{prompt}"]
log_paths = []
[[agent]]
name = "opencode"
log_paths = ["~/x/*.log"]
`))
	if err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Stage{
		".crush/logs/*.log":                  {Agent: "mine"},
		"":                                   {Agent: "silent"},
		"~/x/*.log":                          {Agent: "opencode"},
		"~/.codex/log/*.log":                 {Agent: "codex"},
		"~/.local/state/goose/logs/**/*.log": {Run: []string{"goose", "run"}},
	} {
		s.Name = wire.StageCode
		plan, err := table.Expand(s)
		if err != nil || strings.Join(plan.LogPaths, " ") != want {
			t.Errorf("%+v: %q, %v; want %q", s, plan.LogPaths, err, want)
		}
	}
}
