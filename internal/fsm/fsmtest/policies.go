package fsmtest

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

var failedTest = recovery.Evidence{Stage: "VALIDATE", Message: "--- FAIL: TestParse (0.00s)", ExitCode: new(1)}

// failureEvidence lists evidence of real failures. Index 0 is the least harmful.
var failureEvidence = []recovery.Evidence{
	{
		Stage: "CODE", Message: "HTTP 429 Too Many Requests", HTTPStatus: 429,
		Headers: map[string]string{"retry-after": "90"},
	},
	{Stage: "CODE", Message: "Error: connect ECONNREFUSED 127.0.0.1:443"},
	{Stage: "CODE", Message: "HTTP 503 Service Unavailable", HTTPStatus: 503, Provider: "anthropic"},
	{Stage: "CODE", Message: "Segmentation fault (core dumped)", ExitCode: new(139), Signal: "SIGSEGV"},
	{Stage: "VALIDATE", Message: "exit 1", Stderr: "./main.go:3:2: undefined: foo\nFAIL\tacme [build failed]"},
	{
		Stage: "CODE", Message: "You exceeded your current quota, please check your plan and billing details",
		HTTPStatus: 429,
	},
	{Stage: "CODE", Question: "Which of the two tables is meant?"},
	{Stage: "CODE", Message: "exit 2", Stderr: "no idea what happened"},
	{Stage: "CODE", Message: "killed", OOM: true},
	{Stage: "CODE", Message: "HTTP 401 Unauthorized: invalid api key", HTTPStatus: 401},
	{Stage: "CODE", Message: "OSError: [Errno 28] No space left on device"},
	{Stage: "CODE", Message: "nothing changed", ExitCode: new(0)},
	{Stage: "CODE", Message: "API Error: read ECONNRESET", Provider: "anthropic"},
	failedTest,
	{Stage: "VALIDATE", Message: "curl: (6) Could not resolve host: proxy.golang.org"},
	{Stage: "VALIDATE", Message: "GET https://registry.npmjs.org/left-pad - 429 Too Many Requests", HTTPStatus: 429},
	{Stage: "VALIDATE", Message: "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker " +
		"daemon running?"},
}

// refusedLogin returns evidence of a refused login, a failure that several tasks can share.
func refusedLogin() recovery.Evidence {
	return failureEvidence[slices.IndexFunc(failureEvidence,
		func(e recovery.Evidence) bool { return e.HTTPStatus == http.StatusUnauthorized })]
}

// reporterWords maps messages to the explicit flags in their reports. If a message has several sets of flags, its
// reports alternate between them. Reports with other messages omit the flags. After a 401, the "director" policy asks a
// person, unless an incident makes the task wait.
var reporterWords = map[string][]recovery.Assertion{
	"exit 2":                           {{Explicit: true, Escalate: true}},
	"Segmentation fault (core dumped)": {{Explicit: true, Transient: true}},
	"API Error: read ECONNRESET":       {{Explicit: true}},
	"HTTP 401 Unauthorized: invalid api key": {
		{Explicit: true, Transient: true, Retry: true}, {Explicit: true, Retry: true, Escalate: true},
	},
}

// classifications holds the real classifier's result for each failure and for each reason that the director observes.
// It is computed once, because classifying takes longer than a hundred steps of the machine.
type classifications struct {
	known map[recovery.Reason]recovery.Finding
	said  map[string]recovery.Finding // by message and question
}

var classified = sync.OnceValue(func() classifications {
	c, err := classify.New()
	if err != nil {
		panic(err) // other tests check the built-in rules
	}
	r := classifications{map[recovery.Reason]recovery.Finding{}, map[string]recovery.Finding{}}
	for _, about := range recovery.Reasons {
		r.known[about.Reason] = c.Classify(recovery.Evidence{Known: about.Reason, KnownCause: "known"})
	}
	for _, words := range []string{noRoom, lessRoom, noImage} {
		r.said[words] = c.Classify(recovery.Evidence{Stage: "START", Message: words})
	}
	for _, e := range failureEvidence {
		e.At = epoch
		r.said[e.Message+e.Question] = c.Classify(e)
	}
	return r
})

func (r classifications) classify(e recovery.Evidence) recovery.Finding {
	if e.Known == "" {
		return r.said[e.Message+e.Question]
	}
	f := r.known[e.Known]
	if e.KnownCause != "" {
		f.Cause = e.KnownCause
	}
	return f
}

// Settings that are the same in every world.
const (
	heartbeatTTL = 90 * time.Second
	watchdog     = 15 * time.Minute
	startTimeout = 2 * time.Minute
)

// presets lists the policies that a world can use. A third of the worlds use the "director" policy.
var presets = []string{"director", "director", "director", "reviewcat", "gdd", "cortex", "prp", "dispatch", userPolicy}

// userPolicy is a policy as a user might write it, with features that the presets lack.
const (
	userPolicy         = "user-defined"
	userPolicyDocument = `base = "director"
[guards]
on_max_retries = "reclaim"
on_iteration_budget = "abort"
[[row]]
on = "no_progress"
then = "reclaim"
[[row]]
on = "unknown"
then = "skip"
`
)

// policies returns the policies by name, parsed once.
var policies = sync.OnceValue(func() map[string]*policy.Policy {
	all := map[string]*policy.Policy{}
	for _, name := range presets {
		p, err := policy.Preset(name)
		if name == userPolicy {
			p, err = policy.Parse(name, nil, []byte(userPolicyDocument))
		}
		if err != nil {
			panic(err) // other tests check the presets
		}
		all[name] = p
	}
	return all
})

// statedCallers maps each preset to its configured callers, by stage.
var statedCallers = map[string]map[string]string{
	"director": {"VALIDATE": "review"},
	"gdd":      {"CODE": "mcp-transport", "VALIDATE": "update-check"},
	"prp":      {"CODE": "executeBacklog", "VALIDATE": "cleanup"},
}

// machineConfig returns a production configuration with the limits of a small world.
func machineConfig(maxWorkers int, claimStale time.Duration, preset string, limits policy.Limits) fsm.Config {
	return fsm.Config{
		MaxWorkers: maxWorkers, HeartbeatTTL: heartbeatTTL, Watchdog: watchdog, StartTimeout: startTimeout,
		StopGrace: 10 * time.Second, FenceAfter: time.Minute, ClaimStale: claimStale, MaxStatedWait: maxStatedWait,
		Policy: policies()[preset].With(limits), Classify: classified().classify,
		Retry: recovery.Backoff{Initial: time.Second, Max: 5 * time.Minute, Factor: 2, Jitter: recovery.EqualJitter},
	}
}

// fewIterations is the smallest budget of attempts.
const fewIterations = 3

// budgets lists the limits that apply between two human answers: large, small, little money, few attempts.
var budgets = []policy.Limits{
	{PaidCallBudget: 20, Backoff: recovery.DefaultBackoff},
	{PaidCallBudget: 3, Backoff: recovery.DefaultBackoff},
	{PaidCallBudget: 20, CostBudgetUSD: 0.5, Backoff: recovery.DefaultBackoff},
	{PaidCallBudget: 20, IterationBudget: fewIterations, Backoff: recovery.DefaultBackoff},
}

// retries returns the maximum number of attempts that a policy's row grants after a caller's failures, if all
// conditions in the row's ladder hold.
func retries(p *policy.Policy, r recovery.Reason, caller string) int {
	row, ok := p.Row(r, caller)
	if !ok || p.Name() != "director" {
		return unlimited // the other presets count per task, session or signature as well
	}
	n := 0
	for _, rung := range row.Ladder {
		n += rung.Times
	}
	return n
}

const unlimited = 1 << 30
