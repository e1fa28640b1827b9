package agent

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"retake/internal/bus/wire"
	"retake/internal/tomlfile"
)

//go:embed programs.toml
var embeddedPrograms []byte

// traces is what an agent leaves besides its work.
type traces struct {
	StatePaths []string `toml:"state_paths"` // globs of what it writes for itself in the work tree
	LogPaths   []string `toml:"log_paths"`   // globs of its log files; "~/" is its HOME, else relative to the work tree
}

// knownProgram is an agent that has no row.
type knownProgram struct {
	Name string `toml:"name"`
	traces
}

// knownPrograms are those of this program.
var knownPrograms = sync.OnceValue(func() []knownProgram {
	file := tomlfile.Parse(embeddedPrograms)
	var all []knownProgram
	for i, e := range file.Tables("program") {
		var p knownProgram
		at := tomlfile.Element("program", i)
		if file.Decode(at, e, &p) {
			p.check(file, at)
			all = append(all, p)
		}
	}
	if err := file.Err(); err != nil {
		panic(fmt.Sprint("agent: programs.toml: ", err)) // a mistake in the table, which a test finds
	}
	return all
})

// StatePaths are the globs of what does not count as work, whichever stage or script makes it: what a stage's
// agent writes under its own name, what known agents write, and what the configuration says, which decides.
func (t *Table) StatePaths(stages []Stage) (globs []string) {
	for _, s := range stages {
		for _, name := range t.ownNames(s) {
			dot := "." + escapeGlob(name)
			globs = append(globs, dot, dot+"[._-]*")
		}
	}
	for _, p := range knownPrograms() {
		globs = append(globs, p.StatePaths...)
	}
	for _, r := range t.rows {
		globs = append(globs, r.StatePaths...)
	}
	for _, s := range stages {
		globs = append(globs, s.StatePaths...)
	}
	slices.Reverse(globs) // of two that are alike the last one decides
	seen := map[string]bool{}
	globs = slices.DeleteFunc(globs, func(g string) bool {
		defer func() { seen[g] = true }()
		return seen[g]
	})
	slices.Reverse(globs)
	return globs
}

// launchers start programs of other names; the dot-files that have theirs are the project's, as .node-version.
var launchers = []string{
	"bash", "bun", "bunx", "cargo", "dash", "deno", "docker", "env", "git", "go", "java", "just", "make", "nice", "nix",
	"node", "npm", "npx", "perl",
	"php", "pipx", "pnpm", "podman", "poetry", "python", "python3", "ruby", "sh", "stdbuf", "sudo", "task", "timeout",
	"tini", "uv", "uvx", "yarn", "zsh",
}

// ownNames are the names under which a stage's agent may keep files: of its program and of its profile. Other
// stages than CODE have no agent.
func (t *Table) ownNames(s Stage) (names []string) {
	switch p, err := t.Lookup(s.Agent); {
	case s.Agent != "" && err == nil:
		names = []string{programName(p.Program), p.Name}
	case s.Agent == "" && s.Name == wire.StageCode && len(s.Run) > 0:
		names = []string{programName(s.Run[0])}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" || slices.Contains(launchers, n) })
}

// programName is the name of a program without folder and extension.
func programName(program string) string {
	base := path.Base(program)
	return strings.TrimLeft(strings.TrimSuffix(base, path.Ext(base)), "./")
}

// escapeGlob makes a name match itself only.
func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `}`, `\}`).Replace(name)
}

// logPaths are where a stage's agent logs: as its profile says, else as is known of its program.
func (t *Table) logPaths(p *Profile, program string) []string {
	if p != nil && p.LogPaths != nil {
		return p.LogPaths
	}
	for _, r := range t.rows {
		if programName(r.Program) == programName(program) && r.LogPaths != nil {
			return r.LogPaths
		}
	}
	for _, k := range knownPrograms() {
		if k.Name == programName(program) {
			return k.LogPaths
		}
	}
	return nil
}
