package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"retake/internal/tomlfile"
	"retake/internal/tomlfile/spelling"
)

// rule checks several keys against each other. The loader skips it if one of the keys already has a problem.
type rule struct {
	keys  []string // a problem is reported at the first of these that is explicitly set
	wrong func(Config) string
	also  string // another key that the rule reads; problems are never reported there
}

// order requires one duration to exceed another, possibly by a factor.
type order struct {
	key    string
	times  int // minimum factor; 0 means that the other duration only needs to be shorter
	other  string
	reason string
}

var orders = []order{
	{
		"timeouts.worker_heartbeat_ttl_seconds", 3, "agent_bus.heartbeat_interval_seconds",
		"a worker must not become suspect after only a few lost heartbeats",
	},
	{
		"timeouts.worker_watchdog_seconds", 0, "timeouts.worker_start_seconds",
		"the watchdog would stop a worker that may still be starting",
	},
	{
		"timeouts.worker_watchdog_seconds", 0, "timeouts.worker_heartbeat_ttl_seconds",
		"the watchdog would stop a worker before the director notices that it is silent",
	},
	{
		"timeouts.issue_claim_stale_seconds", 0, "timeouts.worker_watchdog_seconds",
		"a claim would be released while its attempt may still be running",
	},
	{
		"retry.backoff_max_seconds", 1, "retry.backoff_initial_seconds",
		"the longest delay would be shorter than the first",
	},
}

// wrong returns a description of the error, or "" if the durations in rows satisfy the order.
func (o order) wrong(rows map[string]row) string {
	value, other := *rows[o.key].to.(*time.Duration), *rows[o.other].to.(*time.Duration)
	if value > other && o.times == 0 || o.times > 0 && value >= other*time.Duration(o.times) {
		return ""
	}
	relation := "above"
	switch {
	case o.times == 1:
		relation = "at least"
	case o.times > 1:
		relation = fmt.Sprintf("at least %d times", o.times)
	}
	return fmt.Sprintf("%s, want %s (%s) %s %s (%s)", o.reason, o.key, decimal(value.Seconds()), relation, o.other,
		decimal(other.Seconds()))
}

var rules = []rule{
	{keys: []string{"agent_bus.replicas", "agent_bus.url"}, wrong: func(c Config) string {
		switch {
		case c.AgentBus.Replicas%2 == 0:
			return fmt.Sprintf("got %d, want 1, 3 or 5", c.AgentBus.Replicas)
		case c.AgentBus.Replicas > 1 && c.AgentBus.URL == "":
			return "the embedded bus has only one server, want 1, or a cluster at agent_bus.url"
		}
		return ""
	}},
	{keys: []string{"agent_bus.credentials", "agent_bus.url"}, wrong: func(c Config) string {
		if c.AgentBus.URL != "" && c.AgentBus.Credentials == "" {
			return "a server at agent_bus.url needs keys: create them with `director bus init`, and set " +
				"agent_bus.credentials to the director/ directory that it creates"
		}
		return ""
	}},
	{
		keys: []string{"github.labels.task", "github.labels.claimed", "github.labels.blocked", "github.labels.review"},
		wrong: func(c Config) string {
			l := c.GitHub.Labels
			if dup := duplicate([]string{l.Task, l.Claimed, l.Blocked, l.Review}); dup != "" {
				return "label " + shorten(dup) + " is used more than once, want four different labels " +
					"(GitHub ignores case)"
			}
			return ""
		},
	},
	{keys: []string{"github.priorities"}, wrong: func(c Config) string { return sameLabels(c.GitHub.Priorities) }},
	{keys: []string{"github.label_caps"}, wrong: func(c Config) string { return sameLabels(c.GitHub.LabelCaps) }},
	{keys: []string{"github.repositories"}, wrong: func(c Config) string {
		if dup := duplicate(c.GitHub.Repositories); dup != "" {
			return shorten(dup) + " is listed twice, want each repository once (GitHub ignores case)"
		}
		return ""
	}},
	{
		keys: []string{
			"containers.mounts", "containers.scratch", "containers.workdir", "director.data_dir",
			"github.token_file", "github.webhook_secret_file", "github.private_key_file", "director.page_token_file",
			"director.metrics_token_file",
		},
		wrong: wrongMounts,
	},
	{
		keys: []string{"github.app_id", "github.installation_id", "github.private_key_file"},
		wrong: func(c Config) string {
			if g := c.GitHub; c.IsApp() && (g.AppID == 0 || g.InstallationID == 0 || g.PrivateKeyFile == "") {
				return "a GitHub App needs app_id, installation_id and private_key_file"
			}
			return ""
		},
	},
	{keys: []string{
		"containers.env_passthrough", "github.token_env", "github.webhook_secret_env",
		"director.page_token_env", "director.metrics_token_env",
	}, wrong: func(c Config) string {
		for _, p := range secretPlaces(c) {
			if p.variable != "" && slices.Contains(c.Containers.EnvPassthrough, p.variable) {
				return "it includes the variable named in " + p.env() + ": remove it, because the " + p.what + " " +
					"must not " +
					"reach workers"
			}
		}
		return ""
	}},
	{keys: []string{"worker.validate", "containers.runtime"}, wrong: func(c Config) string {
		if c.ValidatesFresh() && c.Containers.Runtime == "process" {
			return `plain processes have no clean container to validate in, want containers.runtime = "docker", or worker.validate = "inside"`
		}
		return ""
	}},
	{keys: []string{"containers.oci_runtime", "containers.runtime"}, wrong: func(c Config) string {
		if c.Containers.OCIRuntime != "" && c.Containers.Runtime == "process" {
			return `plain processes do not use a container engine, want containers.runtime = "docker", or containers.oci_runtime = ""`
		}
		return ""
	}},
	{keys: []string{"kubernetes.worker_image", "containers.runtime"}, wrong: func(c Config) string {
		if c.Containers.Runtime == OnKubernetes && c.Kubernetes.WorkerImage == "" {
			return `attempts on Kubernetes need kubernetes.worker_image, want an image that contains the program "worker", such as the director's own`
		}
		return ""
	}},
	{keys: []string{"workspace.transport", "containers.runtime"}, wrong: func(c Config) string {
		if c.Containers.Runtime == OnKubernetes && !c.Workspace.Travels() {
			return `cluster nodes cannot mount directories from this machine, want workspace.transport = "sync"`
		}
		return ""
	}},
	{keys: []string{
		"kubernetes.address", "containers.runtime", "agent_bus.url", "containers.egress",
		"containers.proxied_keys", "containers.proxy_url",
	}, wrong: func(c Config) string {
		switch {
		case c.Containers.Runtime != OnKubernetes || c.Kubernetes.Address != "":
		case c.AgentBus.URL == "":
			return "pods have to reach the bus, want kubernetes.address for the director's Service or machine, " +
				"or a bus that the director joins (agent_bus.url)"
		case c.NeedsProxy() && c.Containers.ProxyURL == "":
			return "pods have to reach the director's proxy, want kubernetes.address for its Service or " +
				"machine, or containers.proxy_url"
		}
		return ""
	}},
	{keys: []string{"containers.mounts", "containers.runtime"}, wrong: func(c Config) string {
		if len(c.Containers.Mounts) > 0 && c.Containers.Runtime == OnKubernetes {
			return "cluster nodes cannot mount directories from this machine, want volumes in kubernetes.pod_template"
		}
		return ""
	}},
	{keys: []string{"containers.oci_runtime", "containers.runtime"}, wrong: func(c Config) string {
		if c.Containers.OCIRuntime != "" && c.Containers.Runtime == OnKubernetes {
			return "it selects a Docker runtime, want runtimeClassName in kubernetes.pod_template"
		}
		return ""
	}},
	{keys: []string{"worker.validate", "stage"}, wrong: wrongFreshStages},
	{keys: []string{"containers.egress", "containers.runtime"}, wrong: func(c Config) string {
		word := func(s string) bool { return s == egressAll || s == egressNone }
		switch {
		case len(c.Containers.Egress) == 0:
			return `empty list, want "none", or the hosts that workers may reach`
		case len(c.Containers.Egress) > 1 && slices.ContainsFunc(c.Containers.Egress, word):
			return `want "all", "none", or a list of hosts`
		case !c.Containers.EgressOpen() && c.Containers.Runtime == "process":
			return `plain processes can reach everything that this machine can, want containers.runtime = "docker", or containers.egress = "all"`
		}
		return ""
	}},
	{
		keys: []string{"containers.secrets", "containers.env", "containers.env_passthrough"},
		wrong: func(c Config) string {
			for _, name := range c.Containers.Secrets {
				if is := strings.TrimPrefix(name, NoSecret); !c.passesOn(is) {
					return shorten(name) + " is missing from env and env_passthrough, want a variable that workers get"
				} else if is != name && slices.Contains(c.Containers.Secrets, is) {
					return shorten(is) + " is listed both with and without !, want only one"
				}
			}
			return ""
		},
	},
	{
		keys:  []string{"containers.proxied_keys", "containers.env", "containers.env_passthrough"},
		wrong: wrongProxiedKeys,
	},
	{keys: []string{"containers.env", "containers.env_passthrough"}, wrong: func(c Config) string {
		for _, name := range c.Containers.EnvPassthrough {
			if _, ok := c.Containers.Env[name]; ok {
				return shorten(name) + " is in both env and env_passthrough, want it in only one"
			}
		}
		return ""
	}},
}

// wrongFreshStages checks the stages that run in a clean container, from the first VALIDATE on. They cannot call a
// model, because Retake does not pass keys to a clean container.
func wrongFreshStages(c Config) string {
	from := slices.IndexFunc(c.Stages, func(s Stage) bool { return s.Name == "VALIDATE" })
	switch {
	case !c.ValidatesFresh() || len(c.Stages) == 0:
		return ""
	case from < 0:
		return `no VALIDATE stage, so nothing would be validated: want one, or worker.validate = "inside"`
	}
	for _, s := range c.Stages[from:] {
		if s.Agent != "" || s.Resource != "" {
			return fmt.Sprintf("%s calls a model, but a clean container has no keys for it: want a program, or "+
				"worker.validate = %q", s.Name, "inside")
		}
	}
	return ""
}

// sameLabels returns an error message if a table contains a label twice, ignoring case.
func sameLabels(table map[string]int) string {
	if dup := duplicate(slices.Sorted(maps.Keys(table))); dup != "" {
		return shorten(dup) + " is listed twice, want each label once (GitHub ignores case)"
	}
	return ""
}

// duplicate returns the first repeated element, ignoring case.
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

// leavesCheckout reports whether a program's relative path points outside its working directory.
func leavesCheckout(program string) bool {
	clean := path.Clean(program)
	return clean == ".." || strings.HasPrefix(clean, "../")
}

// stageRules returns the checks of one stage.
func stageRules(i int) []rule {
	path := tomlfile.Element("stage", i)
	return []rule{
		{keys: []string{path + ".run"}, also: path + ".agent", wrong: func(c Config) string {
			switch s := c.Stages[i]; {
			case s.Agent == "" && (len(s.Run) == 0 || s.Run[0] == ""):
				return `missing program, want run = ["make", "test"] or agent = "claude-code"`
			case s.Agent != "" && len(s.Run) > 0:
				return "both run and agent are set, want one of them"
			case len(s.Run) > 0 && leavesCheckout(s.Run[0]):
				return shorten(s.Run[0]) + " points outside the checkout, where stages run, so it cannot exist: " +
					"want an absolute path, a name in PATH, or a path inside the repository"
			}
			return ""
		}},
		{keys: []string{path + ".agent"}, also: "recovery.agents_file", wrong: func(c Config) string {
			name := c.Stages[i].Agent
			if _, err := c.Agents.Lookup(name); err == nil || name == "" {
				return ""
			}
			return fmt.Sprintf("no agent %s%s", shorten(name), spelling.Hint(name, c.Agents.Names()))
		}},
		{
			keys:  []string{path + ".caller", "recovery.preset", "recovery.policy_file"},
			wrong: func(c Config) string { return c.wrongCaller(c.Stages[i]) },
		},
		{keys: []string{path + ".alternative_model"}, wrong: func(c Config) string {
			if s := c.Stages[i]; s.AlternativeModel != "" && s.AlternativeModel == s.Model {
				return "the same as model, want a different model"
			}
			return ""
		}},
		{keys: []string{path + ".name"}, wrong: func(c Config) string {
			name := c.Stages[i].Name
			for _, before := range c.Stages[:i] {
				if before.Name == name && name != "VALIDATE" {
					return "a second " + name + ", want one (only VALIDATE may occur more than once)"
				}
				if slices.Index(stageOrder, before.Name) > slices.Index(stageOrder, name) {
					return name + " after " + before.Name + ", want the order " + strings.Join(stageOrder, ", ")
				}
			}
			return ""
		}},
		{
			keys: []string{path + ".timeout_seconds"}, also: "timeouts.worker_watchdog_seconds",
			wrong: func(c Config) string {
				if c.Stages[i].Timeout <= c.Timeouts.WorkerWatchdog {
					return ""
				}
				return fmt.Sprintf("%s is longer than the whole attempt may take, want at most "+
					"timeouts.worker_watchdog_seconds: %s",
					decimal(c.Stages[i].Timeout.Seconds()), decimal(c.Timeouts.WorkerWatchdog.Seconds()))
			},
		},
	}
}

// rules checks the constraints between keys.
func (l *loader) rules() {
	all := slices.Clone(rules)
	for _, o := range orders {
		all = append(all, rule{keys: []string{o.key, o.other}, wrong: func(Config) string { return o.wrong(l.rows) }})
	}
	all = append(all, l.listRules()...)
	if !l.part {
		l.secretRules()
	}
	for _, r := range all {
		bad := slices.ContainsFunc(r.keys, func(k string) bool { return l.bad[k] }) || l.bad[r.also]
		if bad || l.part && !slices.ContainsFunc(append(slices.Clone(r.keys), r.also), l.sets) {
			continue
		}
		if wrong := r.wrong(*l.c); wrong != "" {
			shown := r.keys[max(slices.IndexFunc(r.keys, func(k string) bool {
				return l.set[k].Where != "" || k == "stage" && l.staged
			}), 0)]
			at := l.place(shown)
			at.Key, at.Text = l.path(shown), wrong
			l.problems = append(l.problems, at) // do not mark the key as bad, because it may break several rules
		}
	}
}

// secretRules reports secrets with two sources.
func (l *loader) secretRules() {
	if l.c.IsApp() {
		for _, p := range []string{"github.token_env", "github.token_file"} {
			if _, set := l.set[p]; set {
				l.problem(l.place(p), p, "app_id is also set, want either a token or an App")
			}
		}
	}
	for _, p := range secretPlaces(*l.c) {
		_, inEnv := l.set[p.env()]
		if _, inFile := l.set[p.inFile()]; inEnv && inFile && p.variable != "" && p.file != "" {
			l.problem(l.place(p.inFile()), p.inFile(), p.name+"_env is also set, want only one of them")
		}
	}
}
