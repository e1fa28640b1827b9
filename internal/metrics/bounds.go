package metrics

import (
	"slices"
	"strings"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// other replaces values outside a label's closed list, so that outside input cannot create a series.
const other = "other"

// known returns value if the list allows it, or else other.
func known(values []string, value string) string {
	if slices.Contains(values, value) {
		return value
	}
	return other
}

// phases lists the values of the label phase.
var phases = []string{
	string(fsm.PhaseMonitor), string(fsm.PhaseCooldown), string(fsm.PhasePaused), string(fsm.PhaseDraining),
	string(fsm.PhaseShutdown),
}

var commands = []string{
	string(fsm.CommandRetry), string(fsm.CommandResume), string(fsm.CommandFresh), string(fsm.CommandFix),
	string(fsm.CommandSnooze),
	string(fsm.CommandBudget), string(fsm.CommandStop), string(fsm.CommandTake), string(fsm.CommandWhy),
	string(fsm.CommandHelp), string(fsm.CommandAdd),
}

// budgets lists the names of GitHub's request budgets.
var budgets = []string{
	"core", "graphql", "search", "code_search", "integration_manifest", "dependency_snapshots",
	"code_scanning_upload", "actions_runner_registration", "scim", "audit_log",
}

// methods lists the HTTP methods of requests to GitHub.
var methods = []string{"GET", "POST", "PATCH", "PUT", "DELETE"}

var breakerStates = []string{
	string(recovery.BreakerClosed), string(recovery.BreakerOpen), string(recovery.BreakerHalfOpen),
	string(recovery.BreakerRamp), string(recovery.BreakerTold), string(recovery.BreakerHeld),
}

func reasonNames() (all []string) {
	for _, a := range recovery.Reasons {
		all = append(all, string(a.Reason))
	}
	return all
}

func actionNames() (all []string) {
	for _, a := range recovery.Actions {
		all = append(all, string(a.Action))
	}
	return all
}

func reasonLabel(r recovery.Reason) string {
	a, ok := recovery.Describe(r)
	if !ok {
		return other
	}
	return string(a.Reason)
}

func actionLabel(a recovery.Action) string {
	if a.About().Action == "" {
		return other
	}
	return string(a)
}

// closable lists the values of the label resource for cooldowns. All models share one value, because configurations and
// workers choose the names of models.
var closable = []string{
	fsm.GitHubRead, fsm.GitHubWrite, fsm.GitHubAPI, "github.graphql", "github.other", "model",
	recovery.Host, other,
}

func resourceLabel(resource string) string {
	switch {
	case slices.Contains(closable, resource):
		return resource
	case strings.HasPrefix(resource, recovery.ModelPrefix):
		return "model"
	case strings.HasPrefix(resource, "github."):
		return "github.other"
	}
	return other
}

// values lists the values of those labels that have the same meaning in all metrics.
var values = []struct {
	label string
	of    []string
	say   string // description to use instead of a list
}{
	{label: "state", say: "for `retake_tasks`: the [states](orchestration-fsm.md); for `retake_incidents`: `" +
		strings.Join(breakerStates, "`, `") + "`"},
	{label: "from, to", say: "the [states](orchestration-fsm.md)"},
	{label: "trigger, end", say: "the [triggers](orchestration-fsm.md); `end`: triggers that lead to a final state"},
	{label: "phase", of: phases},
	{label: "reason", say: "the [reasons](error-handling.md), or `other`"},
	{label: "action", of: actionNames()},
	{label: "command", of: append(slices.Clone(commands), other)},
	{label: "resource", say: "for cooldowns: `" + strings.Join(closable, "`, `") +
		"`, where `model` covers all models; for GitHub's budgets: `" + strings.Join(budgets, "`, `") + "`, `other`"},
	{label: "method", of: append(slices.Clone(methods), other)},
	{label: "cause", say: "the [causes of dead letters](agent-bus.md)"},
	{label: "version, goversion", say: "a single value"},
	{
		label: "kind, result, outcome, answer, how, limit",
		say:   "see each metric; for effects, `kind` is the [effect](orchestration-fsm.md)",
	},
}
