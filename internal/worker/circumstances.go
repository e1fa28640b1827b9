package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
	"retake/internal/recovery"
	"retake/internal/recovery/circumstances"
	"retake/internal/secrets/redact"

	"go.uber.org/zap"
)

// circumstancesOnWire is the JSON form of a circumstances.Record. Other packages can create a Record only by decoding
// this form.
type circumstancesOnWire struct {
	Stage       string               `json:"stage,omitempty"`
	Number      int                  `json:"number,omitempty"`
	Command     []string             `json:"command,omitempty"`
	Profile     string               `json:"profile,omitempty"`
	Provider    string               `json:"provider,omitempty"`
	Asked       bool                 `json:"asked,omitempty"`
	Refused     bool                 `json:"refused,omitempty"`
	Status      int                  `json:"status,omitempty"`
	Credentials []string             `json:"credentials,omitempty"`
	Runtime     string               `json:"runtime,omitempty"`
	Limit       *circumstances.Limit `json:"limit,omitempty"`
}

// circumstances records the circumstances of a failure. found is the worker's classification. reason is the reason for
// an external stop, or empty.
func (r *reporter) circumstances(a *attempt, f *failure, e *wire.WorkerError, found recovery.Reason,
	reason string,
) *circumstances.Record {
	c := circumstancesOnWire{Stage: f.stage, Runtime: r.plan.Runtime, Limit: r.limit(f, reason)}
	if s := f.plan; s != nil {
		c.Number, c.Command = s.Number, a.configured(*s)
		if s.Agent != nil {
			c.Command, c.Profile = c.Command[:1], s.Agent.Name
		}
		c.credential(a, *s)
		c.provider(f, e, found)
	}
	data, err := json.Marshal(c)
	out := new(circumstances.Record)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		a.log.Warn("could not record circumstances", zap.Error(err))
		return nil
	}
	return out
}

// providerReasons lists the failures that a provider's answer can cause.
var providerReasons = []recovery.Reason{
	recovery.AuthError, recovery.RateLimited, recovery.QuotaExhausted, recovery.Overloaded, recovery.ContextOverflow,
}

// provider adds whether the run reached the provider, and whether the provider refused a request. An agent with format
// "text" has no events for this, so the classification of its output decides.
func (c *circumstancesOnWire) provider(f *failure, e *wire.WorkerError, found recovery.Reason) {
	if f.closedModel != "" {
		c.Provider, c.Refused = strings.TrimPrefix(f.closedModel, recovery.ModelPrefix), true
		return
	}
	run := f.agent
	if run == nil {
		c.named(e, found)
		return
	}
	failed, usage := run.outcome.FinalFailure(), run.outcome.Usage()
	words := slices.Contains(providerReasons, found)
	c.Status = e.HTTPStatus
	c.Refused = c.Status != 0 || words && (failed != nil || run.outcome.RateLimits > 0 || !run.outcome.Spoke() ||
		run.profile.Format == "text")
	c.Asked = c.Refused || usage.Tokens > 0 || run.outcome.RateLimits > 0
}

// named adds the provider that refused a CODE program without a profile, if the output contains the provider's name.
func (c *circumstancesOnWire) named(e *wire.WorkerError, found recovery.Reason) {
	if c.Stage != wire.StageCode || !slices.Contains(providerReasons, found) {
		return
	}
	if c.Provider = agent.Refuser(e.LastStderrTail + "\n" + e.LastStdoutTail); c.Provider != "" {
		c.Asked, c.Refused = true, true
		c.Credentials = agent.KeysOf(c.Provider, c.Credentials)
	}
}

// credential adds the provider of an agent, and the variables that hold the credential of a stage's program.
func (c *circumstancesOnWire) credential(a *attempt, s wire.StagePlan) {
	env := maps.Clone(a.env)
	maps.Copy(env, s.Env)
	if s.Agent == nil {
		c.Credentials = a.secretVariables(env)
		return
	}
	set := slices.DeleteFunc(slices.Clone(s.Agent.Keys), func(name string) bool { return env[name] == "" })
	c.Provider, c.Credentials = agent.Credential(s, agent.Model(s, a.plan.AttemptFile), set)
}

// maxCredentials is the maximum number of variables in a report. If there are more, the report omits all of them,
// because the program might have used any of them.
const maxCredentials = 4

// secretVariables returns the names of the secret variables passed to a program without a profile. It omits the keys of
// agents' profiles.
func (a *attempt) secretVariables(env environment) []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(env)), func(name string) bool {
		return env[name] == "" || !redact.IsSecretVariable(name) || slices.ContainsFunc(a.plan.Stages,
			func(s wire.StagePlan) bool { return s.Agent != nil && slices.Contains(s.Agent.Keys, name) })
	})
	if len(names) > maxCredentials {
		return nil
	}
	return names
}

// limit returns the limit that ended the work, or nil.
func (r *reporter) limit(f *failure, reason string) *circumstances.Limit {
	l := circumstances.Limit{SetBy: circumstances.Configuration}
	own := ""
	switch {
	case f.kind == failedTimeout && f.plan != nil:
		l.Setting, l.Value = "stage.timeout_seconds", span(f.timeout)
		own = fmt.Sprintf("stage[%d].timeout_seconds", f.plan.Number)
	case f.kind == failedStopped && reason == wire.StopWatchdog:
		l.Setting, l.Value = "timeouts.worker_watchdog_seconds", span(duration(r.plan.WatchdogSeconds, defaultWatchdog))
	case f.kind == failedMemory:
		l.Setting = "containers.memory"
		if n := f.exit.shortage.limit; n > 0 {
			l.Value = memorySize(n)
		}
	case f.kind == failedNoCalls:
		l.Setting = "recovery.paid_call_budget"
	default:
		return nil
	}
	if slices.Contains(r.plan.Defaults, l.Setting) || slices.Contains(r.plan.Defaults, own) {
		l.SetBy = circumstances.Default
	}
	return &l
}

// span formats a duration and omits trailing units that are zero.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
