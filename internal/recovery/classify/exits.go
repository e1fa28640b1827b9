package classify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"retake/internal/agent"
	"retake/internal/recovery"
	"retake/internal/recovery/loglines"
	"retake/internal/recovery/plaintext"
)

// signalCodes maps each signal to the exit code with which a shell reports it.
var signalCodes = []struct {
	signal string
	code   int
}{
	{"SIGILL", 132},
	{"SIGTRAP", 133},
	{"SIGABRT", 134},
	{"SIGBUS", 135},
	{"SIGFPE", 136},
	{"SIGKILL", 137},
	{"SIGSEGV", 139},
	{"SIGTERM", 143},
	{"SIGXCPU", 152},
	{"SIGXFSZ", 153},
}

// wrapper classifies by a wrapper program's exit code. Each such code has only one meaning, so it takes precedence over
// text.
func (q *classification) wrapper() (recovery.Finding, bool) { return q.byExit(true) }

// exit classifies by the signal or exit code of any other program.
func (q *classification) exit() (recovery.Finding, bool) { return q.byExit(false) }

// code returns the exit code that a shell would give: the program's code, or a code for its signal.
func (q *classification) code() int {
	for _, s := range signalCodes {
		if s.signal == q.e.Signal {
			return s.code
		}
	}
	if q.e.ExitCode != nil {
		return *q.e.ExitCode
	}
	return 0
}

func (q *classification) byExit(wrapper bool) (recovery.Finding, bool) {
	code := q.code()
	for _, row := range q.c.exit {
		if row.Code != code || row.Wrapper != wrapper || !strings.HasPrefix(strings.ToLower(q.e.Tool), row.Tool) {
			continue
		}
		if readable := q.readable(); readable != nil &&
			(row.Reason == recovery.Unknown || !slices.Contains(readable, row.Reason)) {
			continue
		}
		if wrapper && row.Reason == recovery.InvalidConfig && q.tooLarge() {
			continue
		}
		cause := fmt.Sprintf("exit code %d: %s", code, row.Why)
		if quote := q.quote(); quote != "" {
			cause = quote + " (" + cause + ")"
		}
		return recovery.Finding{
				Reason: row.Reason, Cause: cause, Rule: fmt.Sprintf("exit.%d", code),
				Confidence: confidenceOfExit,
			},
			true
	}
	return recovery.Finding{}, false
}

// tooLarge reports whether the text says that the prompt is too large. Wrappers exit with the same code for such a
// prompt as for a missing one.
func (q *classification) tooLarge() bool {
	f := q.c.decide(recovery.Evidence{Message: q.e.Message, Stdout: q.e.Stdout, Stderr: q.e.Stderr})
	return f.Reason == recovery.ContextOverflow && f.Confidence >= 0.5
}

// assertion uses the worker's assertion as a last resort.
func (q *classification) assertion() (recovery.Finding, bool) {
	r, ok := recovery.ReasonOf(q.e.Assertion.ErrorType)
	return recovery.Finding{Reason: r, Cause: q.quote(), Rule: "assertion", Confidence: 0.3}, ok &&
		r != recovery.Unknown
}

// commandFailed reports whether a user's command failed.
func (q *classification) commandFailed() bool {
	failed := q.e.Signal != "" || q.e.ExitCode != nil && *q.e.ExitCode != 0
	return failed && slices.Contains(commandStages, q.e.Stage)
}

// readable returns the reasons that text may indicate, or nil for all. For a user's command, it excludes AgentCrash,
// because a crash of the command is not a crash of the agent.
func (q *classification) readable() []recovery.Reason {
	if !q.commandFailed() {
		return nil
	}
	return ofCommands
}

// ofCommands lists all reasons except AgentCrash, plus "" for lines that state a status.
var ofCommands = func() []recovery.Reason {
	all := []recovery.Reason{""}
	for _, about := range recovery.Reasons {
		if about.Reason != recovery.AgentCrash {
			all = append(all, about.Reason)
		}
	}
	return all
}()

// check treats the failure of a user's command as a failed check, with the last line as its cause. It skips exit code 1
// without output, because tests often fail that way.
func (q *classification) check() (recovery.Finding, bool) {
	quote := q.quote()
	silent := quote == "" && q.e.ExitCode != nil
	if silent {
		quote = fmt.Sprintf("exit code %d and no output", *q.e.ExitCode)
	}
	likeTests := silent && *q.e.ExitCode == 1
	f := recovery.Finding{Reason: recovery.Validation, Cause: quote, Rule: "check", Confidence: confidenceOfCheck}
	switch code := q.code(); {
	case code == codeKilled && (quote == "" || silent || shellKilled.MatchString(quote)):
		f.Reason = recovery.OOMKilled
	case code == codeKilled && q.testsRan():
		f.Reason, f.Cause = recovery.TestsFailed, quote+" (the tests were killed by SIGKILL: memory ran out, or a "+
			"test sent it)"
	case code == codeKilled:
		f.Reason, f.Cause = recovery.Unknown, quote+" (killed by SIGKILL: memory ran out, or another program sent it)"
	case code == codeTerminated:
		f.Reason, f.Cause = recovery.Unknown, quote+" (terminated by SIGTERM: a deadline passed, or another program "+
			"sent it)"
	case slices.Contains(codesOfCrashes, code):
		f.Reason = recovery.TestsFailed
	}
	return f, q.commandFailed() && !likeTests
}

// Confidence in findings that are based only on an exit code, or only on the last line of a failed command.
// TestCalibration checks these values.
const (
	confidenceOfExit  = 0.7
	confidenceOfCheck = 0.3
)

// Exit codes of commands ended by a signal.
const (
	codeKilled     = 137
	codeTerminated = 143
)

// codesOfCrashes are the exit codes of a command that crashed: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV. In a
// check, such a code means that the tested program crashed.
var codesOfCrashes = []int{132, 133, 134, 135, 136, 139}

var (
	// shellKilled matches a shell's message that SIGKILL ended the command. Usually the kernel sent it because memory
	// ran out. If Retake sent it after a deadline, other evidence shows the deadline.
	shellKilled = regexp.MustCompile(`\b\d+ Killed\s|^Killed$`)
	// shellCrashed matches a report by a shell or a build tool that the command crashed.
	shellCrashed = regexp.MustCompile(`(?:^|\b\d+ |\*\*\* \[.*\] |/bin/\w+: )(?:Segmentation fault|Aborted|Bus error|` +
		`Illegal instruction|Floating point exception|Trace/breakpoint trap)\b|` +
		`(?:returned|exit code|exit status|status):? 13[2-69]\b`)
)

// crashedChild finds the crash of a program run by a check. That program is under test, so an unchanged attempt would
// crash again.
func (q *classification) crashedChild() (recovery.Finding, bool) {
	if q.e.Stage != "VALIDATE" || !q.commandFailed() {
		return recovery.Finding{}, false
	}
	failure := tierOf(tierFailure)
	m, ok := q.text().best(failure, &q.text().places, []recovery.Reason{recovery.AgentCrash})
	if !ok {
		i := slices.IndexFunc(q.text().lines, shellCrashed.MatchString)
		if i < 0 {
			return recovery.Finding{}, false
		}
		m.quote = q.text().lines[i]
	}
	return recovery.Finding{Reason: recovery.TestsFailed, Cause: m.quote, Rule: "check.crash", Confidence: 0.5}, true
}

// testsRan reports whether a check listed tests before it ended.
func (q *classification) testsRan() bool {
	for _, t := range q.tails() {
		if slices.ContainsFunc(t.Lines, loglines.ListsTest) {
			return true
		}
	}
	return false
}

// verdict searches the output of a failed check for general statements about its tests. They take precedence over
// provider errors, which the tested program may have printed.
func (q *classification) verdict() (recovery.Finding, bool) {
	if q.e.Stage != "VALIDATE" || !q.commandFailed() {
		return recovery.Finding{}, false
	}
	prose := tierOf(tierProse)
	m, ok := q.text().best(prose, &q.text().places, []recovery.Reason{recovery.TestsFailed})
	return m.finding(prose.confidence), ok
}

// gateCodes maps the documented exit codes of checks to reasons.
var gateCodes = map[int]recovery.Reason{90: recovery.ScopeViolation, 91: recovery.ContractViolation}

// gate returns the reason that a failed check states, either in a JSON object on its last line or with a documented
// exit code.
func (q *classification) gate() (recovery.Finding, bool) {
	if !q.commandFailed() {
		return recovery.Finding{}, false
	}
	for _, text := range []string{q.e.Stdout, q.e.Stderr} {
		var said struct {
			ErrorType string `json:"error_type"`
			Message   string `json:"message"`
			Escalate  bool   `json:"escalate_to_human"`
		}
		line := strings.TrimSpace(plaintext.LastLine(text))
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &said) != nil {
			continue
		}
		r, ok := recovery.ReasonOf(said.ErrorType)
		if said.Escalate {
			r, ok = recovery.NeedsHuman, strings.TrimSpace(said.Message) != ""
		}
		if ok && r != recovery.Unknown {
			return recovery.Finding{Reason: r, Cause: said.Message, Rule: "gate", Confidence: 0.95}, true
		}
	}
	if q.e.ExitCode != nil {
		if r, ok := gateCodes[*q.e.ExitCode]; ok {
			cause := fmt.Sprintf("the check returned exit code %d", *q.e.ExitCode)
			return recovery.Finding{
				Reason: r, Cause: cmp.Or(q.quote(), cause), Rule: "gate.exit", Confidence: 0.9,
			}, true
		}
	}
	return recovery.Finding{}, false
}

// answer classifies the answer of an agent that reported success, because the model may have refused the work or asked
// a question.
func (q *classification) answer() (recovery.Finding, bool) {
	if q.failure(); q.agent.Answer == "" {
		return recovery.Finding{}, false
	}
	f := q.c.decide(recovery.Evidence{Message: q.agent.Answer})
	f.Rule = "answer/" + f.Rule
	return f, f.Reason == recovery.PolicyViolation || f.Reason == recovery.NeedsHuman
}

// hung reports whether the program was forcibly ended, without an exit code or a signal.
func (q *classification) hung() bool {
	return q.e.Unended && q.e.ExitCode == nil && q.e.Signal == ""
}

// withoutEvidence handles the remaining cases, such as a failed check without output, success without changes, or a
// killed command.
func (q *classification) withoutEvidence() (recovery.Finding, bool) {
	e, quote := q.e, q.quote()
	switch {
	case q.failure().Message != "": // agents may exit with code 0 after a failure
		return recovery.Finding{Reason: recovery.Unknown, Cause: quote, Rule: "event"}, true
	case e.ExitCode != nil && *e.ExitCode == 0 && unexplained(&e):
		return recovery.Finding{Reason: recovery.Unknown, Cause: e.Message, Rule: "exit.0"}, true
	case e.ExitCode != nil && *e.ExitCode == 0 && e.Signal == "":
		return recovery.Finding{
			Reason: recovery.NoProgress, Cause: cmp.Or(plaintext.LastLine(q.agent.Answer), quote),
			Rule: "exit.0", Confidence: 0.4,
		}, true
	case e.ExitCode != nil && *e.ExitCode == 1 && e.Stage == "VALIDATE" && strings.TrimSpace(e.Stdout+e.Stderr) == "":
		return recovery.Finding{Reason: recovery.TestsFailed, Cause: "a VALIDATE check ended with exit code 1 and no " +
			"output", Rule: "silent.check", Confidence: 0.4}, true
	case q.hung():
		return recovery.Finding{Reason: recovery.Timeout, Cause: quote, Rule: "unended", Confidence: 0.4}, true
	case q.text().frames > 1: // an exception with a message that does not match any rule
		return recovery.Finding{Reason: recovery.AgentCrash, Cause: quote, Rule: "stack", Confidence: 0.3}, true
	}
	if quote == "" && e.ExitCode != nil {
		quote = fmt.Sprintf("exit code %d without an explanation", *e.ExitCode)
	}
	return recovery.Finding{Reason: recovery.Unknown, Cause: quote, Rule: "none"}, true
}

// unexplained reports whether an agent ended in the middle of its work or without output.
func unexplained(e *recovery.Evidence) bool {
	return strings.Contains(e.Message, agent.Incomplete) || strings.Contains(e.Message, agent.Silent) ||
		strings.Contains(e.Message, agent.ChangedNothing) && strings.TrimSpace(e.Stdout+e.Stderr) == ""
}
