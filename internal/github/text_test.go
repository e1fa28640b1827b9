package github

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/command"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
	"retake/internal/recovery"
)

var update = flag.Bool("update", false, "rewrite the golden comments in testdata")

func noToken(context.Context) (string, error) { return "token", nil }

var sample = ask.Escalation{
	Key: "acme/widgets#1", Nonce: testNonce, AttemptID: testNonce + "-2",
	Reply:   "/agent retry <what the agent should do differently>",
	Command: []string{"go", "build", "./..."}, ExitCode: new(1), Branch: "retake/1-a2",
	BranchURL: "https://github.test/acme/widgets/tree/retake/1-a2",
	Answers: []pages.AnswerLine{{
		By: "octocat", At: time.Unix(150, 0),
		Text: "decodeHeader is in the other repository.",
	}},
	Stage: "VALIDATE", Reason: "build_failed", Title: "the build fails",
	Cause: "./parser.go:12:9: undefined: decodeHeader",
	Alike: []string{"acme/widgets#1", "acme/widgets#4", "big/acme/widgets#5", "acme/gadgets#2"},
	Tried: []string{"3 rounds of CODE and VALIDATE in attempt 2, each with the failure of the previous round"},
	Attempts: []pages.AttemptLine{
		{
			Number: 1, Stage: "CODE", Reason: "worker_lost", Cause: "container killed by SIGKILL",
			Then: recovery.RestartWorker.About().Done, At: time.Time{},
		},
		{
			Number: 2, Stage: "VALIDATE", Reason: "build_failed", Cause: "./parser.go:12:9: undefined: decodeHeader",
			Then: recovery.Escalate.About().Done, At: time.Time{},
		},
	},
	WhyStopped: "The build fails with the same error after 3 fix rounds. The policy allows no further attempt for " +
		"`build_failed`: a retry would only spend budget.",
	Ask: "`parser.go` calls `decodeHeader`, which does not exist in this repository. Say in a comment where " +
		"it should come from, or add it to `main`.",
	Tail: "# example.com/widgets\n./parser.go:12:9: undefined: decodeHeader\n./parser.go:31:14: too many " +
		"arguments in call to readBody\n\thave (io.Reader, int)\n\twant (io.Reader)\nFAIL\texample.com/widgets " +
		"[build failed]\n",
}

var question = ask.Escalation{
	Key: "acme/widgets#1", Nonce: testNonce, AttemptID: testNonce + "-1", Stage: "CODE", Reason: "needs_human",
	Title: "a question",
	Cause: "Two formats are described in the issue, and they contradict each other:",
	Question: "Two formats are described in the issue, and they contradict each other:\n\n- **A**: `key=value`, one " +
		"per line\n- **B**: JSON\n\n" +
		"Which of the two is meant? See @octocat's comment.\n```\nparse(A)",
	Facts: []string{"exit code 0"},
	Attempts: []pages.AttemptLine{{
		Number: 1, Stage: "CODE", Reason: "needs_human", Cause: "a question",
		Then: recovery.Escalate.About().Done,
	}},
	WhyStopped: "needs_human: asks for a decision", Ask: "Answer the question.", Reply: "/agent retry <your answer>",
}

// plainQuestion is like question, but a comment without a command answers it.
func plainQuestion() ask.Escalation {
	q := question
	q.TakesReply = true
	return q
}

var stale = ask.Escalation{
	Key: "acme/widgets#1", Nonce: testNonce, AttemptID: testNonce + "-1", Reason: "worker_lost",
	Title: "the worker keeps disappearing", Cause: "no progress on this claim for 6h",
	WhyStopped: "This claim went stale a second time.",
	Ask:        "Look at the host.", Invite: "Then comment:", Reply: "/agent resume",
	Unsafe: "a secret in conf/prod.env:2", Reclaim: "no progress on this claim for 6h",
}

// questionsAndReplies returns texts of package ask.
func questionsAndReplies(c *ask.Asker) map[string]string {
	return map[string]string{
		"reply-why": c.ReplyText(ask.ReplyRequest{
			Kind: ask.ReplyWhy, Task: pages.ProgressView{
				State: "Backoff", Attempt: 5, Note: "the limit of the model's provider",
				Attempts: slices.Repeat(sample.Attempts, 2),
			},
			Until: time.Date(2026, 11, 22, 16, 0, 0, 0, time.UTC), Can: []command.Name{command.Snooze, command.Stop},
		}, tracker.Thread{}),
		"reply-why-first": c.ReplyText(ask.ReplyRequest{
			Kind: ask.ReplyWhy, Task: pages.ProgressView{State: "Running", Attempt: 1},
		},
			tracker.Thread{}),
		"reply-help": c.ReplyText(ask.ReplyRequest{Kind: ask.ReplyHelp}, tracker.Thread{}),
		"reply-misspelt": c.ReplyText(ask.ReplyRequest{
			Kind: ask.ReplyMisspelt, Word: "retyr", Meant: command.Retry,
		},
			tracker.Thread{}),
		"reply-not-a-word": c.ReplyText(ask.ReplyRequest{
			Kind: ask.ReplyMisspelt, Word: "`<!-- @octocat",
		}, tracker.Thread{}),
		"reply-no-command": c.ReplyText(ask.ReplyRequest{Kind: ask.ReplyMisspelt}, tracker.Thread{}),
		"escalation":       c.Preview(sample),
		"stale":            c.Preview(stale),
		"question":         c.Preview(question),
		"question-plain":   c.Preview(plainQuestion()),
	}
}

// claimTexts returns texts of package claims.
func claimTexts(c *pages.Text) map[string]string {
	return map[string]string{
		"claim": c.Page("claim", testNonce),
		"progress": c.Page("progress",
			claims.ProgressPage{
				ProgressView: pages.ProgressView{State: "Running", Attempt: 2, Attempts: sample.Attempts[:1]},
				Nonce:        testNonce,
			}),
		"validating": c.Page("progress",
			claims.ProgressPage{ProgressView: pages.ProgressView{
				State: "Running", Attempt: 3, Validates: true,
				Attempts: sample.Attempts[:1],
			}, Nonce: testNonce}),
		"to-validate": c.Page("progress", claims.ProgressPage{
			ProgressView: pages.ProgressView{State: "Backoff", Attempt: 2, Validates: true}, Nonce: testNonce,
		}),
		"waits": c.Page("progress", claims.ProgressPage{
			ProgressView: pages.ProgressView{State: "Blocked", Attempt: 2, Attempts: sample.Attempts},
			Nonce:        testNonce,
			Asked: pages.Asked{
				Title: "your check `go build ./...` failed",
				URL:   "https://github.test/acme/widgets/issues/1#issuecomment-7",
			},
		}),
		"snoozed": c.Page("progress", claims.ProgressPage{
			ProgressView: pages.ProgressView{State: "Parked", Attempt: 2, PutOff: time.Date(2026, 11, 22, 17, 28, 0, 0,
				time.UTC), Note: "octocat commented /agent snooze"}, Nonce: testNonce,
		}),
		"reclaim": c.Page("release",
			claims.ReleasePage{ReleaseRequest: claims.ReleaseRequest{
				Nonce: testNonce, Why: "no progress on this claim for 6h",
				RestoreTask: true, Reclaim: true,
			}}),
		"release": c.Page("release",
			claims.ReleasePage{ReleaseRequest: claims.ReleaseRequest{
				Nonce: testNonce, Why: "no progress on this claim for 6h",
				RestoreTask: true,
			}}),
	}
}

// TestCommentTexts compares texts for people with golden files. -update rewrites the files.
func TestCommentTexts(t *testing.T) {
	c, err := New(Options{Options: api.Options{BaseURL: testAPI, Token: noToken}, Fleet: "default", Labels: testLabels})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range questionsAndReplies(c.People) {
		golden(t, name, got)
	}
	for name, got := range claimTexts(c.Text) {
		golden(t, name, got)
	}
}

func TestCommentsAreWrittenInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		writes := strings.Count(string(code), "Issues."+"CreateComment(") +
			strings.Count(string(code), "Issues."+"EditComment(")
		if want := map[string]int{filepath.Join("tracker", "thread.go"): 2}[file]; writes != want {
			t.Errorf("%s writes comments in %d places, want %d: use post or edit, which begin with a marker", file,
				writes, want)
		}
	}
}
