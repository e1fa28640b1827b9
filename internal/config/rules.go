package config

import (
	"fmt"
	"slices"
	"strings"
)

// rule is a check of keys against each other. It is skipped when one of its keys is bad already.
type rule struct {
	keys  []string // the first of them that somebody has set is where the problem is shown
	wrong func(Config) string
}

var rules = []rule{
	{[]string{"timeouts.worker_heartbeat_ttl_seconds", "agent_bus.heartbeat_interval_seconds"}, func(c Config) string {
		if least := 3 * c.AgentBus.HeartbeatInterval; c.Timeouts.WorkerHeartbeatTTL < least {
			return fmt.Sprintf("%s seconds are too few for a heartbeat every %s, want at least 3 intervals: %s",
				decimal(c.Timeouts.WorkerHeartbeatTTL.Seconds()), decimal(c.AgentBus.HeartbeatInterval.Seconds()), decimal(least.Seconds()))
		}
		return ""
	}},
	{[]string{"timeouts.worker_watchdog_seconds", "timeouts.worker_start_seconds"}, func(c Config) string {
		if c.Timeouts.WorkerWatchdog <= c.Timeouts.WorkerStart {
			return fmt.Sprintf("the watchdog (%s) would bite before a worker must have started (%s), want worker_watchdog_seconds above worker_start_seconds",
				decimal(c.Timeouts.WorkerWatchdog.Seconds()), decimal(c.Timeouts.WorkerStart.Seconds()))
		}
		return ""
	}},
	{[]string{"timeouts.worker_watchdog_seconds", "timeouts.worker_heartbeat_ttl_seconds"}, func(c Config) string {
		if c.Timeouts.WorkerWatchdog <= c.Timeouts.WorkerHeartbeatTTL {
			return fmt.Sprintf("the watchdog (%s) would bite before silence is noticed (%s), want worker_watchdog_seconds above worker_heartbeat_ttl_seconds",
				decimal(c.Timeouts.WorkerWatchdog.Seconds()), decimal(c.Timeouts.WorkerHeartbeatTTL.Seconds()))
		}
		return ""
	}},
	{[]string{"timeouts.issue_claim_stale_seconds", "timeouts.worker_watchdog_seconds"}, func(c Config) string {
		if c.Timeouts.IssueClaimStale <= c.Timeouts.WorkerWatchdog {
			return fmt.Sprintf("a claim would be given back (%s) while an attempt may still run (%s), want issue_claim_stale_seconds above worker_watchdog_seconds",
				decimal(c.Timeouts.IssueClaimStale.Seconds()), decimal(c.Timeouts.WorkerWatchdog.Seconds()))
		}
		return ""
	}},
	{[]string{"retry.backoff_max_seconds", "retry.backoff_initial_seconds"}, func(c Config) string {
		if c.Retry.BackoffMax < c.Retry.BackoffInitial {
			return "below backoff_initial_seconds, want no less"
		}
		return ""
	}},
	{[]string{"agent_bus.replicas", "agent_bus.url"}, func(c Config) string {
		switch {
		case c.AgentBus.Replicas%2 == 0:
			return fmt.Sprintf("got %d, want 1, 3 or 5", c.AgentBus.Replicas)
		case c.AgentBus.Replicas > 1 && c.AgentBus.URL == "":
			return "the embedded server is one, want 1, or a cluster at agent_bus.url"
		}
		return ""
	}},
	{[]string{"github.labels.task", "github.labels.claimed", "github.labels.blocked", "github.labels.review"}, func(c Config) string {
		l := c.GitHub.Labels
		if dup := duplicate([]string{l.Task, l.Claimed, l.Blocked, l.Review}); dup != "" {
			return "two labels are " + shorten(dup) + ", want four different ones (GitHub ignores case)"
		}
		return ""
	}},
	{[]string{"github.repositories"}, func(c Config) string {
		if dup := duplicate(c.GitHub.Repositories); dup != "" {
			return shorten(dup) + " stands there twice, want each once (GitHub ignores case)"
		}
		return ""
	}},
	{[]string{"containers.mounts", "containers.workdir", "director.data_dir", "github.token_file"}, wrongMounts},
	{[]string{"containers.env_passthrough", "github.token_env"}, func(c Config) string {
		if c.GitHub.TokenEnv != "" && slices.Contains(c.Containers.EnvPassthrough, c.GitHub.TokenEnv) {
			return "it names github.token_env, want others only: the GitHub token never enters a worker"
		}
		return ""
	}},
	{[]string{"containers.env", "containers.env_passthrough"}, func(c Config) string {
		for _, name := range c.Containers.EnvPassthrough {
			if _, ok := c.Containers.Env[name]; ok {
				return shorten(name) + " stands in env and in env_passthrough, want it in one"
			}
		}
		return ""
	}},
}

// duplicate returns the first text that occurs a second time, in any case.
func duplicate(list []string) string {
	seen := map[string]bool{}
	for _, s := range list {
		if seen[strings.ToLower(s)] {
			return s
		}
		seen[strings.ToLower(s)] = true
	}
	return ""
}

// stageRule is a check of one stage in its place; key is relative to the stage.
type stageRule struct {
	key   string
	wrong func(c Config, i int) string
}

var stageRules = []stageRule{
	{"run", func(c Config, i int) string {
		switch s := c.Stages[i]; {
		case s.Agent == "" && len(s.Run) == 0:
			return `no program, want run = ["make", "test"] or agent = "claude-code"`
		case s.Agent != "" && len(s.Run) > 0:
			return "run and agent exclude each other, want one of them"
		case s.Agent == "" && s.Run[0] == "":
			return `no program, want an argument vector such as ["make", "test"]`
		}
		return ""
	}},
	{"agent", func(c Config, i int) string {
		name := c.Stages[i].Agent
		if name == "" {
			return ""
		}
		if _, err := c.Agents.Lookup(name); err == nil {
			return ""
		}
		known := c.Agents.Names()
		if near := nearest(name, slices.Clone(known)); near != "" {
			return fmt.Sprintf("no agent %s, did you mean %s?", shorten(name), near)
		}
		return fmt.Sprintf("no agent %s, want one of %s", shorten(name), strings.Join(known, ", "))
	}},
	{"alternative_model", func(c Config, i int) string {
		if s := c.Stages[i]; s.AlternativeModel != "" && s.AlternativeModel == s.Model {
			return "the same as model, want another one"
		}
		return ""
	}},
	{"name", func(c Config, i int) string {
		name := c.Stages[i].Name
		for j := range i {
			before := c.Stages[j].Name
			if before == name && name != "VALIDATE" {
				return "a second " + name + ", want one (only VALIDATE may stand there more than once)"
			}
			if slices.Index(stageOrder, before) > slices.Index(stageOrder, name) {
				return name + " after " + before + ", want the order " + strings.Join(stageOrder, ", ")
			}
		}
		return ""
	}},
	{"timeout_seconds", func(c Config, i int) string {
		if c.Stages[i].Timeout > c.Timeouts.WorkerWatchdog {
			return fmt.Sprintf("%s is beyond the attempt's whole life, want at most timeouts.worker_watchdog_seconds: %s",
				decimal(c.Stages[i].Timeout.Seconds()), decimal(c.Timeouts.WorkerWatchdog.Seconds()))
		}
		return ""
	}},
}

// CheckRun returns what else `run` needs of a configuration that has no problems: work to look for, and a way to do it.
func (c Config) CheckRun() Problems {
	var p Problems
	if len(c.GitHub.Repositories) == 0 {
		p = append(p, Problem{Where: "run", Key: "github.repositories", Text: `none given, want at least one "owner/name"`})
	}
	if len(c.Stages) == 0 {
		p = append(p, Problem{Where: "run", Key: "stage", Text: `none given, want at least [[stage]] with name = "CODE" and run = [...]`})
	}
	return p
}

// Notes are what is allowed, and mostly a slip: an agent that gets none of the variables it can log in with.
func (c Config) Notes() (notes []string) {
	for i, s := range c.Stages {
		profile, err := c.Agents.Lookup(s.Agent)
		if s.Agent == "" || err != nil || len(profile.Keys) == 0 {
			continue
		}
		if !slices.ContainsFunc(profile.Keys, c.passesOn) {
			notes = append(notes, fmt.Sprintf("stage[%d].agent: %s gets none of %s: name one in containers.env_passthrough, unless its login is in the image or on a mount",
				i, s.Agent, strings.Join(profile.Keys, ", ")))
		}
	}
	return notes
}

// passesOn tells whether workers get a variable.
func (c Config) passesOn(name string) bool {
	_, set := c.Containers.Env[name]
	return set || slices.Contains(c.Containers.EnvPassthrough, name)
}
