package reports

import (
	"fmt"

	"retake/internal/bus/wire"
)

// PersonsWord marks a statement that is based on an unsigned report.
const PersonsWord = "reported by an operator, not by the worker"

// OutputTail returns the tail of a failed stage's output.
func OutputTail(e *wire.WorkerError) string {
	if e.LastStderrTail != "" && e.LastStdoutTail != "" {
		return e.LastStdoutTail + "\n" + e.LastStderrTail
	}
	return e.LastStdoutTail + e.LastStderrTail
}

// Observations returns further details about a failure, without its cause.
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

// FixRounds describes the worker's fix rounds within the attempt. It returns nil for fewer than two rounds.
func FixRounds(e *wire.WorkerError) []string {
	if e.FixRounds < 2 {
		return nil
	}
	return []string{fmt.Sprintf("%d rounds of CODE and VALIDATE in attempt %d, each given the failure of the "+
		"previous round",
		e.FixRounds, e.Attempt)}
}
