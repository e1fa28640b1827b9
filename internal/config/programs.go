package config

import (
	"path"
	"slices"
	"strings"
)

// StageProgram is a program that a stage starts.
type StageProgram struct{ Stage, Name string }

// StagePrograms returns the programs that must exist before an attempt begins. It returns each program once, with the
// first stage that starts it, and omits programs that are files in the checkout.
func (c Config) StagePrograms() (all []StageProgram) {
	stages := slices.Clone(c.Stages)
	for _, r := range c.Routes {
		stages = append(stages, r.Routed(c.Stages)...)
	}
	for _, s := range stages {
		p, err := c.Agents.Expand(s)
		if err != nil || len(p.Run) == 0 || c.inCheckout(p.Run[0]) {
			continue
		}
		if !slices.ContainsFunc(all, func(known StageProgram) bool { return known.Name == p.Run[0] }) {
			all = append(all, StageProgram{s.Name, p.Run[0]})
		}
	}
	return all
}

// inCheckout reports whether a program is a file in the checkout.
func (c Config) inCheckout(program string) bool {
	if !path.IsAbs(program) {
		return strings.Contains(program, "/")
	}
	return c.Containers.Runtime != "process" &&
		strings.HasPrefix(path.Clean(program), strings.TrimSuffix(path.Clean(c.Containers.Workdir), "/")+"/")
}
