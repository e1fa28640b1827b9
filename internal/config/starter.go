package config

import (
	"fmt"
	"slices"
	"strings"
)

// Starter holds the values for an initial configuration file. All other keys keep their defaults.
type Starter struct {
	Repositories []string
	BaseBranch   string
	Image        string
	Runtime      string   // "" for the default
	Agent        string   // name of a profile, or empty if Run is set
	Run          []string // a program with its arguments
	Pass         []string // variables that workers get
	Checks       [][]string
	Writes       bool
}

// Words splits a command line into the arguments of a stage. A line that needs a shell becomes an argument to sh -c.
func Words(line string) []string {
	if strings.ContainsAny(line, "|&;<>()$`\\\"'*?[]#~{}\n") {
		return []string{"sh", "-c", line}
	}
	return strings.Fields(line)
}

// String returns a short configuration file with comments. The file is valid if the values are valid.
func (s Starter) String() string {
	var b strings.Builder
	line := func(key string, value any, comment string) {
		text := key + " = " + row{to: value}.literal()
		if comment != "" {
			text = fmt.Sprintf("%-44s # %s", text, comment)
		}
		b.WriteString(text + "\n")
	}
	b.WriteString("# Retake. Keys that are not set here use their defaults: see docs/specs/configuration.md or " +
		"director config show --origin.\n# Secrets do not belong here: the token comes from the variable " +
		"GITHUB_TOKEN (github.token_env, github.token_file).\n\n[github]\n")
	line("repositories", &s.Repositories, "Retake works on issues with the label agent-task")
	line("base_branch", &s.BaseBranch, "base branch for the work and the pull requests")
	line("writes", &s.Writes, "false: the director reads issues, but does not claim any")
	b.WriteString("\n[containers]\n")
	if s.Runtime != "" {
		line("runtime", &s.Runtime, "docker, or process (without isolation, only for trusted work)")
	}
	line("image", &s.Image, "any image with the stages' programs")
	line("env_passthrough", &s.Pass, "names of variables to pass to workers, such as an agent's key")
	b.WriteString("\n[[stage]]\n")
	code := "CODE"
	line("name", &code, "the stage that changes files")
	if s.Agent != "" {
		line("agent", &s.Agent, "profiles: docs/specs/agents.md")
	} else {
		line("run", &s.Run, "reads the task from .retake/prompt.md")
	}
	for _, check := range s.Checks {
		validate := "VALIDATE"
		b.WriteString("\n[[stage]]\n")
		line("name", &validate, "Retake delivers the work if this succeeds; otherwise the agent fixes it")
		line("run", &check, "")
	}
	return b.String()
}

// KeysOfAgent returns an agent's first login variable that is set. If none is set, it returns the first login variable
// in the agent's profile, if any.
func (c Config) KeysOfAgent(name string, lookup func(string) (string, bool)) []string {
	profile, err := c.Agents.Lookup(name)
	if err != nil || len(profile.Keys) == 0 {
		return []string{}
	}
	for _, p := range []secretPlace{c.tokenPlace(), c.webhookSecretPlace()} { // never passed to workers
		profile.Keys = slices.DeleteFunc(slices.Clone(profile.Keys), func(key string) bool { return key == p.variable })
	}
	for _, key := range profile.Keys {
		if value, set := lookup(key); set && value != "" {
			return []string{key}
		}
	}
	return profile.Keys[:min(1, len(profile.Keys))]
}
