package effects

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/github/ask"
	"retake/internal/github/pages"
	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
	"retake/internal/recovery/policy"
	"retake/internal/secrets/redact"
)

// Escalation returns the comment that asks a person an effect's question. report is the failure behind the
// question, or nil.
func (q *Questions) Escalation(e fsm.Effect, report *wire.WorkerError) ask.Escalation {
	asked, c := e.Escalation, wording{q.Setup()}
	stage := c.failedStage(asked, report)
	words := c.words(e, report, stage, q.ConfigFile)
	text := ask.Escalation{
		Key: string(e.Task), Nonce: e.Nonce, AttemptID: e.Worker, Block: e.About(),
		Title: words.Title, Ask: words.Ask, Reply: words.Command,
		Stage: asked.Stage, Reason: string(asked.Reason), Cause: withoutPackage(asked.Cause), Command: stage.Run,
		Attempts: attemptLines(asked.Tried), Answers: answerLines(asked.Hints), WhyStopped: whyStopped(asked, report),
	}
	if asked.Stale {
		text.Reclaim = text.Cause
	}
	if e.Work != nil {
		text.PullRequest = e.Work.PullRequest
	}
	if stage.Agent != nil && len(stage.Run) > 0 {
		text.Command = stage.Run[:1] // the rest are flags that Retake adds, and the prompt
	}
	if r := report; r != nil {
		text.Tail, text.Tried = reports.OutputTail(r), reports.FixRounds(r)
		text.Question, text.ExitCode = r.Question, r.ExitCode
		if r.Signal != "" {
			text.Facts = []string{"signal: " + r.Signal}
		}
	}
	text.Alike = asked.Alike
	text.Facts = append(text.Facts, q.Denied(e.Worker)...)
	return text
}

// whyStopped returns the reason for the question in one sentence. If waiting or an answer is likely to help, it
// gives the policy's reason: the same failure need not recur.
func whyStopped(q *fsm.Escalation, report *wire.WorkerError) string {
	about, _ := recovery.Describe(q.Reason)
	switch {
	case strings.HasPrefix(q.Cause, recovery.Unapproved):
		return "Agents get nothing that nobody with rights has approved."
	case !strings.HasSuffix(q.Why, policy.NotRepeated):
		return q.Why
	case q.Reason == recovery.NeedsHuman && report != nil && report.Question != "":
		return "The agent cannot decide this alone."
	}
	return "Retake did not repeat it unchanged: " + about.Means + "."
}

// withoutPackage removes the package name that our errors begin with.
func withoutPackage(cause string) string {
	for _, name := range []string{"workspace: ", "container: ", "github: ", "director: "} {
		cause = strings.TrimPrefix(cause, name)
	}
	return cause
}

func answerLines(said []fsm.Hint) (lines []pages.AnswerLine) {
	for _, h := range said {
		lines = append(lines, pages.AnswerLine{By: h.From, At: h.At, Text: h.Text})
	}
	return lines
}

// wording words a question with the setup in force.
type wording struct{ *inforce.Setup }

// words returns the words of a question. A question from the operator's policy replaces the sentence of the table.
func (in wording) words(e fsm.Effect, report *wire.WorkerError, stage wire.StagePlan, file string) recovery.Words {
	q := e.Escalation
	c := recovery.Case{
		Reason: q.Reason, Stage: q.Stage, Stale: q.Stale, Guard: policy.GuardThatAsks(q.Ask), Cause: q.Cause,
		Command: plaintext.CommandLine(stage.Run), Image: in.Containers.Image, Limit: in.limit(q.Reason, stage),
		Alike:  len(q.Alike),
		AtOnce: config.HoldsAtOnce,
	}
	if file != "" {
		c.File = filepath.Base(file) // only the name: the comment is public, and the path is not for everyone
	}
	if e.Work != nil {
		c.Pull = e.Work.PullRequest
	}
	if len(stage.Run) > 0 {
		c.Program = stage.Run[0]
	}
	c.Asked = report != nil && report.Question != ""
	c.Provider, c.Variable = in.credential(q, report, stage)
	words := c.Words()
	if about, _ := recovery.Describe(q.Reason); c.Guard == "" && q.Ask != about.Ask() {
		words.Ask = cmp.Or(q.Ask, words.Ask)
	}
	return words
}

// failedStage returns the plan of the stage that an escalation is about. Run is empty if the failure did not come
// from a command.
func (in wording) failedStage(q *fsm.Escalation, report *wire.WorkerError) wire.StagePlan {
	if q.Stale || report == nil {
		return wire.StagePlan{}
	}
	found := slices.DeleteFunc(slices.Clone(in.StagePlans), func(g wire.StagePlan) bool {
		return g.Name != q.Stage || len(g.Run) == 0 || report.Tool != "" && filepath.Base(g.Run[0]) != report.Tool
	})
	if len(found) == 0 {
		return wire.StagePlan{}
	}
	if at := slices.IndexFunc(found, func(g wire.StagePlan) bool { return doesWhatFailed(q.Reason, g.Run) }); at > 0 {
		return found[at]
	}
	if first := found[0]; len(found) == 1 || doesWhatFailed(q.Reason, first.Run) {
		return first
	}
	found[0].Run = found[0].Run[:1] // the failed command is unknown, so show only the program
	return found[0]
}

// doesWhatFailed distinguishes the commands of one program, such as go build, go vet and go test.
func doesWhatFailed(r recovery.Reason, argv []string) bool {
	words := map[recovery.Reason][]string{
		recovery.BuildFailed: {"build", "compile"}, recovery.TestsFailed: {"test"},
		recovery.LintFailed: {"vet", "lint", "fmt", "format", "check"},
	}[r]
	return slices.ContainsFunc(argv, func(arg string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(arg, w) })
	})
}

// limit returns the limit that was reached, in words for people.
func (in wording) limit(r recovery.Reason, stage wire.StagePlan) string {
	switch {
	case r == recovery.OOMKilled:
		return in.Containers.Memory
	case r == recovery.Timeout && len(stage.Run) > 0:
		return policy.Span(time.Duration(stage.TimeoutSeconds * float64(time.Second)))
	case r == recovery.Timeout:
		return policy.Span(in.Timeouts.WorkerWatchdog)
	}
	return ""
}

// credential returns the provider that refused a request, and the variables that hold its credential, never a
// value. The provider is empty for a GitHub server other than github.com, because its tokens are made elsewhere.
func (in wording) credential(q *fsm.Escalation, report *wire.WorkerError,
	stage wire.StagePlan,
) (provider, variables string) {
	c := in.Config
	if len(stage.Run) == 0 {
		provider, variables = "github", cmp.Or(c.GitHub.TokenEnv, "github.token_file")
		if c.GitHub.TokenFile != "" {
			variables = "github.token_file"
		}
		if !strings.Contains(c.GitHub.APIURL, "//api.github.com/") {
			provider = ""
		}
		return provider, variables
	}
	provider = cmp.Or(report.Provider, agent.Provider(stage, stage.Model))
	passed := append(slices.Clone(c.Containers.EnvPassthrough), slices.Sorted(maps.Keys(c.Containers.Env))...)
	names := slices.DeleteFunc(passed, func(name string) bool { return !redact.IsSecretVariable(name) })
	if stage.Agent != nil {
		own := slices.DeleteFunc(slices.Clone(names),
			func(name string) bool { return !slices.Contains(stage.Agent.Keys, name) })
		if names = own; len(names) == 0 {
			names = stage.Agent.Keys
		}
	} else {
		names = slices.DeleteFunc(names, func(name string) bool {
			return slices.ContainsFunc(in.StagePlans, func(g wire.StagePlan) bool {
				return g.Agent != nil &&
					slices.Contains(g.Agent.Keys, name)
			})
		})
	}
	if named := slices.DeleteFunc(slices.Clone(names),
		func(name string) bool { return !strings.Contains(q.Cause, name) }); len(named) > 0 {
		names = named
	}
	const most = 2
	return provider, strings.Join(names[:min(len(names), most)], " or ")
}
