package director

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/director/effects"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/shown"
	"retake/internal/recovery"
)

func (s *session) claim(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	r, err := s.github.Claim(ctx, github.ClaimRequest{
		Key: string(e.Task), Nonce: e.Nonce, RunID: s.runID, Unblock: e.Attempt > 0, Answers: e.Answers,
	})
	if why, gone := failure.IssueGone(err); gone {
		return fsm.EffectEnded{Claim: &fsm.ClaimResult{Why: why}}
	}
	if errors.Is(err, github.ErrWritesDisabled) {
		s.refusals.Note(string(e.Task))
		return fsm.EffectEnded{Claim: &fsm.ClaimResult{Why: "github.writes = false: it would be claimed now"}}
	}
	if err != nil {
		out := failure.Ended(err)
		if !out.Failure.Transient { // waiting does not fix it
			s.refusals.Note(string(e.Task))
		}
		return out
	}
	end := &fsm.ClaimResult{Ours: r.Outcome == github.Won, Why: r.Why}
	if r.Outcome == github.Lost {
		end.Why = fmt.Sprintf("another director holds it (fleet %s, %s)", r.Winner.Fleet, r.Winner.Login)
	}
	if !end.Ours && r.Offered {
		s.refusals.Note(string(e.Task))
	}
	return fsm.EffectEnded{Claim: end}
}

// recheck reads the issue again. We lose the claim if the issue is closed or has lost the claimed label.
func (s *session) recheck(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	i, err := s.github.Issue(ctx, string(e.Task))
	if why, gone := failure.IssueGone(err); gone {
		return fsm.EffectEnded{Claim: &fsm.ClaimResult{Why: why}}
	}
	if err != nil {
		return failure.Ended(err)
	}
	end := &fsm.ClaimResult{Ours: true}
	switch labels := s.config.GitHub.Labels; {
	case i.State != "open":
		end = &fsm.ClaimResult{Why: "the issue was closed"}
	case !i.Has(labels.Claimed):
		end = &fsm.ClaimResult{Why: "the label " + labels.Claimed + " was removed"}
	}
	return fsm.EffectEnded{Claim: end}
}

// start creates the attempt: the checkout as the last attempt left it, a separate bus credential, and a container.
func (s *session) start(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	// an earlier process created it, perhaps partially, and nothing in it has run: create it again
	if s.lists(ctx, e.Worker, isPending) {
		if _, err := s.runtime.Stop(ctx, e.Worker, 0, nil); err != nil {
			return failure.Ended(err)
		}
	}
	// an earlier process started it: a checkout must not be touched while a worker uses it
	if s.lists(ctx, e.Worker, container.State.MayRun) {
		s.bus.Admit(e.Worker)
		s.outside.admit(e.Worker)
		s.outputs.Begin(s.recording(e.Task, e.Worker, e.Attempt))
		return fsm.EffectEnded{}
	}
	rejected, err := s.rejection(ctx, e)
	if err == nil {
		err = s.travel.Receive(ctx, e.Nonce, !e.Start.Fresh)
	}
	if err != nil {
		return failure.Ended(err)
	}
	s.reports.Drop(fsm.AttemptID(e.Nonce, e.Attempt-1))
	s.reports.Begin(e.Worker)
	issue, err := s.approvedIssue(ctx, e)
	if err != nil {
		return failure.Ended(err)
	}
	e.Start = withShownHints(*e.Start)
	git, done := s.withdrawals.During(ctx, e.Task)
	defer done()
	c := s.setup() // the whole plan must come from one configuration
	request := s.origin.Checkout(e.Task, e.Nonce)
	request.Task, request.Attempt = string(e.Task), e.Attempt
	if e.Start.Fresh {
		if err := s.workspace.Fresh(git, e.Nonce); err != nil {
			return failure.Ended(err)
		}
	}
	checkout, err := s.workspace.Checkout(git, request)
	var conflicts []string
	if err == nil {
		conflicts, err = s.catchUp(git, c, e, request)
	}
	var tracked []string
	var all bool
	if err == nil {
		tracked, all, err = s.workspace.Tracked(git, e.Nonce)
	}
	unchanged := !checkout.Reused
	if err == nil && !unchanged {
		unchanged, err = s.workspace.Unchanged(git, e.Nonce)
	}
	if err != nil {
		return failure.Ended(err)
	}
	ref := wire.IssueRef{
		Key: string(e.Task), Number: e.Task.Number(), Title: issue.Title, Body: issue.Body, Labels: issue.Labels,
		URL: issue.URL,
	}
	spec := s.spec(c, e, checkout.Path)
	if e.Start.Validate {
		if spec, err = s.cleanSpec(ctx, c, e); err != nil {
			return failure.Ended(err)
		}
	}
	authorize, travels := s.bus.Authorize, (*wire.PlanCheckout)(nil)
	if e.Start.Travels {
		authorize, spec.Checkout = s.bus.AuthorizeCheckout, ""
		if travels, err = s.travel.Publish(git, c, e); err != nil {
			return failure.Ended(err)
		}
	} else if err := s.travel.Mounted(ctx, e.Nonce); err != nil {
		return failure.Ended(err)
	}
	credential, err := authorize(ctx, e.Worker)
	if err != nil {
		return failure.Ended(err)
	}
	spec.Env = s.outside.environ(e.Worker, spec.Env, !e.Start.Validate)
	plan := wire.Plan{
		WorkerID: e.Worker, AttemptID: e.Worker, RunID: s.runID, Issue: ref, Attempt: e.Attempt,
		Branch: effects.BranchOf(e), BaseBranch: c.GitHub.BaseBranch, BaseSHA: checkout.BaseSHA, ImageTag: s.image(),
		Bus: wire.PlanBus{
			URL: s.bus.WorkerURL(s.gateway), JWT: credential.JWT, Seed: credential.Seed, CA: credential.CA,
			Prefix: c.AgentBus.Prefix, MaxMessageBytes: c.AgentBus.MaxMessageBytes,
		},
		SignKey: credential.Key, Checkout: travels,
		Workdir: s.runtime.Workdir(spec), Stages: c.StagesOf(e.Start), Rejected: rejected,
		ValidateOnly: e.Start.Validate,
		FixAttempts:  c.Worker.FixAttempts, PaidCallsLeft: e.Start.PaidCallsLeft,
		HeartbeatIntervalSeconds: c.AgentBus.HeartbeatInterval.Seconds(),
		StopGraceSeconds:         c.Timeouts.StopGrace.Seconds(),
		WatchdogSeconds:          watchdogOf(e, c).Seconds(),
		Secrets:                  slices.Concat(s.secrets, s.outside.secrets(e.Worker)),
		StatePaths:               c.Agents.StatePaths(c.Stages), Tracked: tracked, Unchanged: unchanged && all &&
			!e.Start.Validate,
		MarkStages:    true,
		TraceParent:   s.telemetry.Parent(e.Worker),
		ValidateFirst: e.Start.Action == recovery.Revalidate && !e.Start.Validate,
		AttemptFile:   attemptFile(e, ref, c.AlternativeModel(), conflicts),
		Budget: &wire.PlanBudget{
			MaxConcurrent:   c.RateLimits.Model.MaxConcurrentRequests,
			SpacingSeconds:  c.RateLimits.Model.MinBetweenRequests.Seconds(),
			CooldownSeconds: c.RateLimits.Model.CooldownOnError.Seconds(),
		},
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return failure.Ended(err)
	}
	spec.Stdin = data
	s.recorder.Starts(e, plan, c)
	s.outside.admit(e.Worker)
	if err := s.runtime.Ensure(ctx, spec); err != nil {
		return failure.Ended(err)
	}
	s.outputs.Begin(s.recording(e.Task, e.Worker, e.Attempt))
	return fsm.EffectEnded{}
}

// sayEdited reports once, in the log and on the issue, that the issue was edited after its approval.
func (s *session) sayEdited(ctx context.Context, key string, a github.Approval) {
	if _, told := s.edited.LoadOrStore(key+" "+a.At.String(), true); told {
		return
	}
	s.log.Warn("the issue was edited after it was approved, by people without write access: agents get it without "+
		"that, until the label is put on anew",
		zap.String("issue", key), zap.Strings("by", a.Without), zap.String("approved_by", a.By),
		zap.Time("approved_at", a.At))
	if err := s.github.SayEdited(ctx, key, a); err != nil {
		s.log.Warn("the issue does not say that it was edited", zap.String("issue", key), zap.Error(err))
	}
}

// approvedIssue returns the issue with the text that a person with write access has approved.
func (s *session) approvedIssue(ctx context.Context, e fsm.Effect) (github.Issue, error) {
	issue, err := s.github.Issue(ctx, string(e.Task))
	if err != nil {
		return issue, err
	}
	a, err := s.github.Approved(ctx, issue)
	if err != nil {
		return issue, err
	}
	if len(a.Without) > 0 {
		s.sayEdited(ctx, issue.Key, a)
	}
	var hidden int
	if issue.Title, issue.Body, hidden = shownText(a.Title, a.Body); hidden > 0 {
		s.log.Info("what GitHub does not show of the issue is kept from agents", zap.String("issue", issue.Key),
			zap.Int("passages", hidden))
	}
	return issue, nil
}

// shownText returns an issue's text as people see it on GitHub. If passages were left out, a note at the end says
// this to agents and people.
func shownText(title, body string) (string, string, int) {
	title, n := shown.Markdown(title)
	body, more := shown.Markdown(body)
	if n += more; n > 0 {
		body = strings.TrimRight(body, "\n") + "\n\n" + leftOut(n)
	}
	return title, strings.TrimLeft(body, "\n"), n
}

func leftOut(passages int) string {
	if passages == 1 {
		return "(Retake: 1 hidden passage was left out, which GitHub does not show.)"
	}
	return fmt.Sprintf("(Retake: %d hidden passages were left out, which GitHub does not show.)", passages)
}

// withShownHints returns the order with hints as people see them on GitHub.
func withShownHints(order fsm.StartOrder) *fsm.StartOrder {
	order.Hints = slices.Clone(order.Hints)
	for i, h := range order.Hints {
		text, n := shown.Markdown(h.Text)
		if n > 0 {
			text = strings.TrimRight(text, "\n") + "\n" + leftOut(n)
		}
		order.Hints[i].Text = text
	}
	return &order
}

// watchdogOf returns the attempt's maximum life, as decided when it began. Old journals do not record that time.
func watchdogOf(e fsm.Effect, c *inforce.Setup) time.Duration {
	if life := e.Start.WatchdogAt.Sub(e.At); !e.At.IsZero() && life > 0 {
		return life
	}
	return c.Timeouts.WorkerWatchdog
}

func (s *session) spec(in *inforce.Setup, e fsm.Effect, checkout string) container.Spec {
	c := in.Containers
	spec := container.Spec{
		AttemptID: e.Worker, Task: string(e.Task), Image: c.Image, Workdir: c.Workdir, Checkout: checkout,
		Entrypoint: []string{container.WorkerPath, "--plan", "-"}, WorkerBinary: s.workerBinary,
		Memory: c.MemoryBytes(), CPUs: c.CPUs, Pids: int64(c.PIDs), User: c.User, Env: s.environ,
		ReadOnly: c.ReadOnly, Scratch: slices.Clone(c.Scratch), Life: watchdogOf(e, in) + workerLifeAfter,
	}
	if c.Runtime == "process" { // a plain process uses the machine's directories
		spec.Scratch = nil
	}
	for _, m := range c.ParsedMounts() {
		spec.Mounts = append(spec.Mounts, container.Mount(m))
	}
	return spec
}

// stop ends the attempt's container. It returns once the container is confirmed gone or the attempt is fenced, and
// all reports of its worker are read. If no report ends the attempt, the director stores one in the same form and
// by the same path.
func (s *session) stop(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if reason, ok := stopReasons[e.Stop.Reason]; ok && e.Stop.Grace > 0 {
		s.control.Send(ctx, e.Worker, wire.Stop{Reason: reason, GraceSeconds: (e.Stop.Grace / 2).Seconds()})
		s.waitEnded(ctx, e.Worker, e.Stop.Grace/2)
	}
	exit, err := s.runtime.Stop(ctx, e.Worker, e.Stop.Grace, func(x container.Exit) error {
		err := s.travel.TakeBack(ctx, e) // it holds what the worker could not report
		if err == nil {
			// before the container is removed, so that a crash in between cannot change the verdict
			_, err = s.ending.Reports(ctx, e, unmarked(x))
		}
		if err == nil {
			s.finishOutput(ctx, e)
		}
		return err
	})
	fenced := s.fences(e.Stop, err)
	if fenced {
		exit, err = failure.Unconfirmed(err), s.credentials.ShutOut(ctx, e.Worker)
	}
	if err != nil {
		return failure.Ended(err)
	}
	exit = unmarked(exit)
	if !fenced {
		s.credentials.Revoke(ctx, e.Worker)
	}
	s.outside.dismiss(e.Worker)
	s.broker.Drop(e.Worker)
	if err := s.travel.TakeBack(ctx, e); err != nil {
		return failure.Ended(err)
	}
	stored, err := s.ending.Reports(ctx, e, exit)
	if err != nil {
		return failure.Ended(err)
	}
	if err := s.workspace.DropValidation(ctx, e.Nonce); err != nil {
		s.log.Warn("the copy that was validated is left", zap.String("worker", e.Worker), zap.Error(err))
	}
	s.recorder.Ended(e, exit, stored, s.maskedPatch(ctx, e), s.lastOutput(ctx, e, fenced))
	gone := &fsm.StopResult{
		Fenced: fenced, Cause: fsm.EndCause(exit.Cause), Words: s.github.Redact(exit.Words),
		OOM: exit.OOM, Signal: exit.Signal, Killed: exit.Killed, Limit: s.setup().Containers.Memory,
	}
	if !reports.WorkerEnded(stored) {
		gone.Lost = s.travel.LostWork(ctx, e.Worker)
	}
	if exit.Known {
		gone.ExitCode = &exit.ExitCode
	}
	for _, r := range stored {
		gone.Reports = append(gone.Reports, s.reader.Read(ctx, r))
	}
	return fsm.EffectEnded{Stop: gone}
}

// stopReasons maps the machine's reasons to those sent to a worker. For any other reason the worker is not asked to
// stop, because it has reported, is silent, or is gone.
var stopReasons = map[fsm.StopReason]string{
	fsm.StopWithdrawn: wire.StopWithdrawn,
	fsm.StopWatchdog:  wire.StopWatchdog,
}

// waitEnded lets a worker that was asked to stop end voluntarily, because it knows the state of its work best.
func (s *session) waitEnded(ctx context.Context, worker string, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ctx.Err() == nil && s.lists(ctx, worker, container.State.Live) {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func isPending(s container.State) bool { return s == container.StatePending }

// lists reports whether the runtime has a worker in such a state. It returns false if the runtime does not answer.
func (s *session) lists(ctx context.Context, worker string, state func(container.State) bool) bool {
	c, found, err := s.runtime.Find(ctx, worker)
	return err == nil && found && state(c.State)
}

// warmed returns an executor that warms up the runtime while the first effect of an attempt runs. It returns after
// both have ended.
func (s *session) warmed(run loop.Executor) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		var beside sync.WaitGroup
		defer beside.Wait()
		beside.Go(func() { s.runtime.Warm(ctx) })
		return run(ctx, e)
	}
}
