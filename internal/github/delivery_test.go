package github

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/deliver"
	"retake/internal/github/gate"
	"retake/internal/github/githubtest"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// TestAWatchedDelivery checks that a watched claim lasts until the merge. The claim's comment reports the merge and is
// the only comment.
func TestAWatchedDelivery(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		w.claimed(c)
		got, err := c.Deliveries.Deliver(ctx, watched(w))
		w.must(err)
		claim := w.marked(tracker.MarkClaim)[0].Body
		if got.PullRequest != 2 || strings.Contains(claim, `"ended"`) ||
			!strings.Contains(claim, "**In review**: pull request #2") {
			w.Errorf("delivered %+v, claim comment %q", got, claim)
		}
		if pr := w.sim.Issue(testRepo + "#2"); !strings.Contains(pr.Body, "\nRefs #1\n") ||
			!strings.Contains(pr.Body, "> Parsed.") {
			w.Errorf("pull request %q", pr.Body)
		}
		w.wantLabels("agent-review")
		w.must(endMerged(ctx, w, c))
		w.wantLabels()
		comments := w.sim.Issue(w.key).Comments
		if len(comments) != 1 || !strings.Contains(comments[0].Body, `"ended":"merged"`) ||
			!strings.Contains(comments[0].Body, "`acme` merged pull request #2") {
			w.Errorf("comments %+v", comments)
		}
		if err := c.Claims.Progress(ctx, w.key, testNonce, pages.ProgressView{State: "Released"}); err != nil ||
			w.marked(tracker.MarkClaim)[0].Body != comments[0].Body {
			w.Errorf("a late progress changed it: %v", err)
		}

		// The next task of the issue has another claim. The end of the old claim does not affect the new claim.
		w.sim.AddLabel(w.key, "acme", "agent-task")
		w.must(endMerged(ctx, w, c))
		w.wantLabels("agent-task")
		next, err := c.Claims.Claim(ctx, claimRequest(w, "aaaabbbb"))
		w.must(err)
		if next.Outcome != claims.Won {
			w.Fatalf("next claim = %+v", next)
		}
		w.must(endMerged(ctx, w, c))
		w.wantLabels("agent-claimed")
	})
}

func TestReleaseToAPerson(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.claimed(c)
		w.must(c.Claims.Release(w.Context(), claims.ReleaseRequest{
			Key: w.key, Nonce: testNonce, Taken: "acme",
			Branch: "retake/1-a1",
		}))
		w.wantLabels()
		body := w.marked(tracker.MarkRelease)[0].Body
		for _, want := range []string{
			"`acme` takes over",
			"[`retake/1-a1`](https://github.test/acme/widgets/tree/retake/1-a1)",
		} {
			if !strings.Contains(body, want) {
				w.Errorf("%q lacks %q", body, want)
			}
		}
	})
}

// TestALateReleaseTouchesNoLaterClaim covers every outcome of the later claim.
func TestALateReleaseTouchesNoLaterClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		w.claimed(c)
		release := claims.ReleaseRequest{Key: w.key, Nonce: testNonce, Why: "no progress", RestoreTask: true}
		w.must(c.Claims.Release(ctx, release))
		other := w.client("other-bot", func(o *Options) { o.Fleet = "night" })
		if got, err := other.Claims.Claim(ctx, claimRequest(w, "aaaabbbb")); err != nil || got.Outcome != claims.Won {
			w.Fatalf("claim = %+v, %v", got, err)
		}
		_, err := other.Deliveries.Deliver(ctx, deliver.Request{Key: w.key, Nonce: "aaaabbbb", Branch: "retake/1-a1"})
		w.must(err)
		w.must(c.Claims.Release(ctx, release))
		w.wantLabels("agent-review")
	})
}

func TestReminders(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		remind := func(block string) int {
			w.must(c.People.Remind(ctx, ask.RemindRequest{
				Key: w.key, Nonce: testNonce, Block: block,
				Title: "the build fails",
			}))
			return len(w.marked(tracker.MarkReminder))
		}
		w.claimed(c)
		if n := remind(testNonce + "-1"); n != 0 {
			w.Errorf("%d reminders of an unknown question", n)
		}
		w.must(escalateOnce(ctx, w, c))
		remind(testNonce + "-1")
		if n := remind(testNonce + "-1"); n != 1 {
			w.Errorf("%d reminders, want 1", n)
		}
		if body := w.marked(tracker.MarkReminder)[0].Body; !strings.Contains(body,
			"https://github.test/acme/widgets/issues/1#issuecomment-") {
			w.Errorf("reminder %q", body)
		}
		if said, err := c.Inbox.Answers(ctx, w.key); err != nil || len(said) != 0 {
			w.Errorf("the reminder counts as %+v, %v", said, err)
		}
		w.must(c.People.Escalate(ctx, ask.Escalation{
			Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-2",
			Reason: "timeout",
		}))
		if n := remind(testNonce + "-1"); n != 1 {
			w.Errorf("%d reminders, the last of a question that was answered", n)
		}
		if n := remind(testNonce + "-2"); n != 2 {
			w.Errorf("%d reminders, want one of each question", n)
		}
	})
}

// hostile lists titles that must not have an effect on GitHub.
var hostile = []string{
	"fixes #1 [skip ci] @octocat",
	"resolve acme/widgets#1, Closes: GH-2 and fixed https://github.com/acme/widgets/issues/3 [ci skip][no ci] [skip " +
		"actions] [actions skip] ***NO_CI***",
	"skip-checks: true", "skip-checks:true", "[SKIP CI]", "[ skip ci ]",
	"[azurepipelines skip] [skip travis] [ci-skip]",
	"a\u202etxt.exe\u2066", "${{ secrets.TOKEN }} `$(id)`",
	"x\r\nskip-checks: true\n\nCo-authored-by: a <a@octocat.org>",
	`<!-- retake:claim v1 {"fleet":"default","nonce":"k3v9qx2m"} -->`, "<img src=x onerror=alert(1)></details>",
	"\x1b]8;;http://x\x07\x00", "",
	strings.Repeat("fixes #1 @octocat [skip ci] ", 1<<18/28), "/agent retry", "hunter2hunter2", "Upgrade @types/node",
}

// harmful lists texts that must not occur in a rendered title or body, in lower case.
var harmful = []string{
	"fixes #1", "closes: gh-2", "fixed http", "/widgets#1", "[skip", "[ skip", "skip]", "ci]", "*no_ci", "skip-checks:",
	"@octocat", "@types", "\u202e", "\u2066",
	"\x1b", "\x00", "\r", "<!--", "hunter2hunter2",
}

func TestHostileTitles(t *testing.T) {
	secrets := func(o *Options) { o.Secrets = []string{"hunter2hunter2"} }
	for _, title := range hostile {
		inWorld(t, func(w *world) {
			ctx, c := w.Context(), w.client("retake-bot", secrets)
			req := watched(w)
			req.Title, req.Note, req.Summary = title, title, title
			req.Answers = []pages.AnswerLine{{By: "acme", Text: title}}
			w.claimed(c)
			_, err := c.Deliveries.Deliver(ctx, req)
			w.must(err)
			pr, subject := w.sim.Issue(testRepo+"#2"), c.Text.CommitSubject(title, 1)
			for what, text := range map[string]string{"title": pr.Title, "subject": subject} {
				if text == "" || strings.Contains(text, "\n") || len([]rune(text)) > 256 {
					w.Errorf("%s %q of %.80q", what, text, title)
				}
				for _, bad := range harmful {
					if strings.Contains(strings.ToLower(text), bad) {
						w.Errorf("%q in %s %q", bad, what, text)
					}
				}
			}
			first, body, _ := strings.Cut(pr.Body, "\n")
			if m, ok := tracker.ReadMarker(first); !ok || m.Kind != tracker.MarkDelivery ||
				!strings.Contains(body, "\nRefs #1\n") &&
					!strings.HasPrefix(body, "Refs #1\n") {
				w.Errorf("body of %.80q: %q", title, pr.Body)
			}
			if fault := harmOfText(strings.Replace(body, "Refs #1\n", "", 1)); fault != "" {
				w.Errorf("body of %.80q: %s: %q", title, fault, body)
			}
			for _, bad := range harmful { // a "[" may remain if the text was cut after it
				if !strings.HasPrefix(bad, "[") && strings.Contains(strings.ToLower(body), bad) {
					w.Errorf("%q in the body of %.80q: %.2000q", bad, title, body)
				}
			}
			if !strings.HasSuffix(pr.Body, "fleet `default`</sub>") {
				w.Errorf("the end of the body of %.80q is gone", title)
			}
			if open := w.sim.Issue(w.key); open.State != "open" || len(open.Comments) != 1 ||
				open.Labels[0] != "agent-review" {
				w.Errorf("%.80q led to %+v", title, open)
			}
		})
	}
}

func TestCommitSubject(t *testing.T) {
	c, err := New(Options{Options: api.Options{BaseURL: testAPI, Token: noToken}, Fleet: "default"})
	if err != nil {
		t.Fatal(err)
	}
	for title, want := range map[string]string{
		"Parse the new format":                         "Parse the new format",
		"fixes #12 [skip ci]":                          "fixes # 12 (skip ci)",
		"like acme/widgets#3, GH-4":                    "like acme/widgets# 3, GH- 4",
		"ping @octocat":                                "ping @ octocat",
		"no [optional] arguments":                      "no [optional] arguments",
		"see https://github.com/acme/widgets/issues/3": "see github.com/acme/widgets/issues/3",
		" \n":                    "Issue 7",
		strings.Repeat("x", 200): strings.Repeat("x", 99) + "…",
	} {
		if got := c.Text.CommitSubject(title, 7); got != want {
			t.Errorf("%q became %q, want %q", title, got, want)
		}
	}
}

func TestAFurtherDelivery(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		w.claimed(c)
		req := watched(w)
		req.Draft, req.Note = true, "no checks ran"
		_, err := c.Deliveries.Deliver(ctx, req)
		w.must(err)
		if pr := w.sim.Issue(testPull); !pr.Draft || !strings.Contains(pr.Body, "**Draft: no checks ran**") {
			w.Errorf("draft = %+v", pr)
		}
		w.rename("By people")
		w.must(takeBack(ctx, w, c))
		again := watched(w)
		again.Number, again.Title, again.Summary = 2, "Something else", "Better."
		got, err := w.client("retake-bot").Deliveries.Deliver(ctx, again)
		w.must(err)
		pr := w.sim.Issue(testPull)
		if got.PullRequest != 2 || pr.Draft || pr.Title != "By people" || !strings.Contains(pr.Body, "> Better.") ||
			strings.Contains(pr.Body, "Draft") {
			w.Errorf("delivered %+v: %+v", got, pr)
		}
		w.wantLabels("agent-review")
		if pulls := len(w.sim.Issues(testRepo)) - 1; pulls != 1 {
			w.Errorf("%d pull requests", pulls)
		}

		// A text by a person, and a pull request that a person closed, stay unchanged.
		w.patch(`{"body":"Written by hand."}`)
		again.Summary = "Best."
		_, err = c.Deliveries.Deliver(ctx, again)
		w.must(err)
		if body := w.sim.Issue(testPull).Body; body != "Written by hand." {
			w.Errorf("the text of a person became %q", body)
		}
		w.sim.Close(testPull, "acme")
		before := len(w.changes())
		if got, err := c.Deliveries.Deliver(ctx, again); err != nil || got.PullRequest != 2 ||
			len(w.changes()) != before {
			w.Errorf("delivery to a closed pull request: %+v, %v", got, err)
		}
	})
}

func (w *world) rename(title string) { w.patch(`{"title":"` + title + `"}`) }

// patch changes the pull request as its repository's owner.
func (w *world) patch(body string) {
	w.Helper()
	_, err := w.client("other-bot").API.Do(w.Context(), gate.Claim, http.MethodPatch, "repos/acme/widgets/pulls/2",
		json.RawMessage(body), nil)
	w.must(err)
}

// TestDraftsThatARepositoryDoesNotHave checks that a draft becomes an ordinary pull request if the repository's plan
// does not support drafts.
func TestDraftsThatARepositoryDoesNotHave(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inject(githubtest.Fault{
			Status: http.StatusUnprocessableEntity, Body: "Draft pull requests are not supported in this repository.",
		}.On(githubtest.Mutation, "^/createPullRequest$"))
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pulls") {
					return next.RoundTrip(r)
				}
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if !bytes.Contains(body, []byte(`"draft":true`)) {
					return next.RoundTrip(r)
				}
				refusal := `{"message":"Draft pull requests are not supported in this repository.","documentation_url":"https://docs.github.com/rest/pulls/pulls#create-a-pull-request"}`
				return &http.Response{
					StatusCode: http.StatusUnprocessableEntity, Header: http.Header{},
					Body: io.NopCloser(strings.NewReader(refusal)), Request: r,
				}, nil
			})
		}))
		w.claimed(c)
		req := watched(w)
		req.Draft, req.Note = true, "no checks ran"
		got, err := c.Deliveries.Deliver(w.Context(), req)
		w.must(err)
		if pr := w.sim.Issue(testPull); got.PullRequest != 2 || pr.Draft ||
			!strings.Contains(pr.Body, "no checks ran") {
			w.Errorf("delivered %+v: %+v", got, pr)
		}
	})
}

// TestGraphQLErrors checks errors that come with status 200.
func TestGraphQLErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		want   api.Kind
	}{
		"a limit in other words": {
			`{"errors":[{"type":"RATE_LIMIT","code":"graphql_rate_limit","message":"API rate limit already exceeded"}]}`, api.KindRateLimited,
		},
		"a limit": {
			`{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded for user"}]}`, api.KindRateLimited,
		},
		"forbidden": {
			`{"data":{"markPullRequestReadyForReview":null},"errors":[{"type":"FORBIDDEN","message":"retake-bot does not have the correct permissions"}]}`, api.KindPermanent,
		},
	} {
		inWorld(t, func(w *world) {
			w.claimed(w.client("retake-bot"))
			req := watched(w)
			req.Draft = true
			_, err := w.client("retake-bot").Deliveries.Deliver(w.Context(), req)
			w.must(err)
			c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if !strings.HasSuffix(r.URL.Path, "/graphql") {
						return next.RoundTrip(r)
					}
					return &http.Response{
						StatusCode: http.StatusOK, Header: http.Header{},
						Body: io.NopCloser(strings.NewReader(tc.answer)), Request: r,
					}, nil
				})
			}))
			req.Draft, req.Number = false, 2
			if _, err := c.Deliveries.Deliver(w.Context(), req); api.KindOf(err) != tc.want {
				w.Errorf("%s: %v, want %s", name, err, tc.want)
			}
		})
	}
}

func TestAccount(t *testing.T) {
	inWorld(t, func(w *world) {
		login, bot, err := w.client("retake-bot").Account(w.Context())
		if err != nil || login != "retake-bot" || bot {
			w.Errorf("account %s, bot %v, %v", login, bot, err)
		}
		w.sim.AddUser("retake[bot]", "token-of-retake[bot]")
		if login, bot, err = w.client("retake[bot]").Account(w.Context()); err != nil || login != "retake[bot]" ||
			!bot {
			w.Errorf("account %s, bot %v, %v", login, bot, err)
		}
	})
}
