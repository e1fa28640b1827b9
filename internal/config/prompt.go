package config

import (
	"fmt"
	"slices"

	"retake/internal/agent"
	"retake/internal/agent/prompts"
	"retake/internal/bus/wire"
)

// PromptFile is the path of the prompt template in a repository. Retake reads it if projects.allow contains PromptKey.
const PromptFile = ".github/retake-prompt.md"

// PromptKey is the element of projects.allow that permits PromptFile.
const PromptKey = "prompt"

// AllowsPrompt reports whether repositories may have prompt templates.
func AllowsPrompt(c Config) bool { return slices.Contains(c.ProjectsAllow, PromptKey) }

// PromptBytes returns the size limit of the prompts for CODE. It is the smallest limit if there are several agents.
func PromptBytes(c Config) int {
	limit := 0
	for _, s := range c.Stages {
		if s.Name != wire.StageCode {
			continue
		}
		own := agent.DefaultPrompt
		if p, err := c.Agents.Lookup(s.Agent); s.Agent != "" && err == nil {
			own = p.PromptBytes
		}
		if limit == 0 || own < limit {
			limit = own
		}
	}
	if limit == 0 {
		return agent.DefaultPrompt
	}
	return limit
}

// CheckPrompt returns the problems of a prompt template. name is its path, for messages. c is the repository's
// configuration, with its contract.
func CheckPrompt(c Config, name string, data []byte) (problems Problems) {
	at := func(line, col int) Problem {
		return Problem{Where: fmt.Sprintf("%s:%d:%d", name, line, col), line: line, col: col}
	}
	p, faults := prompts.ParseTemplate(string(data))
	for _, f := range faults {
		problem := at(f.Line, f.Col)
		problem.Text = f.Text
		problems = append(problems, problem)
	}
	if len(faults) == 0 {
		if err := p.Fits(PromptBytes(c)); err != nil {
			problem := at(1, 1)
			problem.Text = err.Error()
			problems = append(problems, problem)
		}
	}
	return problems.sorted()
}
