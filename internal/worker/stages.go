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

// recheckAfter is how long a missing program is given to appear (a volume that is being mounted): one re-check,
// after a second, as the founding harness's rules allow.
const recheckAfter = time.Second

// runner runs one command to its very end.
type runner interface {
	run(ctx context.Context, c command) exit
}

// kind is in what way an attempt failed.
type kind int

const (
	failedExit        kind = iota // a stage's program returned a code other than 0, or a signal ended it
	failedTimeout                 // a stage's timeout ended it
	failedNoProgram               // a stage's program is not there
	failedQuestion                // the agent asks a question
	failedStart                   // a stage could not be started for another reason
	failedMemory                  // the kernel killed its program for want of memory
	failedStopped                 // told to stop, or out of time as a whole
	failedPanic                   // a fault of the worker
	failedNoSuccess               // a program returned 0, and it is no success
	failedClosedModel             // the agent's model is in a cooldown that is too long to wait for here
	failedNoCalls                 // the task has no paid calls left
	failedCheckpoint              // the work could not be handed over
)

// failure is why an attempt failed.
type failure struct {
	kind        kind
	stage       string
	number      int // which run of that stage it was: 1, 2, …
	command     []string
	exit        exit
	err         error  // missing, unable, panicked
	question    string // asked
	timeout     time.Duration
	noSuccess   string        // why an exit code of 0 is no success; empty: it is one, or the code is another
	agent       *agentRun     // what an agent said; nil: the stage is none
	closedModel string        // the resource that is
	wait        time.Duration // closed: for how long
	log         string        // the end of what it wrote to its log file, not yet redacted
}

// id is the failure's error_id, unique within the attempt.
func (f *failure) id(p *wire.Plan) string {
	return fmt.Sprintf("%s/%s-%d", p.AttemptID, f.stage, f.number)
}

// stopCause is the cancellation cause of the stages.
type stopCause struct {
	reason string
	grace  time.Duration // SIGTERM → SIGKILL, at most the plan's
}

func (s *stopCause) Error() string { return "worker: stopped: " + s.reason }

// step is what the stages notify while they run.
type step struct {
	stage  string
	text   string
	paused bool // nothing runs, and the watchdog's time stands still
	quiet  bool // one of many: not worth a line in the log

	errorID string // of the failure that led here; empty: none
}

// attempt runs the plan's stages once, with the fix rounds between CODE and VALIDATE. It belongs to one goroutine.
type attempt struct {
	plan        *wire.Plan
	run         runner
	pauses      *pauseSwitch
	leases      *leaseClient // nil: agents start without leases
	leaseSocket *leaseSocket // of the stage that runs
	env         environment
	folder      *folder
	mask        *redact.Redactor
	log         *zap.Logger
	notify      func(step)
	onUsage     func(agent.Usage)           // what the attempt has used so far
	stageEnded  func()                      // one of them, well or not
	mark        func(stage string, run int) // in the output, that a stage begins

	offersLeases bool // to the programs of stages, at a socket

	results  []wire.StageResult
	runs     map[string]int // stage → how often it ran
	home     string         // made for the stages; empty: they have one
	used     agent.Usage    // by the invocations that have ended
	rejected string         // why validation refused the last round, for the next prompt
	answer   string         // the last words of the agent that did the work, not yet redacted
	base     fingerprint    // of a work tree with nothing to deliver; nil: not known
}

// runStages runs the stages in order and returns nil if all ended well. A VALIDATE that judges against the
// change leads back to the nearest CODE before it, as long as CODE runs are left. Work that is only to be
// validated skips CODE until then.
func (a *attempt) runStages(ctx context.Context) *failure {
	defer func() { _ = os.RemoveAll(a.home) }() // empty: none was made
	if err := a.prepare(); err != nil {
		return &failure{kind: failedStart, stage: wire.StageContextLoad, number: 1, err: err}
	}
	asItStands := a.plan.ValidateFirst
	if asItStands && !slices.ContainsFunc(a.plan.Stages,
		func(s wire.StagePlan) bool { return s.Name == wire.StageValidate }) {
		return nil // nobody judges it
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
			a.log.Warn("the agent cannot see why validation failed", zap.Error(err))
		}
		i, asItStands = code-1, false
	}
	return nil
}

// prepare writes what the agent may know, and removes what an earlier attempt on the same checkout left.
func (a *attempt) prepare() error {
	if err := a.folder.make(); err != nil { // also for the agent, which may put its question there
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
		a.log.Warn("the agent cannot see why validation failed", zap.Error(err))
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

// fixStage returns the index of the CODE stage to run again after stage i failed with f; -1: none.
func (a *attempt) fixStage(i int, f *failure) int {
	if f.stage != wire.StageValidate || f.kind != failedExit || !f.exit.failedByItself() ||
		a.runs[wire.StageCode] >= a.plan.FixAttempts || !a.mayPay() {
		return -1
	}
	for i--; i >= 0; i-- {
		if a.plan.Stages[i].Name == wire.StageCode {
			return i
		}
	}
	return -1
}

// stage runs one stage. nil: it ended well.
func (a *attempt) stage(ctx context.Context, s wire.StagePlan) *failure {
	a.runs[s.Name]++
	f := &failure{stage: s.Name, number: a.runs[s.Name], command: s.Run, timeout: duration(s.TimeoutSeconds, 0)}
	a.pauses.wait(ctx, func() { a.notify(step{stage: s.Name, text: wire.StepPaused, paused: true}) })
	if ctx.Err() != nil {
		f.kind = failedStopped
		return f
	}
	if pays(s) && !a.mayPay() {
		f.kind = failedNoCalls
		return f
	}
	if s.Name == wire.StageCode {
		if err := a.folder.remove(questionFile); err != nil { // it was answered, or was not ours
			a.log.Warn("an old question could not be removed", zap.Error(err))
		}
		if f.err = a.writePrompt(s); f.err != nil { // a model would be paid for nothing
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

// Bounds of a command in a report: it is for people to recognise.
const (
	maxCommandArgs  = 32
	maxCommandBytes = 512
)

// result is what a report says of a stage that ran. Of an agent's command it has the configured form, without
// the prompt.
func (a *attempt) result(s wire.StagePlan, e exit) wire.StageResult {
	r := wire.StageResult{
		Stage: s.Name, ExitCode: e.code, DurationMS: e.took.Milliseconds(),
		StartedAt: wire.At(time.Now().Add(-e.took)),
	}
	room := maxCommandBytes
	for i, arg := range s.Run {
		arg = strings.ToValidUTF8(a.mask.Text(arg), "?")
		if i == maxCommandArgs || len(arg) > room {
			r.Command = append(r.Command, "…")
			break
		}
		r.Command, room = append(r.Command, arg), room-len(arg)
	}
	return r
}

// execute runs the stage's program, or its agent.
func (a *attempt) execute(ctx context.Context, s wire.StagePlan, f *failure) exit {
	a.leaseSocket = a.openLeaseSocket()
	defer a.leaseSocket.close(context.WithoutCancel(ctx))
	if s.Agent != nil {
		return a.runAgent(ctx, s, f)
	}
	if pays(s) {
		a.onUsage(a.usageWith(agent.Usage{}))
	}
	e := a.start(ctx, a.command(s, f))
	if pays(s) && e.err == nil { // it ran, however it went
		a.used = a.usageWith(agent.Usage{})
	}
	if e.ok() && a.work(s.Name, nil) == agent.NoWork {
		f.noSuccess = agent.ChangedNothing
	}
	return e
}

// pays reports whether a run of a stage is a paid call: of an agent, and of the program that stands for one.
func pays(s wire.StagePlan) bool { return s.Agent != nil || s.Name == wire.StageCode }

// mayPay reports whether the task may make another paid call.
func (a *attempt) mayPay() bool {
	return a.plan.PaidCallsLeft == nil || a.used.PaidCalls < *a.plan.PaidCallsLeft
}

func (a *attempt) command(s wire.StagePlan, f *failure) command {
	env := make(environment, len(a.env)+len(s.Env)+7)
	// The checkout has no git. An agent's git must not find a repository around it, and commit there.
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
	env[envWorker], _ = os.Executable() // whose budget command the stage may run
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
		grace: duration(a.plan.StopGraceSeconds, defaultGrace),
	}
}

// assess finds out what a program's end means. nil: the stage ended well.
func (a *attempt) assess(f *failure) *failure {
	if f.exit.stopped {
		f.kind = failedStopped
		return f
	}
	if f.stage == wire.StageCode && f.exit.err == nil {
		question, err := a.folder.read(questionFile, maxQuestionBytes+1)
		if err != nil {
			a.log.Warn("the agent's question could not be read", zap.Error(err))
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
	case !f.exit.ok():
		f.kind = failedExit
	case f.noSuccess != "":
		f.kind = failedNoSuccess
	default:
		return nil
	}
	return f
}

// summary is the failure in one line.
func (a *attempt) summary(f *failure) string {
	program := ""
	if len(f.command) > 0 {
		program = filepath.Base(f.command[0])
	}
	switch f.kind {
	case failedExit:
		if f.exit.signal != "" {
			return fmt.Sprintf("%s: %s was ended by %s", f.stage, program, f.exit.signal)
		}
		return fmt.Sprintf("%s: %s returned exit code %d", f.stage, program, f.exit.code)
	case failedMemory:
		return fmt.Sprintf("%s: %s failed, %s", f.stage, program, f.exit.shortage)
	case failedNoSuccess:
		return fmt.Sprintf("%s: %s: %s", f.stage, program, f.noSuccess)
	case failedNoCalls:
		return fmt.Sprintf("%s: %s was not started: all paid calls of the task are made (recovery.paid_call_budget)",
			f.stage, program)
	case failedClosedModel:
		return fmt.Sprintf("%s: %s is closed for %s more: it was not started", f.stage, f.closedModel,
			f.wait.Round(time.Second))
	case failedTimeout:
		return fmt.Sprintf("%s: %s timed out after %s", f.stage, program, f.timeout)
	case failedQuestion:
		return fmt.Sprintf("%s: the agent asks a question", f.stage)
	case failedStopped:
		return fmt.Sprintf("%s: stopped", f.stage)
	default:
		return fmt.Sprintf("%s: %v", f.stage, f.err)
	}
}

// lastFailure is .retake/last_failure.json: why validation refused the change, for the agent's next round.
type lastFailure struct {
	Stage      string    `json:"stage"`
	Command    []string  `json:"command"`
	ExitCode   int       `json:"exit_code"`
	FixRound   int       `json:"fix_round"` // the CODE run that was refused: 1, 2, …; 0: the work as it was before any
	At         wire.Time `json:"at"`
	Message    string    `json:"message"`
	StdoutTail string    `json:"stdout_tail"`
	StderrTail string    `json:"stderr_tail"`
}

// rejection is why validation failed, for a prompt.
func (a *attempt) rejection(f *failure) string {
	return fmt.Sprintf("%s\ncommand: %s\n\n--- stdout ---\n%s\n--- stderr ---\n%s\n", a.summary(f),
		strings.Join(f.command, " "),
		a.mask.Text(f.exit.stdout.text(tailBytes)), a.mask.Text(f.exit.stderr.text(tailBytes)))
}

// takeRejection tells the agent why the work that is there was refused, as after a fix round.
func (a *attempt) takeRejection() error {
	r := a.plan.Rejected
	if r == nil {
		return nil
	}
	a.rejected = fmt.Sprintf("%s\n\n--- stdout ---\n%s\n--- stderr ---\n%s\n", r.Message, r.StdoutTail, r.StderrTail)
	return a.writeFailure(lastFailure{
		Stage: r.Stage, ExitCode: r.ExitCode, At: wire.At(time.Now()), Message: r.Message, StdoutTail: r.StdoutTail,
		StderrTail: r.StderrTail,
	})
}

// writeLastFailure writes down why validation failed, for programs and for prompts.
func (a *attempt) writeLastFailure(f *failure) error {
	last := lastFailure{
		Stage: f.stage, Command: f.command, ExitCode: f.exit.code, FixRound: a.runs[wire.StageCode],
		At:      wire.At(time.Now()),
		Message: a.summary(f), StdoutTail: a.mask.Text(f.exit.stdout.text(tailBytes)),
		StderrTail: a.mask.Text(f.exit.stderr.text(tailBytes)),
	}
	return a.writeFailure(last)
}

func (a *attempt) writeFailure(last lastFailure) error {
	return errors.Join(a.folder.writeJSON(failureJSON, 0o644, last),
		a.folder.write(failureText, 0o644, []byte(a.rejected)))
}
