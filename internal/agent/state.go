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

// traces lists the files that an agent creates apart from its work.
type traces struct {
	StatePaths []string `toml:"state_paths"` // globs of the agent's private files in the work tree
	LogPaths   []string `toml:"log_paths"`   // globs of log files, relative to the work tree, or to HOME after "~/"
}

// knownProgram is an agent without a profile.
type knownProgram struct {
	Name string `toml:"name"`
	traces
}

// knownPrograms returns the built-in list.
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
		// a test would have caught an invalid built-in table
		panic(fmt.Sprint("agent: programs.toml: ", err))
	}
	return all
})

// StatePaths returns the globs of files that do not count as work, whichever stage or script creates them. They cover
// files named after the stage's agent, and files of known agents. The configured globs come last and take precedence.
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
	slices.Reverse(globs) // the last matching glob wins
	seen := map[string]bool{}
	globs = slices.DeleteFunc(globs, func(g string) bool {
		defer func() { seen[g] = true }()
		return seen[g]
	})
	slices.Reverse(globs)
	return globs
}

// launchers are programs that start other programs. A dot-file with such a name, like .node-version, belongs to the
// project.
var launchers = []string{
	"bash", "bun", "bunx", "cargo", "dash", "deno", "docker", "env", "git", "go", "java", "just", "make", "nice", "nix",
	"node", "npm", "npx", "perl",
	"php", "pipx", "pnpm", "podman", "poetry", "python", "python3", "ruby", "sh", "stdbuf", "sudo", "task", "timeout",
	"tini", "uv", "uvx", "yarn", "zsh",
}

// ownNames returns the names that a stage's agent may give to its files: the names of its program and profile, except
// launchers. Without a profile, only the program of CODE counts as an agent.
func (t *Table) ownNames(s Stage) (names []string) {
	switch p, err := t.Lookup(s.Agent); {
	case s.Agent != "" && err == nil:
		names = []string{programName(p.Program), p.Name}
	case s.Agent == "" && s.Name == wire.StageCode && len(s.Run) > 0:
		names = []string{programName(s.Run[0])}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" || slices.Contains(launchers, n) })
}

// programName returns a program's name without its directory or extension.
func programName(program string) string {
	base := path.Base(program)
	return strings.TrimLeft(strings.TrimSuffix(base, path.Ext(base)), "./")
}

// escapeGlob escapes a name so that, used as a glob, it matches only itself.
func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `}`, `\}`).Replace(name)
}

// logPaths returns the log files of a stage's agent, from its profile or else from the list of known programs.
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
