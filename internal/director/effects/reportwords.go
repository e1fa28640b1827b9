package effects

import (
	"fmt"

	"retake/internal/bus/wire"
)

// PersonsWord marks what an unsigned report leads to, wherever people read of it.
const PersonsWord = "reported by an operator, not by the worker"

// OutputTail is the end of what a failed stage printed.
func OutputTail(e *wire.WorkerError) string {
	if e.LastStderrTail != "" && e.LastStdoutTail != "" {
		return e.LastStdoutTail + "\n" + e.LastStderrTail
	}
	return e.LastStdoutTail + e.LastStderrTail
}

// Observations are the observations that the cause leaves out.
func Observations(e *wire.WorkerError) []string {
	var out []string
	if e.Tool != "" {
		out = append(out, "program: "+e.Tool)
	}
	if e.ExitCode != nil {
		out = append(out, fmt.Sprintf("exit code: %d", *e.ExitCode))
	}
	if e.Signal != "" {
		out = append(out, "signal: "+e.Signal)
	}
	return out
}

// FixRounds lists what the worker tried inside the attempt.
func FixRounds(e *wire.WorkerError) []string {
	if e.FixRounds < 2 {
		return nil
	}
	return []string{fmt.Sprintf("%d rounds of CODE and VALIDATE in attempt %d, each shown the failure of the last",
		e.FixRounds, e.Attempt)}
}
