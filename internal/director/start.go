package director

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"retake/internal/agent"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/workspace"
)

// planPath is where a worker finds its plan.
const planPath = container.Dir + "/plan.json"

// start makes the attempt: the checkout as the last attempt left it, a bus credential of its own, a container.
func (s *session) start(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if s.alive(ctx, e.Worker) { // an earlier process started it: nobody touches a checkout that a worker is in
		s.bus.Authorize(e.Worker)
		return fsm.EffectEnded{}
	}
	issue, err := s.github.Issue(ctx, string(e.Task))
	if err != nil {
		return failed(err)
	}
	base := s.config.GitHub.BaseBranch
	request := s.checkoutOf(e.Task, e.Nonce)
	checkout, err := s.workspace.Checkout(ctx, request)
	if err == nil {
		err = s.catchUp(ctx, e, request)
	}
	if err != nil {
		return failed(err)
	}
	ref := wire.IssueRef{
		Key: string(e.Task), Number: e.Task.Number(), Title: issue.Title, Body: issue.Body, Labels: issue.Labels, URL: issue.URL,
	}
	credential := s.bus.Authorize(e.Worker)
	c := s.config
	spec := s.spec(e, checkout.Path)
	plan := wire.Plan{
		WorkerID: e.Worker, AttemptID: e.Worker, RunID: s.runID, Issue: ref, Attempt: e.Attempt,
		Branch: branchName(e.Task, e.Attempt), BaseBranch: base, BaseSHA: checkout.BaseSHA, ImageTag: c.Containers.Image,
		Bus: wire.PlanBus{
			URL: s.bus.WorkerURL(s.gateway), User: credential.User, Password: credential.Password,
			Prefix: c.AgentBus.Prefix, MaxMessageBytes: c.AgentBus.MaxMessageBytes,
		},
		Workdir: s.runtime.Workdir(spec), Stages: s.stages, FixAttempts: c.Worker.FixAttempts,
		HeartbeatIntervalSeconds: c.AgentBus.HeartbeatInterval.Seconds(), StopGraceSeconds: c.Timeouts.StopGrace.Seconds(),
		WatchdogSeconds: c.Timeouts.WorkerWatchdog.Seconds(), Secrets: s.secrets,
		AttemptFile: attemptFile(e, ref, alternative(s.stages)),
		Budget: &wire.PlanBudget{
			MaxConcurrent: c.RateLimits.Model.MaxConcurrentRequests, SpacingSeconds: c.RateLimits.Model.MinBetweenRequests.Seconds(),
			CooldownSeconds: c.RateLimits.Model.CooldownOnError.Seconds(),
		},
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return failed(err)
	}
	spec.Files = []container.File{{Path: planPath, Mode: 0o600, Data: data}}
	_, err = s.runtime.Ensure(ctx, spec)
	return orFailed(fsm.EffectEnded{}, err)
}

func (s *session) checkoutOf(k fsm.IssueKey, nonce string) workspace.Request {
	return workspace.Request{Nonce: nonce, Repo: k.Repo(), RemoteURL: s.remote(k.Repo()), BaseBranch: s.config.GitHub.BaseBranch}
}

func (s *session) spec(e fsm.Effect, checkout string) container.Spec {
	c := s.config.Containers
	spec := container.Spec{
		AttemptID: e.Worker, Task: string(e.Task), Image: c.Image, Workdir: c.Workdir, Checkout: checkout,
		Entrypoint: []string{container.WorkerPath, "--plan", planPath}, WorkerBinary: s.workerBinary,
		Memory: int64(c.Memory), CPUs: c.CPUs, Pids: int64(c.PIDs), User: c.User, Env: s.environ,
	}
	for _, m := range c.Mounts {
		spec.Mounts = append(spec.Mounts, container.Mount(m))
	}
	return spec
}

// stagePlans are the configured stages as workers are told them: an agent's profile becomes a command.
func stagePlans(c config.Config) ([]wire.StagePlan, error) {
	var out []wire.StagePlan
	var faults []error
	for _, g := range c.Stages {
		p, err := c.Agents.Expand(agent.Stage(g))
		out, faults = append(out, p), append(faults, err)
	}
	return out, errors.Join(faults...)
}

// alternative is the model to change to when a verdict wants another one: that of the first stage that has one.
func alternative(stages []wire.StagePlan) string {
	for _, g := range stages {
		if g.AlternativeModel != "" {
			return g.AlternativeModel
		}
	}
	return ""
}

// models are the resources that the stages use. None: a stage's program may use any.
func models(stages []wire.StagePlan) (out []string) {
	for _, g := range stages {
		if g.Name == wire.StageCode && g.Agent == nil && g.Resource == "" {
			return nil
		}
		for _, model := range []string{g.Model, g.AlternativeModel} {
			r := agent.Resource(g, model)
			if (g.Agent != nil || g.Resource != "") && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// attemptFile tells the agent what it is to do, and what went wrong before.
func attemptFile(e fsm.Effect, ref wire.IssueRef, alternative string) *wire.AttemptFile {
	f := &wire.AttemptFile{
		AttemptID: e.Worker, Attempt: e.Attempt, Action: string(e.Start.Action), Issue: ref, Summary: summary(ref, e.Start),
	}
	if e.Start.Alternative && alternative != "" {
		f.Model = &alternative
	}
	for _, h := range e.Start.Hints {
		f.Hints = append(f.Hints, wire.Hint{From: h.From, At: wire.At(h.At), Text: h.Text})
	}
	for _, x := range e.Start.Failures {
		f.EarlierFailures = append(f.EarlierFailures, wire.EarlierFailure{
			Attempt: x.Attempt, Stage: x.Stage, Reason: string(x.Reason), Cause: x.Cause, At: wire.At(x.At),
		})
	}
	return f
}

// passedOn collects the variables that workers may see, and which of their values are secrets: all that are passed on
// from the director's own environment.
func passedOn(env map[string]string, names []string) (environ, secrets []string, err error) {
	for _, k := range sortedKeys(env) {
		environ = append(environ, k+"="+env[k])
	}
	for _, name := range names {
		v, ok := os.LookupEnv(name)
		if !ok {
			return nil, nil, fmt.Errorf("director: containers.env_passthrough names %s, which is not set: export it, or take it off the list", name)
		}
		environ = append(environ, name+"="+v)
		secrets = append(secrets, v)
	}
	return environ, secrets, nil
}

const elfMagic = "\x7fELF"

// findWorker returns the static worker binary: the given path, or the file "worker" beside this program.
func findWorker(path string) (string, error) {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("director: own path: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), "worker")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("director: worker binary: %w", err)
	}
	f, err := os.Open(abs)
	if err != nil {
		return "", fmt.Errorf("director: no worker binary at %s: run \"make build\", or name it with --worker-binary", abs)
	}
	defer f.Close()
	magic := make([]byte, len(elfMagic))
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != elfMagic {
		return "", fmt.Errorf("director: %s is no Linux program: run \"make build\", or name the worker with --worker-binary", abs)
	}
	return abs, nil
}
