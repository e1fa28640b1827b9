package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"retake/internal/tomlfile"
)

// When a new value takes effect in a running director.
const (
	holdsAtOnce    = "at once"    // the director uses the new value in all later decisions and attempts
	holdsAfterward = "at restart" // the director uses the old value until it restarts
)

// holds lists the keys by when their new values take effect. A restart is needed for keys that identify the director to
// workers, GitHub, the journal or the machine, and for keys that the director uses only at startup, such as the
// addresses it listens on. The containers.image of [[project]] takes effect at once, because each attempt states its
// image.
var holds = merged(map[string][]string{
	holdsAtOnce: {
		"director.interval_seconds", "director.max_workers", "director.max_retries", "director.disk_watermark",
		"timeouts.worker_watchdog_seconds", "timeouts.issue_claim_stale_seconds", "timeouts.worker_start_seconds",
		"timeouts.stop_grace_seconds",
		"timeouts.delivery_seconds",
		"retry.backoff_mode", "retry.backoff_initial_seconds", "retry.backoff_max_seconds", "retry.backoff_factor",
		"retry.jitter",
		"containers.memory", "containers.cpus", "containers.pids", "containers.mounts", "containers.read_only",
		"containers.scratch", "kubernetes.pending_timeout_seconds",
		"rate_limits.model.max_concurrent_requests", "rate_limits.model.min_seconds_between_requests",
		"rate_limits.model.cooldown_on_error_seconds",
		"rate_limits.model.max_wait_seconds",
		"policy.sync_main.max_commits_behind", "policy.sync_main.max_seconds_behind",
		"github.poll_seconds", "github.delivery", "github.review", "github.delete_branch", "github.issue_authors",
		"github.priorities", "github.label_caps",
		"escalation.remind_after_seconds", "escalation.incident_issues", "escalation.plain_answers",
		"scope.deny", "scope.ask", "scope.allow", "scope.allow_secrets", "scope.allow_raw", "scope.allow_left_out",
		"scope.max_file_bytes",
		"workspace.checkpoint_seconds",
		"worker.fix_attempts",
		"recovery.preset", "recovery.continue_on_error", "recovery.max_consecutive_errors", "recovery.iteration_budget",
		"recovery.paid_call_budget",
		"recovery.cost_budget_usd", "recovery.rules_file", "recovery.policy_file", "recovery.agents_file",
		"projects.allow",
		"route.labels", "route.attempt", "route.min_bytes", "route.after", "route.agent", "route.model",
		"route.alternative_model",
		"stage.name", "stage.run", "stage.agent", "stage.model", "stage.alternative_model", "stage.resource",
		"stage.paid", "stage.caller", "stage.state_paths", "stage.timeout_seconds",
	},
	holdsAfterward: {
		"director.fleet", "director.data_dir", "director.disk_reserve", "director.lease_seconds", "director.shared_dir",
		"director.http_listen",
		"director.page_token_env", "director.page_token_file",
		"director.metrics_token_env", "director.metrics_token_file",
		"timeouts.worker_heartbeat_ttl_seconds",
		"containers.runtime", "containers.oci_runtime", "containers.process_same_user", "containers.image",
		"containers.workdir", "containers.user", "containers.network", "containers.env_passthrough", "containers.env",
		"containers.secrets", "containers.egress", "containers.reachable", "containers.proxied_keys",
		"containers.proxy_listen", "containers.proxy_url",
		"kubernetes.namespace", "kubernetes.kubeconfig", "kubernetes.worker_image", "kubernetes.pod_template",
		"kubernetes.address",
		"agent_bus.url", "agent_bus.credentials", "agent_bus.listen_addr", "agent_bus.listen_port", "agent_bus.prefix",
		"agent_bus.replicas",
		"agent_bus.max_message_bytes", "agent_bus.heartbeat_interval_seconds", "agent_bus.sync",
		"journal.on_damage", "journal.keep_days",
		"rate_limits.github.max_concurrent_requests", "rate_limits.github.min_seconds_between_writes",
		"rate_limits.github.cooldown_on_rate_limit_seconds",
		"github.repositories", "github.api_url", "github.token_env", "github.token_file", "github.app_id",
		"github.installation_id", "github.private_key_file",
		"github.webhook_secret_env", "github.webhook_secret_file", "github.writes", "github.base_branch",
		"github.trusted_authors",
		"github.labels.task", "github.labels.claimed", "github.labels.blocked", "github.labels.review",
		"checkout.max_files", "checkout.max_entries", "checkout.max_depth", "checkout.max_path_bytes",
		"checkout.max_bytes", "checkout.max_work_bytes",
		"checkout.git_seconds", "checkout.git_memory", "checkout.quota",
		"workspace.transport",
		"worker.validate",
		"telemetry.otlp_endpoint", "telemetry.otlp_headers_env", "telemetry.sample_ratio",
	},
})

// HoldsAtOnce reports whether a new value of a key takes effect as soon as a running director reads it. Otherwise it
// takes effect at the next restart. Keys of stages have the form "stage.run".
func HoldsAtOnce(key string) bool { return holds[key] == holdsAtOnce }

func merged(lists map[string][]string) map[string]string {
	all := map[string]string{}
	for when, keys := range lists {
		for _, key := range keys {
			all[key] = when
		}
	}
	return all
}

// Change lists the keys that differ between a reloaded configuration and the current one, in documentation order.
type Change struct {
	Keys    []string // keys with new values
	Restart []string // keys with new values that require a restart
}

// Reread returns the configuration for a director that runs with c and has loaded next. It takes the keys that need a
// restart from c, and all others from next. Reread returns Problems if this combination is invalid.
func (c Config) Reread(next Config) (Config, Change, Problems) {
	out, change := next, Change{}
	before, after, result := keys(&c), keys(&next), keys(&out)
	for i, r := range after {
		switch {
		case before[i].literal() == r.literal():
		case holds[r.key] == holdsAtOnce:
			change.Keys = append(change.Keys, r.key)
		default:
			change.Restart = append(change.Restart, r.key)
			reflect.ValueOf(result[i].to).Elem().Set(reflect.ValueOf(before[i].to).Elem())
		}
	}
	// An explicit value overrides a policy file, but an equal default does not. So a key that becomes explicit, or is
	// no longer explicit, has changed even if its value is equal.
	for _, b := range assumed(nil) {
		if slices.Contains(c.assumed, b) != slices.Contains(next.assumed, b) && next.Recovery.PolicyFile != "" {
			change.note(boundKey(string(b)))
		}
	}
	change.stages(c.Stages, next.Stages)
	change.branches(c, &out)
	change.projects(c.Projects, out.Projects)
	if !reflect.DeepEqual(c.Routes, next.Routes) {
		change.note("route")
	}
	if len(change.Restart) == 0 {
		return out, change, nil
	}
	return out, change, out.together(change.Restart)
}

// boundKey returns the configuration key of a policy bound.
func boundKey(bound string) string {
	for _, r := range allRows {
		if _, last := cutLast(r.key); last == bound {
			return r.key
		}
	}
	return "retry"
}

func (x *Change) note(key string) {
	if !slices.Contains(x.Keys, key) {
		x.Keys = append(x.Keys, key)
	}
}

// stages adds the keys that differ between two lists of stages, or just "stage" if the lists differ in length.
func (x *Change) stages(before, after []Stage) {
	if len(before) != len(after) {
		x.note("stage")
		return
	}
	for i := range after {
		was, is := stageKeys(&before[i]), stageKeys(&after[i])
		for k, r := range is {
			if _, name := cutLast(r.key); was[k].literal() != r.literal() {
				x.note(tomlfile.Element("stage", i) + "." + name)
			}
		}
	}
}

// projects adds "project" if two lists of projects differ.
func (x *Change) projects(before, after []Project) {
	if !slices.EqualFunc(before, after, func(a, b Project) bool { return a.literal() == b.literal() }) {
		x.note("project")
	}
}

// branches keeps the base branches of running repositories, because checkouts and pull requests depend on them.
func (x *Change) branches(c Config, out *Config) {
	for _, p := range slices.Concat(c.Projects, out.Projects) {
		was := c.For(p.Repository).GitHub.BaseBranch
		if out.For(p.Repository).GitHub.BaseBranch == was {
			continue
		}
		out.Projects = withBranch(out.Projects, p.Repository, was)
		x.Restart = append(x.Restart, "project["+p.Repository+"].github.base_branch")
	}
}

// withBranch returns the projects with the base branch of one repository.
func withBranch(projects []Project, repository, branch string) []Project {
	out := slices.Clone(projects)
	p := projectOf(out, repository)
	if p == nil {
		out = append(out, Project{Repository: repository, from: new(Config)})
		p = &out[len(out)-1]
	}
	from := *p.from
	from.GitHub.BaseBranch = branch
	p.from = &from
	if key := "github.base_branch"; !slices.Contains(p.keys, key) {
		p.keys = append(slices.Clone(p.keys), key)
	}
	return out
}

// together checks the rules between keys, in the projects as well, assuming that the keys in restart keep their old
// values.
func (c Config) together(restart []string) (all Problems) {
	l := &loader{
		c: &c, rows: byKey(keys(&c)), doc: tomlfile.Parse(nil), set: map[string]Problem{},
		bad: map[string]bool{},
	}
	l.rules()
	for i, p := range c.Projects {
		sub := l.layer(tomlfile.Element("project", i), &c)
		sub.set, sub.staged = p.at, slices.Contains(p.keys, "stage")
		sub.routed = slices.Contains(p.keys, "route")
		l.problems = append(l.problems, sub.partRules(withProject(c, p))...)
	}
	for _, p := range l.problems {
		all = append(all, Problem{
			Where: "reload", Key: p.Key,
			Text: p.Text + "; " + strings.Join(restart, ", ") +
				" can change only at a restart: restart the director, or make this change later",
		})
	}
	return all.sorted()
}

// OwnFiles returns the files configured in [recovery], by key.
func (c Config) OwnFiles() map[string]string {
	all := map[string]string{
		"recovery.rules_file": c.Recovery.RulesFile, "recovery.policy_file": c.Recovery.PolicyFile,
		"recovery.agents_file": c.Recovery.AgentsFile,
	}
	maps.DeleteFunc(all, func(_, path string) bool { return path == "" })
	return all
}

// Digest returns 16 hexadecimal digits that identify a configuration. They depend on the value of every key and the
// content of the given files.
func (c Config) Digest(files map[string]string) string {
	sum := sha256.New()
	fmt.Fprint(sum, c.String(), c.assumed)
	for _, key := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "\n%s %s", key, files[key])
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
