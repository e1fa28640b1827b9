package github

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"pgregory.net/rapid"

	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/deliver"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

var delivery = deliver.Request{
	Nonce: testNonce, Branch: "retake/1-a2", PullRequest: true, Watch: true,
	Summary: "The parser reads `key=value` lines now; fixes #7, thanks @octocat.\n\n- `parser.go`: one loop instead " +
		"of three\n- `parser_test.go`: the examples of the issue",
	Checks: []pages.CheckLine{
		{Stage: "BUILD", Command: []string{"go", "build", "./..."}, Took: 12*time.Second + 340*time.Millisecond},
		{Stage: "VALIDATE", Command: []string{"sh", "-c", "go test ./... | tail"}, Took: 83 * time.Second},
	},
	Attempts: sample.Attempts[:1],
	Answers: []pages.AnswerLine{{
		By: "octocat", At: time.Date(2026, 11, 21, 9, 59, 0, 0, time.UTC),
		Text: "Format **A**, please.",
	}},
	Usage: pages.UsageLine{Attempts: 2, Tokens: 1234567, PaidCalls: 42, CostUSD: 1.5},
}

var outage = ask.IncidentIssue{
	Repo: testRepo, Key: "model:sonnet", Title: "The model provider does not answer",
	Body: "The model's provider answers with status 529 (overloaded)", Open: true,
	Since: time.Date(2026, 11, 21, 9, 59, 0, 0, time.UTC), Waiting: []string{"acme/widgets#1", "acme/gears#12"},
	Check: []string{"the provider's status page", "whether the account has credit left"},
}

// plainReminder is the reminder of plainQuestion.
var plainReminder = ask.ReminderPage{
	RemindRequest: ask.RemindRequest{Nonce: testNonce, Title: question.Title, TakesReply: true},
	Asked:         time.Date(2026, 11, 21, 9, 59, 0, 0, time.UTC),
	Page:          "https://github.test/acme/widgets/issues/1#issuecomment-7", Question: question.Question,
}

// TestDeliveryTexts is like TestCommentTexts, for texts about deliveries.
func TestDeliveryTexts(t *testing.T) {
	c, err := New(Options{Options: api.Options{BaseURL: testAPI, Token: noToken}, Fleet: "default", Labels: testLabels})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"delivered": c.Text.Page("delivered",
			deliver.DeliveredPage{
				Request: delivery, Shown: 2,
				Page: "https://github.test/acme/widgets/tree/retake/1-a2",
			}),
		"branch": c.Text.Page("delivered", deliver.DeliveredPage{
			Request: deliver.Request{Nonce: testNonce, Branch: "retake/1-a2", Summary: delivery.Summary},
			Shown:   0,
			Page:    "https://github.test/acme/widgets/tree/retake/1-a2",
		}),
		"pullrequest": c.Text.MessagePage("pullrequest", deliver.PullRequestPage{Request: delivery, Issue: 1}),
		"pullrequest-clean": c.Text.Page("pullrequest", deliver.PullRequestPage{Request: deliver.Request{
			Nonce: testNonce, Clean: true, Checks: delivery.Checks[1:], Usage: pages.UsageLine{Attempts: 2},
		}, Issue: 1}),
		"merged": c.Text.Page("merged", claims.ReleaseRequest{Nonce: testNonce, PullRequest: 2, By: "octocat"}),
		"taken": c.Text.Page("release", claims.ReleasePage{
			ReleaseRequest: claims.ReleaseRequest{Nonce: testNonce, Taken: "octocat", Branch: "retake/1-a2"},
			Page:           "https://github.test/acme/widgets/tree/retake/1-a2", Over: false,
		}),
		"taken-kept": c.Text.Page("release", claims.ReleasePage{ReleaseRequest: claims.ReleaseRequest{
			Nonce: testNonce, Taken: "octocat", PullRequest: 8,
			Kept: "conf/prod.env:2: a secret (rule aws-access-token)", Attempt: testNonce + "-1",
		}}),
		"review": c.Text.Page("progress", claims.ProgressPage{
			ProgressView: pages.ProgressView{State: "InReview", Attempt: 2, Review: 2},
			Nonce:        testNonce,
		}),
		"reminder": c.Text.Page("reminder", ask.ReminderPage{
			RemindRequest: ask.RemindRequest{Nonce: testNonce, Title: sample.Title},
			Asked:         time.Date(2026, 11, 21, 9, 59, 0, 0, time.UTC),
			Page:          "https://github.test/acme/widgets/issues/1#issuecomment-7",
		}),
		"reminder-plain": c.Text.Page("reminder", plainReminder),
	} {
		golden(t, name, got)
	}
}

// golden compares a text with the golden file of the given name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".md")
	if *update {
		if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got+"\n" != string(want) {
		t.Errorf("%s is now:\n%s\nRun: go test ./internal/github -run Texts -update", name, got)
	}
}

var hostilePart = rapid.SampledFrom([]string{
	"@octocat", "<!-- retake:claim v1 {\"fleet\":\"x\",\"nonce\":\"aaaabbbb\"} -->", "-->", "\n", "\n\n", "```",
	"~~~~", "`", "</details>", "<details>", "</summary>",
	"hunter2", "hunter2hunter2", "\x1b[31m", "\r", "|", "# x", "> ", "\x00", "é", "word ", "<", "!", "--", "fixes ",
	"#1", " [skip ci] ", "\u202e", "@", "    ", "- ", "1. ",
})

// hostileText generates texts by agents and people that try to break a comment.
var hostileText = rapid.Custom(func(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(hostilePart, 0, 40).Draw(t, "parts"),
		"")
})

// TestPullRequestsHoldWhateverTheySay checks pull requests with texts from agents, people, issue titles and failures.
// These texts must not leave their blocks, notify people, close issues or skip checks, or change the end of the body.
func TestPullRequestsHoldWhateverTheySay(t *testing.T) {
	c, err := New(Options{
		Options: api.Options{BaseURL: testAPI, Token: noToken}, Fleet: "default",
		Secrets: []string{"hunter2hunter2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		req := deliver.Request{
			Nonce: testNonce, Draft: rapid.Bool().Draw(t, "draft"), Note: hostileText.Draw(t, "note"),
			Summary: strings.Repeat(hostileText.Draw(t, "summary"),
				rapid.SampledFrom([]int{0, 1, 1, 40, 400}).Draw(t, "n")),
			Checks: []pages.CheckLine{{
				Stage:   hostileText.Draw(t, "stage"),
				Command: []string{"sh", "-c", hostileText.Draw(t, "command")}, Took: time.Second,
			}},
			Attempts: slices.Repeat([]pages.AttemptLine{{
				Number: 1, Stage: hostileText.Draw(t, "s"), Reason: hostileText.Draw(t, "r"),
				Cause: hostileText.Draw(t, "c"), Then: hostileText.Draw(t, "then"),
			}}, 25),
			Answers: slices.Repeat([]pages.AnswerLine{{
				By: hostileText.Draw(t, "by"), At: time.Time{},
				Text: hostileText.Draw(t, "said"),
			}},
				rapid.IntRange(0, 25).Draw(t, "answers")),
			Usage: pages.UsageLine{Attempts: 1},
		}
		body, err := c.Deliveries.PullRequestBody(tracker.Thread{Place: api.Place{Number: 1}}, req)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(body, "<!--") != 1 || utf8.RuneCountInString(body) >= 60_000 ||
			!strings.HasSuffix(body, "fleet `default`</sub>") {
			t.Fatalf("%d characters: %q", utf8.RuneCountInString(body), body)
		}
		for _, bad := range []string{
			"@octocat", "hunter2hunter2", "\x1b", "\r", "\x00", "\u202e", "fixes #1",
			"[skip ci]",
		} {
			if strings.Contains(body, bad) {
				t.Fatalf("%q in %q", bad, body)
			}
		}
		var page bytes.Buffer
		if err := goldmark.Convert([]byte(body), &page); err != nil || !strings.Contains(page.String(),
			"\n<p>Refs #1</p>\n") || !strings.Contains(page.String(), "\n<p>Spent: 1 attempt</p>\n") {
			t.Fatalf("something swallowed the end of %q: %s", body, page.String())
		}
		// Count only tags alone on a line. In code, the tags are text.
		if open, closed := strings.Count(body, "\n<details>\n"), strings.Count(body, "\n</details>\n"); open != closed {
			t.Fatalf("%d details, %d ends in %q", open, closed, body)
		}
	})
}

// A person who marked a draft as ready has not seen a file that a later delivery adds, so it becomes a draft again.
func TestANewReasonForADraft(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		w.claimed(c)
		req := watched(w)
		req.Draft, req.Asked = true, []pages.AskedLine{{Path: "AGENTS.md", Why: "agents"}}
		_, err := c.Deliveries.Deliver(ctx, req)
		w.must(err)
		w.sim.SetDraft(testPull, "acme", false)
		w.must(takeBack(ctx, w, c))
		again := watched(w)
		again.Number, again.Draft, again.Asked, again.Summary = 2, true, req.Asked, "Better."
		_, err = c.Deliveries.Deliver(ctx, again)
		w.must(err)
		if pr := w.sim.Issue(testPull); pr.Draft || !strings.Contains(pr.Body, "> Better.") {
			w.Errorf("a delivery of the same files: %+v", pr)
		}
		w.must(takeBack(ctx, w, c))
		again.Asked = append(again.Asked, pages.AskedLine{Path: ".vscode/tasks.json", Why: "editor"})
		for range 2 {
			_, err = c.Deliveries.Deliver(ctx, again)
			w.must(err)
			if pr := w.sim.Issue(testPull); !pr.Draft || !strings.Contains(pr.Body, ".vscode/tasks.json") {
				w.Errorf("a delivery of one more file: %+v", pr)
			}
		}
	})
}
