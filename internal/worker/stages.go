package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// recheckAfter is how long a missing program is given to appear (a volume that is being mounted): one re-check,
// after a second, as the founding harness's rules allow.
const recheckAfter = time.Second

// runner runs one command to its very end.
type runner interface {
	run(ctx context.Context, c command) exit
}

// kind says in what way an attempt failed.
type kind int

const (
	exited   kind = iota // a stage's program returned a code other than 0, or a signal ended it
	late                 // a stage's timeout ended it
	missing              // a stage's program is not there
	asked                // the agent asks a question
	unable               // a stage could not be started for another reason
	starved              // the kernel killed its program for want of memory
	stopped              // told to stop, or out of time as a whole
	panicked             // a fault of the worker
	hollow               // an agent returned 0, and it is no success
	closed               // the agent's model is in a cooldown that is too long to wait for here
)

// failure is why an attempt failed.
type failure struct {
	kind     kind
	stage    string
	number   int // which run of that stage it was: 1, 2, …
	command  []string
	exit     exit
	err      error  // missing, unable, panicked
	question string // asked
	timeout  time.Duration
	heard    *heard        // what an agent said; nil: the stage is none
	closed   string        // the resource that is
	wait     time.Duration // closed: for how long
}

// stopCause is the cancellation cause of the stages.
type stopCause struct {
	reason string
	grace  time.Duration // SIGTERM → SIGKILL, at most the plan's
}

func (s *stopCause) Error() string { return "worker: stopped: " + s.reason }

// step is what the stages tell while they run.
type step struct {
	stage  string
	text   string
	paused bool // nothing runs, and the watchdog's time stands still
	quiet  bool // one of many: not worth a line in the log
}

// attempt runs the plan's stages once, with the fix rounds between CODE and VALIDATE. It belongs to one goroutine.
type attempt struct {
	plan   *wire.Plan
	run    runner
	gate   *gate
	door   *door
	broker *broker // nil: agents start without leases
	env    environment
	folder *folder
	mask   *masker
	log    *zap.Logger
	tell   func(step)
	spent  func(agent.Usage) // what the attempt has used so far

	results  []wire.StageResult
	runs     map[string]int // stage → how often it ran
	home     string         // made for the stages; empty: they have one
	used     agent.Usage    // by the invocations that have ended
	rejected string         // why validation refused the last round, for the next prompt
}

// perform runs the stages in order and returns nil if all ended well. A VALIDATE that judges against the change leads
// back to the nearest CODE before it, as long as CODE runs are left.
func (a *attempt) perform(ctx context.Context) *failure {
	defer func() { _ = os.RemoveAll(a.home) }() // empty: none was made
	if err := a.prepare(); err != nil {
		return &failure{kind: unable, stage: wire.StageContextLoad, number: 1, err: err}
	}
	for i := 0; i < len(a.plan.Stages); i++ {
		f := a.stage(ctx, a.plan.Stages[i])
		if f == nil {
			continue
		}
		code := a.fixFrom(i, f)
		if code < 0 {
			return f
		}
		a.tell(step{stage: wire.StageValidate, text: fmt.Sprintf("%s; fix round %d of %d", a.summary(f), a.runs[wire.StageCode]+1, a.plan.FixAttempts)})
		a.rejected = a.refusal(f)
		if err := a.handBack(f); err != nil {
			a.log.Warn("the agent will not see why validation failed", zap.Error(err))
		}
		i = code - 1
	}
	return nil
}

// prepare lays out what the agent may know, and takes away what an earlier attempt on the same checkout left.
func (a *attempt) prepare() error {
	if err := a.folder.make(); err != nil { // also for the agent, which may want to put its question there
		return err
	}
	if err := a.folder.remove(failureJSON, failureText); err != nil {
		return err
	}
	if a.plan.AttemptFile != nil {
		if err := a.folder.writeJSON(attemptFile, 0o644, a.plan.AttemptFile); err != nil {
			return err
		}
	}
	home, err := writableHome(a.env["HOME"], os.TempDir(), filepath.Join(a.plan.Workdir, folderName))
	if err != nil {
		return err
	}
	if home != a.env["HOME"] {
		a.env["HOME"], a.home = home, home
	}
	return nil
}

// fixFrom returns the index of the CODE stage to run again after stage i failed with f; -1: none.
func (a *attempt) fixFrom(i int, f *failure) int {
	if f.stage != wire.StageValidate || f.kind != exited || !f.exit.ordinary() || a.runs[wire.StageCode] >= a.plan.FixAttempts {
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
	f := &failure{stage: s.Name, number: a.runs[s.Name], command: s.Run, timeout: seconds(s.TimeoutSeconds, 0)}
	a.gate.pass(ctx, func() { a.tell(step{stage: s.Name, text: wire.StepPaused, paused: true}) })
	if ctx.Err() != nil {
		f.kind = stopped
		return f
	}
	if s.Name == wire.StageCode {
		if err := a.folder.remove(questionFile); err != nil { // an old question is answered, or was not for us
			a.log.Warn("an old question could not be removed", zap.Error(err))
		}
	}
	a.tell(step{stage: s.Name, text: "running " + filepath.Base(s.Run[0])})
	f.exit = a.execute(ctx, s, f)
	a.door.sweep(context.WithoutCancel(ctx))
	if f.exit.err == nil && f.closed == "" {
		a.results = append(a.results, wire.StageResult{Stage: s.Name, ExitCode: f.exit.code, DurationMS: f.exit.took.Milliseconds()})
	}
	return a.judge(f)
}

// execute runs the stage's program, or its agent.
func (a *attempt) execute(ctx context.Context, s wire.StagePlan, f *failure) exit {
	if s.Agent != nil {
		return a.invoke(ctx, s, f)
	}
	return a.start(ctx, a.command(s, f))
}

func (a *attempt) command(s wire.StagePlan, f *failure) command {
	env := make(environment, len(a.env)+len(s.Env)+6)
	for k, v := range a.env {
		env[k] = v
	}
	for k, v := range s.Env {
		env[k] = v
	}
	env["RETAKE_ATTEMPT"] = strconv.Itoa(a.plan.Attempt)
	env["RETAKE_ATTEMPT_ID"] = a.plan.AttemptID
	env["RETAKE_ISSUE"] = a.plan.Issue.Key
	env["RETAKE_STAGE"] = s.Name
	env["RETAKE_FIX_ROUND"] = strconv.Itoa(max(1, a.runs[wire.StageCode]))
	env["RETAKE_ACTION"] = ""
	env[envSocket], env[envWorker] = a.door.socket(), ownProgram()
	env["RETAKE_MODEL"] = agent.Model(s, a.plan.AttemptFile)
	env[envResource] = agent.Resource(s, env["RETAKE_MODEL"])
	if file := a.plan.AttemptFile; file != nil {
		env["RETAKE_ACTION"] = file.Action
	}
	return command{
		argv: s.Run, dir: a.plan.Workdir, env: env.list(), path: env["PATH"], timeout: f.timeout,
		grace: seconds(a.plan.StopGraceSeconds, defaultGrace),
	}
}

// ownProgram is the path of this program, whose budget command a stage may run.
func ownProgram() string {
	file, err := os.Executable()
	if err != nil {
		return ""
	}
	return file
}

// judge says what a program's end means. nil: the stage ended well.
func (a *attempt) judge(f *failure) *failure {
	if f.exit.stopped {
		f.kind = stopped
		return f
	}
	if f.stage == wire.StageCode && f.exit.err == nil {
		question, err := a.folder.read(questionFile, maxQuestionBytes+1)
		if err != nil {
			a.log.Warn("the agent's question could not be read", zap.Error(err))
		}
		if f.question = strings.TrimSpace(string(question)); f.question != "" {
			f.kind = asked
			return f
		}
	}
	switch {
	case f.closed != "":
		f.kind = closed
	case errors.Is(f.exit.err, errNoProgram):
		f.kind, f.err = missing, f.exit.err
	case f.exit.err != nil:
		f.kind, f.err = unable, f.exit.err
	case f.exit.timedOut:
		f.kind = late
	case f.exit.starved(f.stage):
		f.kind = starved
	case !f.exit.ok():
		f.kind = exited
	case f.heard != nil && f.heard.why != "":
		f.kind = hollow
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
	case exited:
		if f.exit.signal != "" {
			return fmt.Sprintf("%s: %s was ended by %s", f.stage, program, f.exit.signal)
		}
		return fmt.Sprintf("%s: %s returned exit code %d", f.stage, program, f.exit.code)
	case starved:
		return fmt.Sprintf("%s: %s failed, %s", f.stage, program, f.exit.short)
	case hollow:
		return fmt.Sprintf("%s: %s: %s", f.stage, program, f.heard.why)
	case closed:
		return fmt.Sprintf("%s: %s is closed for %s more: it was not started", f.stage, f.closed, f.wait.Round(time.Second))
	case late:
		return fmt.Sprintf("%s: %s timed out after %s", f.stage, program, f.timeout)
	case asked:
		return fmt.Sprintf("%s: the agent asks a question", f.stage)
	case stopped:
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
	FixRound   int       `json:"fix_round"` // the CODE run that was refused: 1, 2, …
	At         wire.Time `json:"at"`
	Message    string    `json:"message"`
	StdoutTail string    `json:"stdout_tail"`
	StderrTail string    `json:"stderr_tail"`
}

// refusal is why validation failed, for a prompt.
func (a *attempt) refusal(f *failure) string {
	return fmt.Sprintf("%s\ncommand: %s\n\n--- stdout ---\n%s\n--- stderr ---\n%s\n", a.summary(f), strings.Join(f.command, " "),
		a.mask.text(f.exit.stdout.text(tailBytes)), a.mask.text(f.exit.stderr.text(tailBytes)))
}

// handBack writes down why validation failed, for programs and for prompts.
func (a *attempt) handBack(f *failure) error {
	last := lastFailure{
		Stage: f.stage, Command: f.command, ExitCode: f.exit.code, FixRound: a.runs[wire.StageCode], At: wire.At(time.Now()),
		Message: a.summary(f), StdoutTail: a.mask.text(f.exit.stdout.text(tailBytes)), StderrTail: a.mask.text(f.exit.stderr.text(tailBytes)),
	}
	return errors.Join(a.folder.writeJSON(failureJSON, 0o644, last), a.folder.write(failureText, 0o644, []byte(a.rejected)))
}
