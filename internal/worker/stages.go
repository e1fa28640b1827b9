package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
	"retake/internal/secrets/redact"

	"go.uber.org/zap"
)

// recheckAfter is the delay before the only retry for a missing program. The program's volume may be mounted late.
const recheckAfter = time.Second

// runner runs one command to completion.
type runner interface {
	run(ctx context.Context, c command) exit
}

// stopCause is the cancellation cause of the stages.
type stopCause struct {
	reason string
	grace  time.Duration // time between SIGTERM and SIGKILL, bounded by the plan
}

func (s *stopCause) Error() string { return "worker: stopped: " + s.reason }

// step is a progress update from the stages.
type step struct {
	stage  string
	text   string
	paused bool // set while the stages wait and the watchdog is paused
	quiet  bool // set to omit the log line and the extra heartbeat

	errorID string // error ID of the preceding failure, or empty
}

// attempt runs the plan's stages once, with fix rounds between CODE and VALIDATE. It is not safe for concurrent use.
type attempt struct {
	plan        *wire.Plan
	run         runner
	pauses      *pauseSwitch
	leases      *leaseClient // nil to start agents without leases
	leaseSocket *leaseSocket // socket of the running stage
	env         environment
	folder      *stateDir
	mask        *redact.Redactor
	log         *zap.Logger
	notify      func(step)
	onUsage     func(agent.Usage)           // receives the usage of the attempt so far
	stageEnded  func()                      // called after each stage
	mark        func(stage string, run int) // marks the beginning of a stage in the output

	offersLeases bool // set if the stages' programs may request leases over a socket

	results  []wire.StageResult
	runs     map[string]int // number of runs by stage
	home     string         // home directory created for the stages, or empty
	used     agent.Usage    // usage of ended invocations
	rejected string         // why validation refused the last round, for the next prompt
	answer   string         // the agent's last message in CODE, not yet redacted
	base     fingerprint    // fingerprint of a work tree that has nothing to deliver, or nil
}

// runStages runs the stages in order and returns nil if all succeeded. If VALIDATE rejects the change, runStages
// repeats the nearest preceding CODE, unless CODE has used up its runs. With validate_first, it skips CODE until
// VALIDATE has rejected the work.
func (a *attempt) runStages(ctx context.Context) *failure {
	defer func() { _ = os.RemoveAll(a.home) }() // may be empty
	if err := a.prepare(); err != nil {
		return &failure{kind: failedStart, stage: wire.StageContextLoad, number: 1, err: err}
	}
	asItStands := a.plan.ValidateFirst
	if asItStands && !slices.ContainsFunc(a.plan.Stages,
		func(s wire.StagePlan) bool { return s.Name == wire.StageValidate }) {
		return nil // no validation follows
	}
	for i := 0; i < len(a.plan.Stages); i++ {
		if asItStands && a.plan.Stages[i].Name == wire.StageCode {
			continue
		}
		f := a.stage(ctx, a.plan.Stages[i])
		a.stageEnded()
		if f == nil {
			continue
		}
		code := a.fixStage(i, f)
		if code < 0 {
			return f
		}
		a.notify(step{
			stage: wire.StageValidate, errorID: f.id(a.plan),
			text: fmt.Sprintf("%s; fix round %d of %d", a.summary(f), a.runs[wire.StageCode]+1, a.plan.FixAttempts),
		})
		a.rejected = a.rejection(f)
		if err := a.writeLastFailure(f); err != nil {
			a.log.Warn("could not write the cause of the failed validation for the agent", zap.Error(err))
		}
		i, asItStands = code-1, false
	}
	return nil
}

// prepare writes the files for the agent and removes files left in the checkout by an earlier attempt.
func (a *attempt) prepare() error {
	if err := a.folder.make(); err != nil { // create the directory for the agent's question
		return err
	}
	if err := a.folder.remove(promptFile, failureJSON, failureText); err != nil {
		return err
	}
	if a.plan.AttemptFile != nil {
		if err := a.folder.writeJSON(attemptFile, 0o644, a.plan.AttemptFile); err != nil {
			return err
		}
	}
	if err := a.takeRejection(); err != nil {
		a.log.Warn("could not write the cause of the failed validation for the agent", zap.Error(err))
	}
	home, err := writableHome(a.env["HOME"], os.TempDir(), filepath.Join(a.plan.Workdir, folderName))
	if err != nil {
		return err
	}
	if home != a.env["HOME"] {
		a.env["HOME"], a.home = home, home
	}
	if a.plan.Unchanged {
		a.base = a.fingerprint()
	}
	return nil
}

// fixStage returns the index of the CODE stage to repeat after stage i failed with f, or -1.
func (a *attempt) fixStage(i int, f *failure) int {
	if f.stage != wire.StageValidate || f.kind != failedExit || !f.exit.failedByItself() ||
		a.runs[wire.StageCode] >= a.plan.FixAttempts {
		return -1
	}
	for i--; i >= 0; i-- {
		if s := a.plan.Stages[i]; s.Name == wire.StageCode && a.mayRun(s) {
			return i
		}
	}
	return -1
}

// stage runs one stage. It returns nil on success.
func (a *attempt) stage(ctx context.Context, s wire.StagePlan) *failure {
	a.runs[s.Name]++
	f := &failure{
		stage: s.Name, number: a.runs[s.Name], command: s.Run, plan: &s, timeout: duration(s.TimeoutSeconds, 0),
	}
	a.pauses.wait(ctx, func() { a.notify(step{stage: s.Name, text: wire.StepPaused, paused: true}) })
	if ctx.Err() != nil {
		f.kind = failedStopped
		return f
	}
	if !a.mayRun(s) {
		f.kind = failedNoCalls
		return f
	}
	if s.Name == wire.StageCode {
		if err := a.folder.remove(questionFile); err != nil { // an old question must not end this run
			a.log.Warn("could not remove old question", zap.Error(err))
		}
		if f.err = a.writePrompt(s); f.err != nil { // a run without a prompt would waste money
			f.kind = failedStart
			return f
		}
	}
	a.mark(s.Name, a.runs[s.Name])
	a.notify(step{stage: s.Name, text: "running " + filepath.Base(s.Run[0])})
	logs := a.logsOf(s)
	f.exit = a.execute(ctx, s, f)
	if f.exit.err == nil && f.closedModel == "" {
		a.results = append(a.results, a.result(s, f.exit))
	}
	failed := a.assess(f)
	if failed != nil {
		failed.log = logs.written()
	}
	return failed
}

// Limits on a command in a report. They leave enough for a person to recognize the command.
const (
	maxCommandArgs  = 32
	maxCommandBytes = 512
)

// result describes a run for the report. The command is the configured one, without an agent's prompt.
func (a *attempt) result(s wire.StagePlan, e exit) wire.StageResult {
	r := wire.StageResult{
		Stage: s.Name, ExitCode: e.code, DurationMS: e.took.Milliseconds(),
		StartedAt: wire.At(time.Now().Add(-e.took)),
	}
	r.Command = a.configured(s)
	return r
}

// configured returns the configured command of a stage, masked and cut.
func (a *attempt) configured(s wire.StagePlan) (command []string) {
	room := maxCommandBytes
	for i, arg := range s.Run {
		arg = strings.ToValidUTF8(a.mask.Text(arg), "?")
		if i == maxCommandArgs || len(arg) > room {
			return append(command, "…")
		}
		command, room = append(command, arg), room-len(arg)
	}
	return command
}

// execute runs the stage's program or agent.
func (a *attempt) execute(ctx context.Context, s wire.StagePlan, f *failure) exit {
	a.leaseSocket = a.openLeaseSocket(s)
	defer a.leaseSocket.close(context.WithoutCancel(ctx))
	if s.Agent != nil {
		return a.runAgent(ctx, s, f)
	}
	e := a.start(ctx, a.command(s, f))
	a.leaseSocket.close(context.WithoutCancel(ctx)) // no more leases
	f.unlent = a.leaseSocket.hasRefused()
	if e.err == nil { // the program ran, so its run counts
		a.used = a.used.Plus(usageOf(s, agent.Usage{}, a.leaseSocket.hasLent()))
	}
	if e.ok() && a.work(s.Name, nil) == agent.NoWork {
		f.noSuccess = agent.ChangedNothing
		if e.stdout.blank() && e.stderr.blank() {
			f.noSuccess += ", and " + agent.Silent
		}
	}
	if s.Name == wire.StageCode && e.ok() && f.noSuccess == "" {
		f.noSuccess = stoppedAtLimit(e.lastWords()...)
	}
	return e
}

// pays reports whether a run of the stage is a paid call. lent means that one of its programs got a model lease.
func pays(s wire.StagePlan, lent bool) bool {
	switch s.Paid {
	case wire.PaidAlways:
		return true
	case wire.PaidNever:
		return false
	}
	return s.Agent != nil || s.Resource != "" || lent
}

// usageOf returns u with PaidCalls set for a run of the stage: at least 1 if the run is paid, otherwise 0.
func usageOf(s wire.StagePlan, u agent.Usage, lent bool) agent.Usage {
	if !pays(s, lent) {
		u.PaidCalls = 0
		return u
	}
	u.PaidCalls = max(u.PaidCalls, 1)
	return u
}

// mayRun reports whether the task's limit of paid calls allows a run of the stage.
func (a *attempt) mayRun(s wire.StagePlan) bool { return !pays(s, false) || a.mayPay() }

// mayPay reports whether the task may make another paid call.
func (a *attempt) mayPay() bool {
	return a.plan.PaidCallsLeft == nil || a.used.PaidCalls < *a.plan.PaidCallsLeft
}

func (a *attempt) command(s wire.StagePlan, f *failure) command {
	env := make(environment, len(a.env)+len(s.Env)+7)
	// The checkout has no git repository, so keep an agent's git from using one in a parent directory.
	env["GIT_CEILING_DIRECTORIES"] = filepath.Dir(a.plan.Workdir)
	maps.Copy(env, a.env)
	maps.Copy(env, s.Env)
	env["RETAKE_ATTEMPT"] = strconv.Itoa(a.plan.Attempt)
	env["RETAKE_ATTEMPT_ID"] = a.plan.AttemptID
	env["RETAKE_ISSUE"] = a.plan.Issue.Key
	env["RETAKE_STAGE"] = s.Name
	env["RETAKE_FIX_ROUND"] = strconv.Itoa(max(1, a.runs[wire.StageCode]))
	env["RETAKE_ACTION"] = ""
	env[envSocket] = a.leaseSocket.socket()
	env[envWorker], _ = os.Executable() // lets stages call its budget command
	env["RETAKE_MODEL"] = agent.Model(s, a.plan.AttemptFile)
	env[envResource] = agent.Resource(s, env["RETAKE_MODEL"])
	if file := a.plan.AttemptFile; file != nil {
		env["RETAKE_ACTION"] = file.Action
	}
	if attempt, ok := wire.ParseTraceParent(a.plan.TraceParent); ok {
		env[wire.TraceEnv] = attempt.ForStage(s.Name, f.number).String()
	}
	return command{
		argv: s.Run, stage: s.Name, dir: a.plan.Workdir, env: env.list(), path: env["PATH"], timeout: f.timeout,
		grace:   duration(a.plan.StopGraceSeconds, defaultGrace),
		started: func() { a.onUsage(a.used.Plus(usageOf(s, agent.Usage{}, false))) }, // before its first model call
	}
}

// assess determines the kind of failure from how the program ended. It returns nil on success.
func (a *attempt) assess(f *failure) *failure {
	if f.exit.stopped {
		f.kind = failedStopped
		return f
	}
	if f.stage == wire.StageCode && f.exit.err == nil {
		question, err := a.folder.read(questionFile, maxQuestionBytes+1)
		if err != nil {
			a.log.Warn("could not read the agent's question", zap.Error(err))
		}
		if f.question = strings.TrimSpace(string(question)); f.question != "" {
			f.kind = failedQuestion
			return f
		}
	}
	switch {
	case f.closedModel != "":
		f.kind = failedClosedModel
	case errors.Is(f.exit.err, errNoProgram):
		f.kind, f.err = failedNoProgram, f.exit.err
	case f.exit.err != nil:
		f.kind, f.err = failedStart, f.exit.err
	case f.exit.timedOut:
		f.kind = failedTimeout
	case f.exit.outOfMemory(f.stage):
		f.kind = failedMemory
	case !f.exit.ok() && f.unlent:
		f.kind = failedNoCalls
	case !f.exit.ok():
		f.kind = failedExit
	case f.noSuccess != "":
		f.kind = failedNoSuccess
	default:
		return nil
	}
	return f
}
