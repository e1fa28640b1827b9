package effects

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"go.uber.org/zap"

	"retake/internal/agent"
	"retake/internal/agent/prompts"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// Starter starts attempts. It prepares the checkout, and creates a bus credential, a plan and a container.
type Starter struct {
	Contracts   *Contracts
	Texts       *IssueTexts
	Runtime     container.Runtime
	Bus         *bus.Bus
	Workspace   *workspace.Workspaces
	Origin      Origin
	Travel      *Checkouts
	Withdrawals *Withdrawals
	Reports     *reports.Cache
	Specs       *Specs
	Proxy       Proxy
	Outputs     *Outputs
	Record      interface {
		Starts(e fsm.Effect, p wire.Plan, in *inforce.Setup)
	}
	Trace     func(worker string) string // returns the parent span of a worker's spans
	RunID     string
	Image     string   // the workers' default image; "" for plain processes
	WorkerURL string   // URL at which workers reach the bus
	Secrets   []string // values in the workers' environment that workers must mask
	Log       *zap.Logger
}

// Proxy is the proxy between workers and the network.
type Proxy interface {
	Admit(attempt string)
	Dismiss(attempt string)
	// Secrets returns the attempt's secrets that are valid until it ends.
	Secrets(attempt string) []string
	// Environ extends before with the variables that make an attempt's programs use the proxy.
	Environ(attempt string, before []string, agent bool) []string
}

// attempt is an attempt in preparation.
type attempt struct {
	fsm.Effect
	in        *inforce.Setup // the setup for the whole plan
	issue     wire.IssueRef
	rejected  *wire.Rejection
	contract  *fsm.Contract // nil without a contract
	checkout  workspace.Checkout
	conflicts []string // files in which a merge left conflicts
	tracked   []string
	unchanged bool // the checkout equals its commit, and tracked lists all its files
	spec      container.Spec
	travels   *wire.PlanCheckout // nil for a mounted checkout
	access    bus.Credential
}

// Start starts an attempt, unless an earlier process already did.
func (s *Starter) Start(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	runs, err := s.runsAlready(ctx, e.Worker)
	a := &attempt{Effect: e}
	switch {
	case err == nil && runs: // a running worker owns the checkout
		s.recall(ctx, a)
	case err == nil:
		err = s.begin(ctx, a)
	}
	if err != nil { // the container may be running, so the outcome names the contract
		return fsm.EffectEnded{Failure: failure.Of(err), Contract: a.contract}
	}
	s.Outputs.Begin(e.Task, e.Worker, e.Attempt)
	return fsm.EffectEnded{Contract: a.contract}
}

// runsAlready reports whether an earlier process started the container. If so, it gives the worker access to the bus
// and the proxy again. It removes a container that was created but never ran, because such a container may be
// incomplete.
func (s *Starter) runsAlready(ctx context.Context, worker string) (bool, error) {
	pending := func(c container.State) bool { return c == container.StatePending }
	if lists(ctx, s.Runtime, worker, pending) {
		if _, err := s.Runtime.Stop(ctx, worker, 0, nil); err != nil {
			return false, err
		}
	}
	runs := lists(ctx, s.Runtime, worker, container.State.MayRun)
	if runs {
		s.Bus.Admit(worker)
		s.Proxy.Admit(worker)
	}
	return runs, nil
}

// lists reports whether the runtime lists a worker in a state that satisfies state. It returns false if the runtime
// does not answer.
func lists(ctx context.Context, r container.Runtime, worker string, state func(container.State) bool) bool {
	c, found, err := r.Find(ctx, worker)
	return err == nil && found && state(c.State)
}

// begin prepares and starts an attempt that never ran.
func (s *Starter) begin(ctx context.Context, a *attempt) error {
	e := a.Effect
	a.Start = withShownHints(*e.Start)
	if err := s.receive(ctx, a); err != nil {
		return err
	}
	if err := s.read(ctx, a); err != nil {
		return err
	}
	// read late, because the configuration can be reloaded during receive or read
	a.in = s.Contracts.Setup().For(e.Task.Repo())
	git, done := s.Withdrawals.During(ctx, e.Task)
	defer done()
	if err := s.prepare(git, a); err != nil {
		return err
	}
	if err := s.specify(ctx, a); err != nil {
		return err
	}
	if err := s.authorize(ctx, git, a); err != nil {
		return err
	}
	return s.run(ctx, a, s.plan(a))
}

// receive collects the reports and the checkout sent by the last attempt.
func (s *Starter) receive(ctx context.Context, a *attempt) (err error) {
	if a.rejected, err = s.rejection(ctx, a.Effect); err != nil {
		return err
	}
	if err := s.Travel.Receive(ctx, a.Nonce, !a.Start.Fresh); err != nil {
		return err
	}
	s.Reports.Drop(fsm.AttemptID(a.Nonce, a.Attempt-1))
	s.Reports.Begin(a.Worker)
	return nil
}

// read reads the issue's approved text.
func (s *Starter) read(ctx context.Context, a *attempt) error {
	i, err := s.Texts.Approved(ctx, a.Task)
	a.issue = wire.IssueRef{
		Key: string(a.Task), Number: a.Task.Number(), Title: i.Title, Body: i.Body, Labels: i.Labels, URL: i.URL,
	}
	return err
}

// prepare brings the checkout to the attempt's starting state.
func (s *Starter) prepare(git context.Context, a *attempt) (err error) {
	request := s.Origin.Checkout(a.Task, a.Nonce)
	request.Task, request.Attempt = string(a.Task), a.Attempt
	if a.Start.Fresh {
		if err := s.Workspace.Fresh(git, a.Nonce); err != nil {
			return err
		}
	}
	if a.checkout, err = s.Workspace.Checkout(git, request); err != nil {
		return err
	}
	if a.conflicts, err = s.catchUp(git, a, request); err != nil {
		return err
	}
	if err := s.agree(git, a); err != nil {
		return err
	}
	var all bool
	if a.tracked, all, err = s.Workspace.Tracked(git, a.Nonce); err != nil {
		return err
	}
	a.unchanged = !a.checkout.Reused
	if a.checkout.Reused {
		a.unchanged, err = s.Workspace.Unchanged(git, a.Nonce)
	}
	a.unchanged = a.unchanged && all
	return err
}

// agree applies the repository's contract at the base of the checkout, and then the first route that fits. If the
// contract has problems, a new checkout is discarded, so that the next attempt begins with the newest contract. A
// checkout with earlier work stays, and agree reads the newest contract instead.
func (s *Starter) agree(ctx context.Context, a *attempt) error {
	base, err := s.Workspace.Base(a.Nonce)
	if err != nil {
		return err
	}
	a.in, a.contract, err = s.Contracts.At(ctx, s.Origin.Checkout(a.Task, a.Nonce), base)
	_, broken := errors.AsType[*failure.Contract](err)
	switch {
	case broken && !a.checkout.Reused:
		return errors.Join(err, s.Workspace.Fresh(ctx, a.Nonce))
	case broken:
		a.in, a.contract, err = s.Contracts.At(ctx, s.Origin.Checkout(a.Task, a.Nonce), "")
	}
	if err == nil {
		a.in, a.contract, err = route(a.in, a.contract, traits(a.Effect, a.issue))
	}
	if err != nil {
		return err
	}
	return s.note(ctx, a)
}

// note records the attempt's contract and state paths before the container starts.
func (s *Starter) note(ctx context.Context, a *attempt) (err error) {
	terms := workspace.Agreement{Attempt: a.Attempt, StatePaths: a.in.Agents.StatePaths(a.in.Stages)}
	if a.contract != nil {
		terms.Contract, err = json.Marshal(a.contract)
	}
	if err != nil {
		return err
	}
	return s.Workspace.Agree(ctx, a.Nonce, terms)
}

// recall returns the contract with which a running attempt was started. It never fails, because the outcome of a failed
// start would stop the worker.
func (s *Starter) recall(ctx context.Context, a *attempt) {
	var record json.RawMessage
	state, there, err := s.Bus.Checkouts().State(ctx, a.Nonce)
	if err == nil && there {
		record = state.Record
	}
	terms, err := s.Workspace.Agreed(a.Nonce, record)
	if err == nil && terms != nil && terms.Attempt == a.Attempt && terms.Contract != nil {
		err = json.Unmarshal(terms.Contract, &a.contract)
	}
	if err != nil {
		s.Log.Warn("the contract of a running attempt is unknown", zap.String("worker", a.Worker), zap.Error(err))
	}
}

// specify describes the container.
func (s *Starter) specify(ctx context.Context, a *attempt) (err error) {
	if a.Start.Validate {
		a.spec, err = s.Specs.Clean(ctx, a.in, a.Effect)
	} else {
		a.spec = s.Specs.Of(a.in, a.Effect, a.checkout.Path)
	}
	return err
}

// authorize gives the worker access to the bus, to a travelling checkout, and to the proxy.
func (s *Starter) authorize(ctx, git context.Context, a *attempt) (err error) {
	authorize := s.Bus.Authorize
	if a.Start.Travels {
		authorize, a.spec.Checkout = s.Bus.AuthorizeCheckout, ""
		a.travels, err = s.Travel.Publish(git, a.in, a.Effect)
	} else {
		err = s.Travel.Mounted(ctx, a.Nonce)
	}
	if err != nil {
		return err
	}
	a.access, err = authorize(ctx, a.Worker)
	a.spec.Env = s.Proxy.Environ(a.Worker, a.spec.Env, !a.Start.Validate)
	return err
}

// plan returns the worker's instructions.
func (s *Starter) plan(a *attempt) wire.Plan {
	c := a.in
	file := attemptFile(a.Effect, a.issue, c.AlternativeModel(), a.conflicts)
	return wire.Plan{
		WorkerID: a.Worker, AttemptID: a.Worker, RunID: s.RunID, Issue: a.issue, Attempt: a.Attempt,
		Branch: BranchOf(a.Effect), BaseBranch: c.GitHub.BaseBranch, BaseSHA: a.checkout.BaseSHA, ImageTag: s.image(c),
		Bus: wire.PlanBus{
			URL: s.WorkerURL, JWT: a.access.JWT, Seed: a.access.Seed, CA: a.access.CA,
			Prefix: c.AgentBus.Prefix, MaxMessageBytes: c.AgentBus.MaxMessageBytes,
		},
		SignKey: a.access.Key, Checkout: a.travels,
		Workdir: s.Runtime.Workdir(a.spec), Stages: c.StagesOf(a.Start), Rejected: a.rejected,
		ValidateOnly: a.Start.Validate,
		FixAttempts:  c.Worker.FixAttempts, PaidCallsLeft: a.Start.PaidCallsLeft,
		HeartbeatIntervalSeconds: c.AgentBus.HeartbeatInterval.Seconds(),
		StopGraceSeconds:         c.Timeouts.StopGrace.Seconds(),
		WatchdogSeconds:          watchdogOf(a.Effect, c).Seconds(),
		Secrets:                  slices.Concat(s.Secrets, s.Proxy.Secrets(a.Worker)),
		StatePaths:               c.Agents.StatePaths(c.Stages), Tracked: a.tracked,
		Unchanged:  a.unchanged && !a.Start.Validate,
		MarkStages: true,
		Runtime:    c.Containers.Runtime, Defaults: c.DefaultLimits(),
		TraceParent:   s.Trace(a.Worker),
		ValidateFirst: a.Start.Action == recovery.Revalidate && !a.Start.Validate,
		AttemptFile:   file, Prompt: ownPrompt(c, a.Effect, file),
		Budget: &wire.PlanBudget{
			MaxConcurrent:   c.RateLimits.Model.MaxConcurrentRequests,
			SpacingSeconds:  c.RateLimits.Model.MinBetweenRequests.Seconds(),
			CooldownSeconds: c.RateLimits.Model.CooldownOnError.Seconds(),
		},
	}
}

// ownPrompt renders the repository's own prompt, or returns "".
func ownPrompt(in *inforce.Setup, e fsm.Effect, file *wire.AttemptFile) string {
	if in.Prompt == "" || e.Start.Validate {
		return ""
	}
	own, faults := prompts.ParseTemplate(in.Prompt)
	if len(faults) > 0 { // Contracts.At has checked it
		return ""
	}
	return agent.Prompt(agent.Task{
		Stage: wire.StageCode, Round: 1, Attempt: *file, Template: own,
		Branch: BranchOf(e), BaseBranch: in.GitHub.BaseBranch, Checks: in.Checks(),
	}, agent.OwnShare(config.PromptBytes(in.Config)))
}

// image returns the image of an attempt, as shown to people. Plain processes do not use an image.
func (s *Starter) image(in *inforce.Setup) string {
	if s.Image == "" {
		return ""
	}
	return in.Containers.Image
}

// run creates the container with its plan.
func (s *Starter) run(ctx context.Context, a *attempt, plan wire.Plan) (err error) {
	if a.spec.Stdin, err = json.Marshal(plan); err != nil {
		return err
	}
	s.Record.Starts(a.Effect, plan, a.in)
	s.Proxy.Admit(a.Worker)
	return s.Runtime.Ensure(ctx, a.spec)
}

// rejection returns the failure of the last clean validation, for the agent that must fix the work. It returns nil if
// no validation has failed since the work last passed, or if the report is gone.
func (s *Starter) rejection(ctx context.Context, e fsm.Effect) (*wire.Rejection, error) {
	if e.Start.Validate || e.Start.Fresh || !s.Contracts.Setup().ValidatesFresh() {
		return nil, nil
	}
	last := e.Attempt
	for _, f := range slices.Backward(e.Start.Failures) {
		if f.Attempt < last-1 { // an attempt in between succeeded
			return nil, nil
		}
		if last = f.Attempt; f.Stage == wire.StageValidate {
			stored, err := s.Reports.Of(ctx, fsm.AttemptID(e.Nonce, f.Attempt))
			return rejectionIn(stored), err
		}
	}
	return nil, nil
}

// rejectionIn returns the last failed validation among the reports, or nil.
func rejectionIn(stored []bus.Report) *wire.Rejection {
	for _, r := range slices.Backward(stored) {
		if b, ok := r.Body.(*wire.WorkerError); ok && b.IsFinal() && b.Stage == wire.StageValidate {
			out := &wire.Rejection{
				Stage: b.Stage, Message: b.Message, StdoutTail: b.LastStdoutTail, StderrTail: b.LastStderrTail,
			}
			if b.ExitCode != nil {
				out.ExitCode = *b.ExitCode
			}
			return out
		}
	}
	return nil
}
