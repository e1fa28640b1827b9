package config

import (
	"slices"
	"strings"

	"retake/internal/bus/wire"
	"retake/internal/secrets/protected"
)

// row describes one key.
type row struct {
	key         string  // section.key; "stage.x" applies to every [[stage]], and "route.x" to every [[route]]
	def         string  // default as TOML; empty if the key is required
	unit        string  // unit for the documentation
	min, max    float64 // inclusive range of a number
	allowed     []string
	former      []string            // accepted but deprecated; Notes names the replacement
	check       func(string) bool   // checks a string, each element of a list, or each name in a table
	reason      func(string) string // like check, but returns why a value is invalid, or ""
	secretNames bool                // for a table whose names may look like secrets, although the values are not secret
	word        bool                // for a list: a single string stands for a one-element list
	path        bool                // for a path; in a file, it is relative to the file's directory
	want        string              // the allowed values, for messages
	doc         string
	// the field: *bool, *int, *float64, *time.Duration, *string, *[]string, *map[string]string,
	// *map[string][]string or *map[string]int
	to any
	at func(*Config) any // returns the field of a configuration; nil for the keys of stages and routes
}

const (
	day   = 86400
	week  = 7 * day
	maxID = 1 << 53 // beyond this, TOML and JSON do not represent numbers exactly
)

// keys returns the rows of all keys except stage keys, in documentation order. The rows' "to" fields point into c.
func keys(c *Config) []row {
	rows := slices.Concat(fleetKeys, workKeys)
	for i := range rows {
		rows[i].to = rows[i].at(c)
	}
	return rows
}

// stageKeys returns the keys of one [[stage]].
func stageKeys(s *Stage) []row {
	return []row{
		{key: "stage.name", allowed: stageOrder, doc: "Name of the stage. Stages run in the order of the allowed " +
			"names. VALIDATE may occur more than once. CODE is required.", to: &s.Name},
		{
			key: "stage.run", def: "[]", want: `one argument, as in ["make", "test"], because no shell splits it`,
			doc: `Program and its arguments, instead of agent.`, to: &s.Run,
		},
		{
			key: "stage.agent", def: `""`, check: agentForm.MatchString, want: "the name of an agent profile",
			doc: "Profile of the agent to run, instead of run. docs/specs/agents.md lists the profiles, and " +
				"recovery.agents_file adds more.", to: &s.Agent,
		},
		{
			key: "stage.model", def: `""`, check: modelForm.MatchString, want: modelWant,
			doc: "Model, passed through the agent's flag and RETAKE_MODEL. If empty, the program's default is used.",
			to:  &s.Model,
		},
		{
			key: "stage.alternative_model", def: `""`, check: modelForm.MatchString, want: modelWant,
			doc: "Model for attempts after a verdict that asks for another model. If empty, they use the same model.",
			to:  &s.AlternativeModel,
		},
		{
			key: "stage.resource", def: `""`, check: validResource,
			want: "model.<provider>, using letters, digits, -, _ and dots; may be empty",
			doc: "Resource in rate_limits.model that the stage's calls use. If empty, the agent's provider is used, " +
				"or model.default.",
			to: &s.Resource,
		},
		{
			key: "stage.paid", def: `"auto"`, allowed: []string{wire.PaidAuto, wire.PaidAlways, wire.PaidNever},
			doc: "Runs that count against recovery.paid_call_budget. auto counts runs with agent or resource, and " +
				"runs that get a model lease. Set always for a script that calls a model without a lease.", to: &s.Paid,
		},
		{
			key: "stage.caller", def: `""`, want: "a caller named in the policy's rows; may be empty",
			doc: "Caller used to select the policy rows for the stage's failures, such as update-check with preset " +
				"gdd. The default is start for START, agent for CODE, and stage for all others.",
			to: &s.Caller,
		},
		{
			key: "stage.state_paths", def: "[]", reason: faultOfGlob, want: globWant,
			doc: "Paths that do not belong to the work, in addition to the paths of known agents " +
				"(docs/specs/agents.md). Retake never commits them, unless the base branch has them. The prefix ! " +
				"marks paths that do belong to it.",
			to: &s.StatePaths,
		},
		{
			key: "stage.timeout_seconds", def: "1800", unit: "seconds", min: 0.1, max: week,
			doc: "Time limit of the stage; at most timeouts.worker_watchdog_seconds.", to: &s.Timeout,
		},
	}
}

// protectedDefault stands for the built-in table of protected paths; see internal/secrets/protected.
const protectedDefault = `["` + protected.Default + `"]`

// associations lists GitHub's author_association values, closest to the repository first.
var associations = []string{
	"OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "FIRST_TIMER",
	"MANNEQUIN", "NONE",
}

// stageOrder is the order in which stages run.
var stageOrder = []string{"START", "CONTEXT_LOAD", "CODE", "VALIDATE", "DONE"}

// unsupported maps each unsupported key of the original design to the reason.
var unsupported = map[string]string{
	"containers.scale_to_zero_idle_seconds": "containers are never idle: each ends with its attempt " +
		"and is removed",
}

// allRows contains the rows of all keys, for lookups without a Config.
var allRows = slices.Concat(keys(&Config{}), stageKeys(&Stage{}), routeKeys(&Route{}))

// sections is the set of all tables and their parents, such as "rate_limits" and "rate_limits.github".
var sections = func() map[string]bool {
	all := map[string]bool{}
	for _, r := range allRows {
		for s, _ := cutLast(r.key); s != ""; s, _ = cutLast(s) {
			all[s] = true
		}
	}
	return all
}()

// lists is the set of sections that are lists of tables.
var lists = map[string]bool{"stage": true, "route": true}

func cutLast(key string) (section, last string) {
	i := strings.LastIndexByte(key, '.')
	return key[:max(i, 0)], key[i+1:]
}

// EnvPrefix is the prefix of every variable that sets a key.
const EnvPrefix = "RETAKE_CFG_"

// envName returns the name of the variable that sets a key, such as RETAKE_CFG_RATE_LIMITS_GITHUB_X for
// rate_limits.github.x.
func envName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
