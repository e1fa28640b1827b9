package agent

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/budget"
	"retake/internal/bus/wire"
)

// errStage is wrapped by every error about a stage that cannot be expanded.
var errStage = errors.New("agent: stage")

// Stage is one stage as it is configured.
type Stage struct {
	Name             string   // START | CONTEXT_LOAD | CODE | VALIDATE | DONE
	Run              []string // argument vector; empty if there is an agent
	Agent            string   // a name of the table; empty if there is something to run
	Model            string
	AlternativeModel string
	Resource         string   // model.<provider>; empty: the agent's
	StatePaths       []string // globs of what is no work although the attempt changes it
	Timeout          time.Duration
}

// Expand makes the plan of a stage, with an agent or without.
func (t *Table) Expand(s Stage) (wire.StagePlan, error) {
	plan := wire.StagePlan{
		Name: s.Name, Run: slices.Clone(s.Run), TimeoutSeconds: s.Timeout.Seconds(), Resource: s.Resource,
		Model: s.Model, AlternativeModel: s.AlternativeModel,
	}
	switch {
	case s.Agent == "" && len(s.Run) == 0:
		return plan, fmt.Errorf("%w %s: neither run nor agent", errStage, s.Name)
	case s.Agent == "":
		plan.LogPaths = t.logPaths(nil, s.Run[0])
		return plan, nil
	case len(s.Run) > 0:
		return plan, fmt.Errorf("%w %s: run and agent exclude each other", errStage, s.Name)
	}
	p, err := t.Lookup(s.Agent)
	if err != nil {
		return plan, fmt.Errorf("%w %s: %w", errStage, s.Name, err)
	}
	plan.Run = append([]string{p.Program}, p.Args...)
	row := p.PlanAgent // its lists stay the table's: nobody writes to a plan
	plan.Agent, plan.LogPaths = &row, t.logPaths(p, p.Program)
	return plan, nil
}

// retryAlternative is the action that asks for another model.
const retryAlternative = "retry_alternative"

// Model is the model of a stage in this attempt: its own, or the alternative one if the attempt asks for it. Empty: the
// program chooses.
func Model(s wire.StagePlan, a *wire.AttemptFile) string {
	if a == nil {
		return s.Model
	}
	wanted := ""
	if a.Model != nil {
		wanted = *a.Model
	}
	if wanted == "" && a.Action != retryAlternative {
		return s.Model
	}
	for _, m := range []string{s.AlternativeModel, wanted, s.Model} {
		if m != "" {
			return m
		}
	}
	return ""
}

// Provider is who serves the model: the one that the stage's resource names, the one that the agent always
// uses, else the part of the model's name before the slash. Empty: not known. A limit that names it closes the
// resource that the stage waits for.
func Provider(s wire.StagePlan, model string) string {
	if p, ok := strings.CutPrefix(s.Resource, "model."); ok && s.Resource != budget.DefaultResource {
		return p
	}
	if s.Agent == nil {
		return ""
	}
	if s.Agent.Provider != "" {
		return s.Agent.Provider
	}
	if p, _, ok := strings.Cut(model, "/"); ok && budget.CheckResource("model."+p) == nil {
		return strings.ToLower(p)
	}
	return ""
}

// Resource is what a stage's calls of the model count under.
func Resource(s wire.StagePlan, model string) string {
	if s.Resource != "" {
		return s.Resource
	}
	if p := Provider(s, model); p != "" {
		return "model." + p
	}
	return budget.DefaultResource
}

// Command fills in the placeholders of an agent's stage: the argument vector, and the variables that are to be
// set unless they are set already, in their order. files is the folder of its files.
func Command(s wire.StagePlan, model, prompt, files string) (argv, env []string) {
	// One pass each: what is filled in is never looked through for placeholders.
	fill := strings.NewReplacer("{model}", model, "{files}", files, "{timeout}",
		strconv.Itoa(agentTimeout(s.TimeoutSeconds)))
	for _, arg := range s.Run {
		switch {
		case arg == "{prompt}":
			argv = append(argv, prompt)
		case arg == "{model}" && model == "":
		case arg == "{model}":
			for _, m := range s.Agent.ModelArgs {
				argv = append(argv, fill.Replace(m))
			}
		default:
			argv = append(argv, fill.Replace(arg))
		}
	}
	for _, e := range s.Agent.Env {
		if model == "" && strings.Contains(e, "{model}") {
			continue
		}
		env = append(env, fill.Replace(e))
	}
	return argv, env
}

// agentTimeout leaves an agent that has a limit of its own the time to report that before the stage's limit ends it.
func agentTimeout(stage float64) int { return max(1, int(min(stage, 1e8)*0.95)) }

// ExitStatus is the HTTP status that an exit code stands for, and what it means; 0 and empty: not known.
func ExitStatus(a *wire.PlanAgent, code int) (status int, means string) {
	for _, x := range a.Exits {
		if x.Code == code {
			return x.Status, x.Means
		}
	}
	return 0, ""
}
