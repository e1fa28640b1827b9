package project

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"retake/internal/config"
)

// agents maps the names of agents, and of their sections, to profiles. Agents without a profile map to "".
var agents = map[string]string{
	"claude-code": "claude-code", "claude": "claude-code", "codex": "codex", "copilot": "copilot",
	"copilot-cli": "copilot", "opencode": "opencode", "gemini": "gemini", "pi": "pi", "kiro": "", "http": "",
}

// foreign lists sections without keys that a contract could have, with the reason.
var foreign = map[string]string{
	"tracker":     "the director's configuration selects repositories and labels ([github])",
	"polling":     "the director's configuration sets how often it polls (github.poll_seconds)",
	"workspace":   "Retake makes and removes the checkouts",
	"server":      "the director's configuration sets the address (director.http_listen)",
	"budget":      "the operator sets budgets in [[project]] (recovery.cost_budget_usd)",
	"recovery":    "the operator's policy decides on retries ([recovery])",
	"reactions":   "the director's configuration sets the reaction to reviews (github.review)",
	"ci_feedback": "the director's configuration sets the reaction to reviews (github.review)",
	"deliverable": "the director's configuration sets how work is delivered (github.delivery)",
	"worker":      "the director's configuration sets where workers run ([containers])",
}

const (
	byOperator = "the operator sets it: "
	ownWay     = "Retake has its own mechanism"
)

// handlers maps keys to functions that convert them, or return why they cannot.
var handlers = map[string]func(*conversion, leaf) string{
	"schema":                        func(*conversion, leaf) string { return "" },
	"agent.kind":                    (*conversion).kind,
	"agent.command":                 (*conversion).command,
	"agent.turn_timeout_ms":         (*conversion).codeLimit,
	"agent.max_session_duration_ms": (*conversion).codeLimit,
	"agent.max_turn_duration_ms":    (*conversion).codeLimit,
	"agent.max_concurrent_agents":   says(byOperator + "director.max_workers"),
	"agent.max_retry_backoff_ms":    says(byOperator + "retry.backoff_max_seconds"),
	"agent.max_sessions":            says(byOperator + "recovery.iteration_budget, in [[project]]"),
	"agent.max_turns":               says("an attempt is one run of the agent"),
	"agent.stall_timeout_ms":        says(ownWay + ": workers send heartbeats"),
	"gate.kind":                     (*conversion).gateKind,
	"gate.run":                      (*conversion).gate,
	"hooks.timeout_ms":              func(*conversion, leaf) string { return "" }, // used for the stages of the hooks
	"hooks.after_create":            (*conversion).prepare,
	"hooks.before_run":              (*conversion).prepare,
	"hooks.after_run":               (*conversion).validate,
	"hooks.before_remove":           says("Retake removes checkouts and branches itself"),
	"hooks.runner_setup":            says("it belongs into the worker image"),

	"self_review.enabled":                 func(*conversion, leaf) string { return "" },
	"self_review.verification_commands":   (*conversion).verification,
	"self_review.verification_timeout_ms": func(*conversion, leaf) string { return "" }, // used for these commands
	"self_review.max_iterations":          (*conversion).rounds,
}

// ofAgent is like handlers, for the keys of an agent's section.
var ofAgent = map[string]func(*conversion, leaf) string{
	"command":         (*conversion).command,
	"model":           (*conversion).model,
	"turn_timeout_ms": (*conversion).codeLimit,
	"max_budget_usd":  says(byOperator + "recovery.cost_budget_usd, in [[project]]"),
	"permission_mode": says("agents may use all tools, because the container confines them"),
	"approval_policy": says("agents may use all tools, because the container confines them"),
	"thread_sandbox":  says("agents may use all tools, because the container confines them"),
}

func says(reason string) func(*conversion, leaf) string {
	return func(*conversion, leaf) string { return reason }
}

// chooseAgent takes agent.kind, else the default route's backend, else the first section that is named after an agent.
func (c *conversion) chooseAgent() {
	c.agent = c.value("agent.kind")
	for _, l := range c.leaves {
		section, _, nested := strings.Cut(l.path, ".")
		if _, known := agents[section]; nested && known && c.agent == "" {
			c.agent = section
		}
	}
	c.Code.Agent = agents[c.agent]
}

func (c *conversion) kind(l leaf) string {
	if agents[l.text()] == "" {
		return "Retake has no profile for " + short(l.text()) + "; choose another agent with --agent or --run"
	}
	return ""
}

// command takes the model from an agent's command line. The profile replaces everything else.
func (c *conversion) command(l leaf) string {
	section, _, _ := strings.Cut(l.path, ".")
	if section != "agent" && agents[section] != c.Code.Agent {
		return "another agent was chosen: " + c.agent
	}
	if m := modelFlag.FindStringSubmatch(l.text()); m != nil && c.Code.Model == "" {
		c.Code.Model = m[1]
	}
	words := strings.Fields(l.text())
	plain := len(words) == 1 || len(words) == 2 && words[1] == "app-server"
	if plain && profiles[filepath.Base(words[0])] == c.Code.Agent {
		return ""
	}
	return "only the agent and its model are converted; its profile has the other arguments"
}

// profiles maps programs to the profiles that start them.
var profiles = map[string]string{
	"claude": "claude-code", "codex": "codex", "copilot": "copilot", "opencode": "opencode", "gemini": "gemini",
	"pi": "pi",
}

var modelFlag = regexp.MustCompile(`(?:--model[ =]|-m |\bmodel=)["']*([A-Za-z0-9._:/-]+)`)

func (c *conversion) model(l leaf) string {
	section, _, _ := strings.Cut(l.path, ".")
	switch {
	case agents[section] != c.Code.Agent:
		return "another agent was chosen: " + c.agent
	case l.text() != "":
		c.Code.Model = l.text()
	}
	return ""
}

// milliseconds returns a number of milliseconds in seconds, or 0.
func milliseconds(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 100 {
		return 0
	}
	return n / 1000
}

// codeLimit takes the longest limit, because a stage's limit covers all turns.
func (c *conversion) codeLimit(l leaf) string {
	seconds, most := milliseconds(l.text()), config.Default().Timeouts.WorkerWatchdog.Seconds()
	switch {
	case seconds == 0:
		return "want a number of milliseconds"
	case seconds > most:
		return "it exceeds timeouts.worker_watchdog_seconds, which only the operator can raise"
	}
	c.Code.Seconds = max(c.Code.Seconds, seconds)
	return ""
}

func (c *conversion) gateKind(l leaf) string {
	if l.text() == "command" {
		return ""
	}
	return "only the kind command becomes a VALIDATE stage"
}

func (c *conversion) gate(l leaf) string {
	if kind := c.value("gate.kind"); kind != "" && kind != "command" || l.text() == "" {
		return ""
	}
	c.Checks = append(c.Checks, Command{Run: config.Words(strings.TrimSpace(l.text())), Why: c.From + ": " + l.path})
	return ""
}

func (c *conversion) verification(l leaf) string {
	if c.value("self_review.enabled") != "true" {
		return "self_review is not enabled"
	}
	for _, text := range l.list {
		c.Checks = append(c.Checks, Command{
			Run: config.Words(strings.TrimSpace(text)), Why: c.From + ": " + l.path,
			Seconds: milliseconds(c.value("self_review.verification_timeout_ms")),
		})
	}
	return ""
}

func (c *conversion) rounds(l leaf) string {
	n, err := strconv.Atoi(l.text())
	if err != nil || n < 1 || n > 20 {
		return "want a number from 1 to 20"
	}
	c.FixAttempts = n
	return ""
}
