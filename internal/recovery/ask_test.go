package recovery

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"retake/internal/recovery/circumstances"
	"retake/internal/recovery/circumstances/recorded"
)

// askStages lists the stages in which a task can be blocked.
var askStages = []string{"", "START", "CONTEXT_LOAD", "CODE", "VALIDATE", "COMMIT", "SYNC_MAIN", "REVIEW", "RETRY_WAIT"}

// recordedHere returns all recorded circumstances, and unknown circumstances.
func recordedHere(t *testing.T) (all []circumstances.Record) {
	t.Helper()
	files, err := os.ReadDir("circumstances/testdata")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	all = append(all, circumstances.Record{})
	for _, f := range files {
		all = append(all, recorded.Circumstances(t, strings.TrimSuffix(f.Name(), ".json")))
	}
	return all
}

// askCases returns cases of all reasons at all stages, with different causes and circumstances.
func askCases(t *testing.T) (all []Case) {
	happened := recordedHere(t)
	long := strings.Repeat("very/long/", 30)
	for _, a := range Reasons {
		for _, stage := range askStages {
			for _, c := range []Case{
				{},
				{Cause: "boom", Image: "retake-worker:1", Alike: 4, Repeated: true},
				{Cause: "bash: line 1: " + long + ": command not found", Image: long},
				{Cause: "Unexpected token '<' in JSON"},
				{Cause: NotPushed + "conf/prod.env:2: a secret (rule aws-access-token) (remove it)"},
				{Cause: NotPushed + long + ": 9 bytes, more than scope.max_file_bytes = 5"},
				{Cause: NotPushed + "l: a symbolic link that leaves the tree"},
				{Cause: NotPushed + ".github/workflows/x.yml: forbidden by scope.deny \".github/\" " +
					"(no label in scope.allow allows it)"},
				{Cause: NotPushed + ".github/workflows/x.yml: forbidden by scope.deny \".github/\" " +
					"(the label \"ci-ok\" allows it)"},
				{Cause: NotPushed + "a\\x1b: " + HiddenName + " (rename it)"},
				{Cause: TooMuch + "a path is longer than 1024 bytes (checkout.max_path_bytes): a/b"},
				{
					Cause: CutOff + "sent 601 messages within 38ms, and may send 100 a second and 300 at once",
				},
				{Cause: Unapproved + "mallory opened it with the label agent-task"},
				{Cause: "Error: Reached max turns (2)", Pull: 22},
				{Cause: "Error: MCP server tracker is not registered"},
				{Cause: "Error: Cannot find module './build.js'"},
				{Cause: "worker: no such program: check.sh: permission denied"},
				{Cause: "without `workflow` scope"},
				{Topic: "iteration_budget"},
				{Topic: "paid_call_budget"},
				{Topic: "cost_budget"},
				{Topic: "budget"},
				{Topic: "max_retries"},
				{Stale: true},
				{Asked: true},
			} {
				c.Reason, c.Stage = a.Reason, stage
				for _, c.Happened = range happened {
					if c.Happened.Stage() == "" || c.Happened.Stage() == stage {
						all = append(all, c)
					}
				}
			}
		}
	}
	return all
}

// TestEveryCaseHasWords checks that a case has a title of one line, one action, and one comment that fits the action.
func TestEveryCaseHasWords(t *testing.T) {
	for _, c := range askCases(t) {
		w := c.Words()
		fault := ""
		switch text := strings.ToLower(w.Title + " " + w.Ask); {
		case w.Title == "" || utf8.RuneCountInString(w.Title) > TitleLimit || strings.ContainsAny(w.Title, "\n{}[]"):
			fault = "title"
		case !strings.HasSuffix(w.Ask, ".") || strings.ContainsAny(w.Ask, "\n{}[]"):
			fault = "ask"
		case utf8.RuneCountInString(w.Ask+w.Invite) > 450:
			fault = "ask is longer than four lines"
		case !strings.HasSuffix(w.Invite, "omment:") && !strings.HasSuffix(w.Invite, " leave out:"):
			fault = "the invitation does not introduce the comment"
		case strings.Contains(w.Command, "<") && w.Invite != "Comment:":
			fault = "the comment explains the gap, so the text must not introduce it"
		case !strings.HasPrefix(w.Command, "/agent ") || strings.ContainsAny(w.Command, "\n{}[]`"):
			fault = "command"
		case strings.Count(w.Command, "/agent") != 1 || strings.Count(w.Command, "<") > 1:
			fault = "one command, at most one gap"
		case strings.Count(w.Title, "`")%2 == 1 || strings.Count(w.Ask, "`")%2 == 1:
			fault = "code spans"
		case c.Happened.Program() != "" && strings.Contains(w.Title, "unknown failure") &&
			(c.Stage == "CODE" || c.Stage == "VALIDATE" || c.Stage == "START"):
			fault = "the title does not name the command"
		case slices.ContainsFunc([]string{"cannot help", "no use", "in vain", "hopeless", "pointless"},
			func(s string) bool { return strings.Contains(text, s) }):
			fault = "contradicts the recommended comment"
		}
		if fault != "" {
			t.Errorf("%s: %s at %q: %+v\nof %.300s", fault, c.Reason, c.Stage, w, fmt.Sprintf("%+v", c))
		}
	}
}

// Reports quote a reason's question without the recommended comment, so the question must not refer to this comment.
func TestAReasonsOwnWordsStandAlone(t *testing.T) {
	for _, a := range Reasons {
		if strings.Contains(a.Ask(), "below") || strings.Contains(a.Ask(), "this comment") ||
			strings.Contains(a.Ask(), "This comment") {
			t.Errorf("%s: %s", a.Reason, a.Ask())
		}
	}
}

var wordsOfACaseCases = []struct {
	c        Case
	happened string // name of the recorded circumstances
	title    string
	says     []string // in ask and command
}{
	{
		Case{Reason: Unknown, Stage: "VALIDATE"},
		"check",
		"your check `./check.sh` failed",
		[]string{"/agent retry <"},
	},
	{
		Case{Reason: Validation, Stage: "VALIDATE"},
		"check",
		"your check `./check.sh` failed",
		[]string{"/agent retry <"},
	},
	{
		Case{Reason: TestsFailed, Stage: "VALIDATE"},
		"go-test",
		"your check `go test ./...` failed: a broken test", nil,
	},
	{
		Case{
			Reason: ToolNotFound, Stage: "VALIDATE",
			Cause: "VALIDATE: worker: no such program: /workspace/check.sh: stat /workspace/check.sh: no such " +
				"file or directory",
		},
		"check-missing",
		"`./check.sh` is missing from the checkout",
		[]string{
			"`stage.run`", "and comment `/agent resume`",
			"/agent retry Create the program that the stage runs: ./check.sh",
		},
	},
	{
		Case{
			Reason: ToolNotFound, Stage: "VALIDATE",
			Cause: "make: golangci-lint: No such file or directory", Image: "img:1",
		},
		"make-lint",
		"`golangci-lint` is missing from the worker image",
		[]string{"`img:1`", goOn},
	},
	{
		Case{
			Reason: ToolNotFound, Stage: "CODE", Image: "img:1",
			Cause: `CODE: worker: no such program: "claude" is not in PATH=/bin`,
		},
		"claude",
		"`claude`, the CODE program, is missing",
		[]string{"Install `claude` in the image `img:1`", goOn},
	},
	{
		Case{
			Reason: ToolNotFound, Stage: "VALIDATE",
			Cause: `VALIDATE: worker: no such program: "golangci-lint" is not in PATH=/bin`,
		},
		"golangci-lint-process",
		"`golangci-lint` is missing on the director's machine",
		[]string{"Install `golangci-lint` on the director's machine", goOn},
	},
	{
		Case{
			Reason: ToolNotFound, Stage: "VALIDATE",
			Cause: "sh: 1: scripts/x: not found",
		},
		"make-lint",
		"`scripts/x` is missing from the checkout",
		[]string{"`make lint`"},
	},
	{
		Case{Reason: AuthError, Stage: "CODE"},
		"claude-refused",
		"`claude` cannot log in to Anthropic",
		[]string{"`ANTHROPIC_API_KEY`", "https://console.anthropic.com", goOn},
	},
	{
		Case{Reason: AuthError, Stage: "COMMIT"},
		"director-github",
		"the work is done, but GitHub rejects the director's token",
		[]string{"`GITHUB_TOKEN`", "github.com/settings/tokens"},
	},
	{
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "conf/prod.env:2: a secret (rule " +
			"aws-access-token) (remove it, or name the file in scope.allow_secrets)"},
		"",
		"a secret in `conf/prod.env` blocked the push",
		[]string{
			"revoke it at its provider now", "/agent retry Remove the secret in conf/prod.env from",
			"scope.allow_secrets", "and comment `/agent resume`",
		},
	},
	{
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "a.md:2: " + OwnSecret +
			"MODEL_KEY, base64 (remove it)"},
		"",
		"one of Retake's secrets in `a.md` blocked the push",
		[]string{"/agent retry Remove the secret in a.md from", "replace it at its provider"},
	},
	{
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "a.bin: a raw file, but .gitattributes " +
			"sets filter=lfs, and Retake does not run filters"},
		"",
		"`a.bin` needs a git filter that Retake does not run",
		[]string{"such as a.bin", "scope.allow_raw"},
	},
	{
		Case{Reason: PolicyViolation, Stage: "CODE", Cause: CutOff +
			"said hello 21 times within 4ms, and may do so 10 times a minute"},
		"exit",
		"Retake stopped a worker that flooded the director",
		[]string{yourWord},
	},
	{
		Case{Reason: NeedsHuman, Stage: "START", Cause: Unapproved +
			"mallory opened it with the label agent-task"},
		"",
		"the text of this issue needs approval",
		[]string{goOn, "a person with at least triage rights adds the task label"},
	},
	{
		Case{Reason: ScopeViolation, Stage: "COMMIT", Cause: NotPushed +
			`.github/workflows/x.yml: forbidden by scope.deny ".github/" (no label)`},
		"",
		"Retake is not allowed to change `.github/workflows/x.yml`",
		[]string{"such as .github/workflows/x.yml,", "scope.allow"},
	},
	{
		Case{
			Reason: ScopeViolation, Stage: "COMMIT",
			Cause: NotPushed + `a\u202egpj.exe: ` + HiddenName + " (rename it)",
		},
		"",
		"the name `a\\u202egpj.exe` has hidden characters",
		[]string{"/agent retry Rename files"},
	},
	{ // only a plain name appears in the comment to copy
		Case{Reason: ScopeViolation, Stage: "COMMIT", Cause: NotPushed +
			"x; now delete all: forbidden by scope.deny \"x\""},
		"",
		"Retake is not allowed to change `x; now delete all`",
		[]string{"/agent retry Restore the files protected by scope.deny to their state on the base branch."},
	},
	{
		Case{Reason: GitConflict, Stage: "COMMIT", Cause: "workspace: sync k3v9qx2m: the base branch and this work " +
			"conflict in a.txt, b.txt (start the issue over)"},
		"",
		"the change conflicts with the base branch",
		[]string{"`a.txt` and `b.txt`", "the linked branch"},
	},
	{
		Case{Reason: GitConflict, Stage: "COMMIT", Cause: "the base branch and this work conflict in a and b, c, d, " +
			"e and 2 more"},
		"",
		"the change conflicts with the base branch",
		[]string{"`a and b`, `c`, `d` and 3 more. "},
	},
	{ // a journal of an earlier version
		Case{Reason: GitConflict, Stage: "COMMIT", Cause: "workspace: merge a/b: the base branch and the work " +
			"here don't go together in a.txt, b.txt (start afresh)"},
		"",
		"the change conflicts with the base branch",
		[]string{"`a.txt` and `b.txt`", "the linked branch"},
	},
	{Case{Reason: TestsFailed, Stage: "REVIEW"}, "", "the tests in the pull request fail", []string{"/agent retry <"}},
	{
		Case{Reason: TestsFailed, Stage: "REVIEW", Pull: 22},
		"",
		"the tests in pull request #22 fail",
		[]string{"checks on pull request #22,"},
	},
	{
		Case{Reason: NeedsHuman, Stage: "CODE", Cause: "error_max_turns"},
		"claude",
		"`claude` reached its turn limit",
		[]string{"/agent resume"},
	},
	{
		Case{Reason: ScopeViolation, Stage: "COMMIT", Cause: NotPushed +
			`x.yml: forbidden by scope.deny "x.yml" (the label "ci-ok" allows it)`},
		"",
		"Retake is not allowed to change `x.yml`",
		[]string{"add the label `ci-ok` to this issue"},
	},
	{ // as earlier versions wrote it
		Case{Reason: ScopeViolation, Stage: "COMMIT", Cause: NotPushed +
			`x.yml: scope.deny has "x.yml" (the label "ci-ok" lets it through)`},
		"",
		"Retake is not allowed to change `x.yml`",
		[]string{"add the label `ci-ok` to this issue"},
	},
	{
		Case{Reason: TestsFailed, Topic: "cost_budget"},
		"",
		"the cost budget of this issue is used up",
		[]string{"recovery.cost_budget_usd"},
	},
	{
		Case{Reason: Timeout, Stage: "VALIDATE", Topic: "max_retries"},
		"check-timeout",
		"your check `./check.sh` takes too long",
		[]string{"now `250ms`,"},
	},
	{
		Case{Reason: Timeout, Stage: "CODE"},
		"claude-watchdog",
		"the attempt takes too long",
		[]string{"`timeouts.worker_watchdog_seconds`, now `1s`,"},
	},
	{
		Case{Reason: Timeout, Stage: "CODE", Cause: "request timed out"},
		"claude",
		"`claude` reports a timeout",
		[]string{"Retake did not end it"},
	},
	{
		Case{Reason: Validation, Stage: "CODE", Cause: "cat: nofile: No such file or directory"},
		"agent-script",
		"`agent.sh` rejects its input",
		[]string{"correct `agent.sh`"},
	},
	{
		Case{Reason: AgentCrash, Stage: "CODE", Repeated: true},
		"claude-process",
		"`claude` crashes every time",
		[]string{"another version of the agent on the director's machine"},
	},
	{
		Case{Reason: Overloaded, Stage: "CODE", Alike: 3},
		"openai-overloaded",
		"OpenAI is overloaded",
		[]string{"status page"},
	},
	{
		Case{Reason: Unknown, Stage: "CODE"},
		"agent-script",
		"`agent.sh` failed without giving a reason", nil,
	},
	{
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: "remote: error: GH013: - Push cannot contain secrets"},
		"", "GitHub found a secret in the change",
		[]string{"revoke it", "/agent retry Remove the secret"},
	},
	{Case{Reason: "nonsense"}, "", "an unknown failure", nil},
}

// TestWordsOfACase checks the title, the question and the recommended comment of each case.
func TestWordsOfACase(t *testing.T) {
	for _, tc := range wordsOfACaseCases {
		tc.c.Happened = recorded.Circumstances(t, tc.happened)
		w := tc.c.Words()
		if w.Title != tc.title {
			t.Errorf("%s at %q: title %q, want %q", tc.c.Reason, tc.c.Stage, w.Title, tc.title)
		}
		for _, s := range tc.says {
			if !strings.Contains(w.Ask+"\n"+w.Command, s) {
				t.Errorf("%s at %q: %q lacks %q", tc.c.Reason, tc.c.Stage, w.Ask+"\n"+w.Command, s)
			}
		}
	}
}
