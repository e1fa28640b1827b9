package worker

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"retake/internal/bus/wire"
)

// kind classifies the failure of an attempt.
type kind int

const (
	failedExit        kind = iota // a stage's program returned a code other than 0, or was killed by a signal
	failedTimeout                 // a stage exceeded its timeout
	failedNoProgram               // a stage's program is missing
	failedQuestion                // the agent asks a question
	failedStart                   // a stage could not start for another reason
	failedMemory                  // the kernel killed the program for lack of memory
	failedStopped                 // the attempt was stopped from outside, or ran out of time
	failedPanic                   // the worker itself failed
	failedNoSuccess               // a program returned 0, but did not do its work
	failedClosedModel             // the cooldown of the agent's model is too long to wait for
	failedNoCalls                 // the task has used up its paid calls
	failedCheckpoint              // the work could not be transferred
)

const noCallsLeft = "the task has used up its paid calls (recovery.paid_call_budget)"

// failure describes why an attempt failed.
type failure struct {
	kind        kind
	stage       string
	number      int // number of this run of the stage, from 1
	command     []string
	plan        *wire.StagePlan // plan of the failed stage, or nil
	exit        exit
	err         error  // for failedNoProgram, failedStart and failedPanic
	question    string // for failedQuestion
	timeout     time.Duration
	noSuccess   string        // why exit code 0 counts as a failure, or empty
	agent       *agentRun     // the agent's output, or nil
	closedModel string        // resource of failedClosedModel
	wait        time.Duration // remaining cooldown, for failedClosedModel
	unlent      bool          // set if the lease socket refused the program because the task has used up its paid calls
	log         string        // tail of the program's log file, not yet redacted
}

// id returns the failure's error_id, which is unique within the attempt.
func (f *failure) id(p *wire.Plan) string {
	return fmt.Sprintf("%s/%s-%d", p.AttemptID, f.stage, f.number)
}

// summary describes the failure in one line.
func (a *attempt) summary(f *failure) string {
	program := ""
	if len(f.command) > 0 {
		program = filepath.Base(f.command[0])
	}
	switch f.kind {
	case failedExit:
		if f.exit.signal != "" {
			return fmt.Sprintf("%s: %s was killed by %s", f.stage, program, f.exit.signal)
		}
		return fmt.Sprintf("%s: %s returned exit code %d", f.stage, program, f.exit.code)
	case failedMemory:
		return fmt.Sprintf("%s: %s failed, %s", f.stage, program, f.exit.shortage)
	case failedNoSuccess:
		return fmt.Sprintf("%s: %s: %s", f.stage, program, f.noSuccess)
	case failedNoCalls:
		if f.unlent {
			return fmt.Sprintf("%s: %s got no lease: %s", f.stage, program, noCallsLeft)
		}
		return fmt.Sprintf("%s: %s was not started: %s", f.stage, program, noCallsLeft)
	case failedClosedModel:
		return fmt.Sprintf("%s: the agent was not started, because %s is closed for another %s", f.stage, f.closedModel,
			f.wait.Round(time.Second))
	case failedTimeout:
		return fmt.Sprintf("%s: %s timed out after %s", f.stage, program, f.timeout)
	case failedQuestion:
		return fmt.Sprintf("%s: the agent asked a question", f.stage)
	case failedStopped:
		return fmt.Sprintf("%s: stopped", f.stage)
	default:
		return fmt.Sprintf("%s: %v", f.stage, f.err)
	}
}

// lastFailure is the content of .retake/last_failure.json. It tells the agent in its next round why validation failed.
type lastFailure struct {
	Stage      string    `json:"stage"`
	Command    []string  `json:"command"`
	ExitCode   int       `json:"exit_code"`
	FixRound   int       `json:"fix_round"` // number of the refused CODE run, from 1; 0 for earlier attempts' work
	At         wire.Time `json:"at"`
	Message    string    `json:"message"`
	StdoutTail string    `json:"stdout_tail"`
	StderrTail string    `json:"stderr_tail"`
}

// rejection returns the reason for a failed validation, for the next prompt.
func (a *attempt) rejection(f *failure) string {
	return fmt.Sprintf("%s\ncommand: %s\n\n--- stdout ---\n%s\n--- stderr ---\n%s\n", a.summary(f),
		strings.Join(f.command, " "),
		a.mask.Text(f.exit.stdout.text(tailBytes)), a.mask.Text(f.exit.stderr.text(tailBytes)))
}

// takeRejection tells the agent why its existing work was refused, in the same form as after a fix round.
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

// writeLastFailure records why validation failed, for programs and prompts.
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
