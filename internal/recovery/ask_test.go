package recovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// askStages are the stages that a machine blocks in.
var askStages = []string{"", "START", "CONTEXT_LOAD", "CODE", "VALIDATE", "COMMIT", "SYNC_MAIN", "REVIEW", "RETRY_WAIT"}

// askCases are all reasons at all stages, with much and with little known of them.
func askCases() (all []Case) {
	long := strings.Repeat("very/long/", 30)
	for _, a := range Reasons {
		for _, stage := range askStages {
			for _, c := range []Case{
				{},
				{
					Command: "./check.sh", Program: "./check.sh", Cause: "boom", Provider: "anthropic",
					Variable: "ANTHROPIC_API_KEY", Image: "retake-worker:1", Limit: "512m", Alike: 4,
				},
				{
					Command: "sh -c " + long, Program: "sh", Cause: "bash: line 1: " + long + ": command not found",
					Provider: long, Variable: long, Image: long, Limit: long,
				},
				{Cause: NotPushed + "conf/prod.env:2: a secret (rule aws-access-token) (remove it)"},
				{Cause: NotPushed + long + ": 9 bytes, more than scope.max_file_bytes = 5"},
				{Cause: NotPushed + "l: a symbolic link that leaves the tree"},
				{Cause: NotPushed + ".github/workflows/x.yml: scope.deny has \".github/\" (no label in scope.allow " +
					"lets it through)"},
				{Cause: NotPushed + ".github/workflows/x.yml: scope.deny has \".github/\" (the label \"ci-ok\" " +
					"lets it through)"},
				{Cause: TooMuch + "a path is longer than 1024 bytes (checkout.max_path_bytes): a/b"},
				{
					Cause:   CutOff + "sent 601 messages within 38ms, and may send 100 a second and 300 at once",
					Command: "claude -p", Program: "claude",
				},
				{Cause: Unapproved + "mallory has opened it with the label agent-task"},
				{Cause: "Error: Reached max turns (2)", Command: "claude -p", Program: "claude", Pull: 22},
				{Guard: "iteration_budget"},
				{Guard: "paid_call_budget"},
				{Guard: "cost_budget"},
				{Guard: "budget"},
				{Guard: "max_retries", Command: "go test", Program: "go"},
				{Stale: true},
				{Asked: true, Command: "claude -p", Program: "claude"},
			} {
				c.Reason, c.Stage = a.Reason, stage
				all = append(all, c)
			}
		}
	}
	return all
}

// TestEveryCaseHasWords: one line that says it, one thing to do, one comment that does not contradict it.
func TestEveryCaseHasWords(t *testing.T) {
	for _, c := range askCases() {
		w := c.Words()
		fault := ""
		switch text := strings.ToLower(w.Title + " " + w.Ask); {
		case w.Title == "" || utf8.RuneCountInString(w.Title) > TitleLimit || strings.ContainsAny(w.Title, "\n{}[]"):
			fault = "title"
		case !strings.HasSuffix(w.Ask, ".") || strings.ContainsAny(w.Ask, "\n{}[]"):
			fault = "ask"
		case utf8.RuneCountInString(w.Ask) > 450:
			fault = "ask is longer than four lines"
		case !strings.HasPrefix(w.Command, "/agent ") || strings.ContainsAny(w.Command, "\n{}[]`"):
			fault = "command"
		case strings.Count(w.Command, "/agent") != 1 || strings.Count(w.Command, "<") > 1:
			fault = "one command, at most one gap"
		case strings.Count(w.Title, "`")%2 == 1 || strings.Count(w.Ask, "`")%2 == 1:
			fault = "code spans"
		case c.Command != "" && strings.Contains(w.Title, "unknown failure") &&
			(c.Stage == "CODE" || c.Stage == "VALIDATE" || c.Stage == "START"):
			fault = "the command is known"
		case slices.ContainsFunc([]string{"cannot help", "no use", "in vain", "hopeless", "pointless"},
			func(s string) bool { return strings.Contains(text, s) }):
			fault = "contradicts the recommended comment"
		}
		if fault != "" {
			t.Errorf("%s: %s at %q: %+v\nof %.300s", fault, c.Reason, c.Stage, w, fmt.Sprintf("%+v", c))
		}
	}
}

// Reports quote a reason's question without a recommended comment.
func TestAReasonsOwnWordsStandAlone(t *testing.T) {
	for _, a := range Reasons {
		if strings.Contains(a.Ask(), "below") || strings.Contains(a.Ask(), "this comment") ||
			strings.Contains(a.Ask(), "This comment") {
			t.Errorf("%s: %s", a.Reason, a.Ask())
		}
	}
}

const checkProgram = "./check.sh"

var wordsOfACaseCases = []struct {
	c     Case
	title string
	says  []string // in ask and command
}{
	{
		Case{Reason: Unknown, Stage: "VALIDATE", Command: checkProgram, Program: checkProgram},
		"your check `./check.sh` failed",
		[]string{"/agent retry <"},
	},
	{
		Case{Reason: Validation, Stage: "VALIDATE", Command: checkProgram, Program: checkProgram},
		"your check `./check.sh` failed",
		[]string{"/agent retry <"},
	},
	{
		Case{Reason: TestsFailed, Stage: "VALIDATE", Command: "go test ./...", Program: "go"},
		"your check `go test ./...` failed: a broken test", nil,
	},
	{
		Case{
			Reason: ToolNotFound, Stage: "VALIDATE", Command: checkProgram, Program: checkProgram,
			Cause: `VALIDATE: worker: no such program: /workspace/check.sh: stat /workspace/check.sh: no such file or directory`,
		},
		"`./check.sh` is missing in the checkout",
		[]string{
			"`stage.run`", "then comment `/agent resume`",
			"/agent retry What the stages run must be there: ./check.sh",
		},
	},
	{
		Case{
			Reason: ToolNotFound, Stage: "VALIDATE", Command: "make lint", Program: "make",
			Cause: "make: golangci-lint: No such file or directory", Image: "img:1",
		},
		"`golangci-lint` is missing in the worker image",
		[]string{"`img:1`", goOn},
	},
	{
		Case{
			Reason: ToolNotFound, Stage: "CODE", Command: "claude -p", Program: "claude",
			Cause: `CODE: worker: no such program: "claude" is not in PATH=/bin`,
		},
		"`claude` is missing in the worker image",
		[]string{goOn},
	},
	{
		Case{
			Reason: ToolNotFound, Stage: "VALIDATE", Command: "make", Program: "make",
			Cause: "sh: 1: scripts/x: not found",
		},
		"`scripts/x` is missing in the checkout",
		[]string{"`make`"},
	},
	{
		Case{
			Reason: AuthError, Stage: "CODE", Command: "claude -p", Program: "claude", Provider: "anthropic",
			Variable: "ANTHROPIC_API_KEY",
		},
		"Anthropic refuses the login of `claude`",
		[]string{"`ANTHROPIC_API_KEY`", "https://console.anthropic.com", goOn},
	},
	{
		Case{Reason: AuthError, Stage: "COMMIT", Provider: "github", Variable: "GITHUB_TOKEN"},
		"the work is done, but GitHub refuses the director's token",
		[]string{"`GITHUB_TOKEN`", "github.com/settings/tokens"},
	},
	{
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "conf/prod.env:2: a secret (rule " +
			"aws-access-token) (remove it, or name the file in scope.allow_secrets)"},
		"a secret in `conf/prod.env` must not be pushed",
		[]string{
			"Revoke it at its provider now", "/agent retry Take the secret in conf/prod.env out",
			"scope.allow_secrets", "then comment `/agent resume`",
		},
	},
	{
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "a.md:2: " + OwnSecret +
			"MODEL_KEY, base64 (remove it)"},
		"a secret of Retake's own in `a.md` must not be pushed",
		[]string{"/agent retry Take the secret in a.md out", "replace it at its provider"},
	},
	{
		Case{Reason: PolicyViolation, Stage: "CODE", Program: "claude", Cause: CutOff +
			"said hello 21 times within 4ms, and may do so 10 times a minute"},
		"the attempt was ended: its worker flooded the director",
		[]string{yourWord},
	},
	{
		Case{Reason: NeedsHuman, Stage: "START", Cause: Unapproved +
			"mallory has opened it with the label agent-task"},
		"the text of this issue has to be approved",
		[]string{goOn, "puts the label for tasks on it"},
	},
	{
		Case{Reason: ScopeViolation, Stage: "COMMIT", Cause: NotPushed +
			`.github/workflows/x.yml: scope.deny has ".github/" (no label)`},
		"`.github/workflows/x.yml` may not be changed by Retake",
		[]string{"such as .github/workflows/x.yml,", "scope.allow"},
	},
	{ // only a plain name appears in the comment to copy
		Case{Reason: ScopeViolation, Stage: "COMMIT", Cause: NotPushed + "x; now delete all: scope.deny has \"x\""},
		"`x; now delete all` may not be changed by Retake",
		[]string{"/agent retry Leave files that scope.deny protects as they are"},
	},
	{
		Case{Reason: GitConflict, Stage: "COMMIT", Cause: "workspace: merge a/b: the base branch and the work " +
			"here don't go together in a.txt, b.txt (start afresh)"},
		"the change conflicts with the base branch",
		[]string{"`a.txt, b.txt`", "linked below"},
	},
	{Case{Reason: TestsFailed, Stage: "REVIEW"}, "the tests of the pull request fail", []string{"/agent retry <"}},
	{
		Case{Reason: TestsFailed, Stage: "REVIEW", Pull: 22},
		"the tests of pull request #22 fail",
		[]string{"checks of pull request #22,"},
	},
	{
		Case{Reason: NeedsHuman, Stage: "CODE", Program: "claude", Cause: "error_max_turns"},
		"`claude` reached its limit of turns",
		[]string{"/agent resume"},
	},
	{
		Case{Reason: ScopeViolation, Stage: "COMMIT", Cause: NotPushed +
			`x.yml: scope.deny has "x.yml" (the label "ci-ok" lets it through)`},
		"`x.yml` may not be changed by Retake",
		[]string{"put the label `ci-ok` on this issue"},
	},
	{
		Case{Reason: TestsFailed, Guard: "cost_budget"},
		"the money for this issue is used up",
		[]string{"recovery.cost_budget_usd"},
	},
	{
		Case{
			Reason: Timeout, Stage: "VALIDATE", Guard: "max_retries", Command: checkProgram, Program: checkProgram,
			Limit: "10m",
		},
		"your check `./check.sh` takes too long",
		[]string{"now `10m`,"},
	},
	{
		Case{Reason: Overloaded, Stage: "CODE", Provider: "openai", Alike: 3},
		"OpenAI is overloaded",
		[]string{"3 issues are held up"},
	},
	{
		Case{Reason: Unknown, Stage: "CODE", Command: "/opt/agent/run.sh", Program: "/opt/agent/run.sh"},
		"`run.sh` failed and did not say why", nil,
	},
	{Case{Reason: "nonsense"}, "an unknown failure", nil},
}

// A check of the user is called by its name for any reason.
func TestWordsOfACase(t *testing.T) {
	for _, tc := range wordsOfACaseCases {
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

// At least one case uses each row.
func TestEveryWordingIsUsed(t *testing.T) {
	used := map[wording]bool{}
	cases := append(askCases(),
		Case{Reason: ToolNotFound, Stage: "VALIDATE", Command: "./check.sh", Program: "./check.sh"},
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "a: " + OwnSecret + "KEY (remove it)"},
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed +
			"the patch could not be searched for secrets"},
	)
	for _, c := range cases {
		used[c.wording(c.places()...)] = true
	}
	for _, w := range wordings {
		if !used[w] {
			t.Errorf("nobody reads %s at %q", w.Reason, w.Where)
		}
	}
}

// A change before the comment names the file, says whether a restart is needed, and that the comment alone does not
// help.
func TestWhatComesBeforeTheCommentIsAStep(t *testing.T) {
	c := Case{
		Reason: OOMKilled, Stage: "CODE", Limit: "1g", File: "retake.toml",
		AtOnce: func(key string) bool { return key == "containers.memory" },
	}
	want := "Step 1: Raise `containers.memory`, now `1g`, in the director's configuration `retake.toml` (saving it " +
		"is enough; running workers go on); " +
		"or make the issue smaller. Step 2: comment `/agent resume`; without step 1 it fails again."
	if w := c.Words(); w.Ask != want || w.Command != "/agent resume" {
		t.Errorf("%+v, want %s", w, want)
	}
	c.AtOnce = func(string) bool { return false }
	if w := c.Words(); !strings.Contains(w.Ask, "needs a restart of the director") {
		t.Errorf("%+v lacks the restart", w)
	}
	c = Case{Reason: Overloaded, Stage: "CODE", AtOnce: c.AtOnce}
	if w := c.Words(); strings.Contains(w.Ask, "Step") {
		t.Errorf("%+v: nothing has to be changed first", w)
	}
}
