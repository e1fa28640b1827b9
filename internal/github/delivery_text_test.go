package github

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var delivery = DeliverRequest{
	Nonce: testNonce, Branch: "retake/1-a2", PullRequest: true,
	Summary: "The parser reads `key=value` lines now; fixes #7, thanks @octocat.\n\n- `parser.go`: one loop instead of three\n- `parser_test.go`: the examples of the issue",
	Checks: []CheckLine{
		{"BUILD", []string{"go", "build", "./..."}, 12*time.Second + 340*time.Millisecond},
		{"VALIDATE", []string{"sh", "-c", "go test ./... | tail"}, 83 * time.Second},
	},
	Attempts: sample.Attempts[:1],
	Answers:  []AnswerLine{{"octocat", time.Date(2026, 11, 21, 9, 59, 0, 0, time.UTC), "Format **A**, please."}},
	Usage:    UsageLine{Attempts: 2, Tokens: 1234567, PaidCalls: 42, CostUSD: 1.5},
}

var outage = IncidentIssue{
	Repo: testRepo, Key: "model:sonnet", Title: "The model provider does not answer", Body: "The model's provider answers with status 529 (overloaded)", Open: true,
	Since: time.Date(2026, 11, 21, 9, 59, 0, 0, time.UTC), Waiting: []string{"acme/widgets#1", "acme/gears#12"},
	Check: []string{"the provider's status page", "whether the account has credit left"},
}

// TestDeliveryTexts is TestCommentTexts for what comes after the work.
func TestDeliveryTexts(t *testing.T) {
	c, err := New(Options{BaseURL: testAPI, Fleet: "default", Token: noToken, Labels: testLabels})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"delivered": c.page("delivered", deliveredPage{delivery, 2, "https://github.test/acme/widgets/tree/retake/1-a2"}),
		"draft": c.page("delivered", deliveredPage{
			DeliverRequest{Nonce: testNonce, Branch: "retake/1-a2", Draft: true, Note: "the check `go test ./...` did not pass."},
			2,
			"https://github.test/acme/widgets/tree/retake/1-a2",
		}),
		"branch": c.page("delivered", deliveredPage{
			DeliverRequest{Nonce: testNonce, Branch: "retake/1-a2", Summary: delivery.Summary}, 0, "https://github.test/acme/widgets/tree/retake/1-a2",
		}),
		"pullrequest": noClosing(c.page("pullrequest", pullRequestPage{delivery, 1})),
		"pullrequest-draft": c.page("pullrequest", pullRequestPage{DeliverRequest{
			Nonce: testNonce, Draft: true, Note: "the check `go test ./...` did not pass.", Summary: strings.Repeat("One more paragraph of what was done.\n\n", 40),
		}, 1}),
		"merged": c.page("merged", ReleaseRequest{Nonce: testNonce, PullRequest: 2, By: "octocat"}),
		"taken": c.page("release", releasePage{
			ReleaseRequest{Nonce: testNonce, Taken: "octocat", Branch: "retake/1-a2"}, "https://github.test/acme/widgets/tree/retake/1-a2",
		}),
		"review": c.page("progress", progressPage{ProgressView{State: "InReview", Attempt: 2, Review: 2}, testNonce}),
		"reminder": c.page("reminder", reminderPage{
			RemindRequest{Nonce: testNonce, Title: sample.Title}, time.Date(2026, 11, 21, 9, 59, 0, 0, time.UTC), "https://github.test/acme/widgets/issues/1#issuecomment-7",
		}),
		"incident": c.page("incident", outage),
		"incident-over": c.page("incident", IncidentIssue{
			Body: outage.Body, Since: outage.Since, Until: outage.Since.Add(90 * time.Minute),
		}),
	} {
		golden(t, name, got)
	}
}

// golden compares a text with a file that is reviewed as such.
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
