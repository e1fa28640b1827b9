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

// Stage is the configuration of one stage.
type Stage struct {
	Name             string   // START, CONTEXT_LOAD, CODE, VALIDATE or DONE
	Run              []string // argument vector, empty if Agent is set
	Agent            string   // a profile's name, empty if Run is set
	Model            string
	AlternativeModel string
	Resource         string   // model.<provider>, or empty for the agent's default
	Paid             string   // auto, always or never: whether its runs are paid calls; "" means auto
	Caller           string   // selects the policy's rows for failures; "" means the default for Name
	StatePaths       []string // globs of files that do not count as work, even if the attempt changes them
	Timeout          time.Duration
}

// Expand turns a stage, with or without an agent, into its plan.
func (t *Table) Expand(s Stage) (wire.StagePlan, error) {
	plan := wire.StagePlan{
		Name: s.Name, Run: slices.Clone(s.Run), TimeoutSeconds: s.Timeout.Seconds(), Resource: s.Resource,
		Model: s.Model, AlternativeModel: s.AlternativeModel, Paid: s.Paid,
	}
	switch {
	case s.Agent == "" && len(s.Run) == 0:
		return plan, fmt.Errorf("%w %s: set run or agent", errStage, s.Name)
	case s.Agent == "":
		plan.LogPaths = t.logPaths(nil, s.Run[0])
		return plan, nil
	case len(s.Run) > 0:
		return plan, fmt.Errorf("%w %s: set only one of run and agent", errStage, s.Name)
	}
	p, err := t.Lookup(s.Agent)
	if err != nil {
		return plan, fmt.Errorf("%w %s: %w", errStage, s.Name, err)
	}
	plan.Run = append([]string{p.Program}, p.Args...)
	row := p.PlanAgent // plans are never modified, so they can share the table's slices
	plan.Agent, plan.LogPaths = &row, t.logPaths(p, p.Program)
	return plan, nil
}

// retryAlternative is the action that asks for another model.
const retryAlternative = "retry_alternative"

// Model returns the model of a stage in this attempt, or the alternative model if the attempt requests it. If the
// result is "", the program chooses.
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

// Provider returns the provider of the model, or "" if unknown. The stage's resource takes precedence, then the agent's
// fixed provider, then the part of the model's name before the slash. This order ensures that a provider's rate limit
// closes the resource that the stage waits for.
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

// Resource returns the resource under which the stage's model calls are counted.
func Resource(s wire.StagePlan, model string) string {
	if s.Resource != "" {
		return s.Resource
	}
	if p := Provider(s, model); p != "" {
		return "model." + p
	}
	return budget.DefaultResource
}

// Command fills in the placeholders of an agent's stage. It returns the argument vector and default environment
// variables. Variables that are already set take precedence. files is the directory with the agent's files.
func Command(s wire.StagePlan, model, prompt, files string) (argv, env []string) {
	// A single pass, so that placeholders in substituted text are not expanded.
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

// agentTimeout returns the agent's timeout. It is shorter than the stage's timeout, so that the agent can report it
// before the worker stops the agent.
func agentTimeout(stage float64) int { return max(1, int(min(stage, 1e8)*0.95)) }

// ExitStatus returns the HTTP status that one of the agent's exit codes stands for, and the code's meaning, or 0 and ""
// for an unknown code.
func ExitStatus(a *wire.PlanAgent, code int) (status int, means string) {
	for _, x := range a.Exits {
		if x.Code == code {
			return x.Status, x.Means
		}
	}
	return 0, ""
}
