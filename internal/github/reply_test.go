package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/command"
	"retake/internal/github/deliver"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
	"retake/internal/secrets/redact"
)

func TestRepliesAreShort(t *testing.T) {
	c, err := New(Options{Options: api.Options{BaseURL: testAPI, Token: noToken}, Fleet: "default", Labels: testLabels})
	if err != nil {
		t.Fatal(err)
	}
	full := ask.ReplyRequest{
		Task: pages.ProgressView{
			State: "Blocked", Attempt: 80, Note: strings.Repeat("long\n", 400),
			Attempts: slices.Repeat(sample.Attempts, 40),
		},
		Until: time.Unix(1, 0), Can: []command.Name{
			command.Retry, command.Resume, command.Fresh, command.Snooze, command.Budget,
			command.Take, command.Stop,
		},
		Why: strings.Repeat("long\n", 400), Instead: strings.Repeat("long\n", 400),
		Word: strings.Repeat("x", command.WordLimit),
	}
	for _, full.Kind = range []ask.ReplyKind{ask.ReplyWhy, ask.ReplyHelp, ask.ReplyRefused, ask.ReplyMisspelt} {
		text := strings.TrimSpace(c.People.ReplyText(full, tracker.Thread{}))
		if full.Kind == ask.ReplyHelp {
			text = strings.Replace(text, "| --- | --- | --- |\n", "", 1) // no line on the page
		}
		if n := strings.Count(text, "\n") + 1; n > 10 || strings.Contains(text, "cannot be shown") {
			t.Errorf("%s has %d lines:\n%s", full.Kind, n, text)
		}
	}
}

// TestAReplyForEachText checks that a repeated comment gets one reply, and an edited comment gets a new reply.
func TestAReplyForEachText(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		id := w.sim.AddComment(w.key, "acme", "/agent retyr")
		req := ask.ReplyRequest{Key: w.key, Comment: id, Kind: ask.ReplyMisspelt, Word: "retyr", Meant: command.Retry}
		now := time.Now()
		for _, step := range []struct {
			comment int64
			edit    time.Time
			replies int
		}{{id, now, 1}, {id, now, 1}, {id, now.Add(time.Minute), 2}, {id, now, 2}, {id + 1, now, 3}} {
			req.Comment, req.Edit = step.comment, step.edit
			w.must(w.client("retake-bot").People.Reply(w.Context(), req))
			if got := w.marked(tracker.MarkReply); len(got) != step.replies {
				w.Errorf("%+v: %d replies", step, len(got))
			}
		}
		w.sim.Delete(w.key)
		w.must(c.People.Reply(w.Context(), req))
	})
}

func TestProgressIsOneCommentAndSaysNothingTwice(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.Context()
		c := w.client("retake-bot")
		if err := c.Claims.Progress(ctx, w.key, testNonce, pages.ProgressView{State: "Running"}); !api.IsGone(err) {
			w.Errorf("progress without a claim: %v, want not_found", err)
		}
		w.claimed(c)
		view := pages.ProgressView{State: "Running", Attempt: 1}
		w.must(c.Claims.Progress(ctx, w.key, testNonce, view))
		n := len(w.sim.Requests())
		w.must(c.Claims.Progress(ctx, w.key, testNonce, view))
		if len(w.sim.Requests()) != n {
			w.Errorf("the same text again caused requests: %+v", w.sim.Requests()[n:])
		}
		writes := len(w.changes())
		w.must(w.client("retake-bot").Claims.Progress(ctx, w.key, testNonce, view)) // a new client has an empty cache
		if len(w.changes()) != writes {
			w.Errorf("the same text was sent by a new client")
		}
		view.Note = "waits for GitHub"
		w.must(c.Claims.Progress(ctx, w.key, testNonce, view))
		if got := w.marked(tracker.MarkClaim); len(got) != 1 || !strings.Contains(got[0].Body, "waits for GitHub") {
			w.Errorf("comments = %+v", got)
		}
	})
}

// TestWhatWaitsLinksItsQuestion checks that the claim comment and replies link the latest question, even for a client
// without memory.
func TestWhatWaitsLinksItsQuestion(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.Context()
		c := w.client("retake-bot")
		w.claimed(c)
		view := pages.ProgressView{State: "Blocked", Attempt: 1, Attempts: sample.Attempts[:1]}
		w.must(c.Claims.Progress(ctx, w.key, testNonce, view))
		body := w.marked(tracker.MarkClaim)[0].Body
		if !strings.Contains(body, "is waiting for an answer to its question") {
			w.Errorf("without a question: %q", body)
		}
		for i, title := range []string{"your check `./check.sh` failed", "see [this](https://evil.test), @octocat"} {
			w.must(c.People.Escalate(ctx, ask.Escalation{Key: w.key, Nonce: testNonce, AttemptID: "x-1", Block: "x-1." +
				strconv.Itoa(i), Title: title}))
			w.sim.AddComment(w.key, "retake-bot", "### Retake needs a human: nothing of ours")
			w.must(w.client("retake-bot").Claims.Progress(ctx, w.key, testNonce, view))
			id := w.sim.AddComment(w.key, "acme", "/agent why")
			w.must(c.People.Reply(ctx, ask.ReplyRequest{
				Key: w.key, Comment: id, Edit: time.Now(), Kind: ask.ReplyWhy,
				Task: view,
			}))
			shown := []string{"your check `./check.sh` failed", "see this (`https://evil.test`), @\u200boctocat"}[i]
			want := fmt.Sprintf("**Retake** is waiting for an answer: "+
				"[%s](https://github.test/acme/widgets/issues/1#issuecomment-%d).",
				shown, w.marked(tracker.MarkBlocked)[i].ID)
			if body := w.marked(tracker.MarkClaim)[0].Body; !strings.Contains(body, want) {
				w.Errorf("claim comment %q, want %q", body, want)
			}
			to := fmt.Sprintf("To `acme` ([comment](https://github.test/acme/widgets/issues/1#issuecomment-%d)): ", id)
			if body := w.marked(tracker.MarkReply)[i].Body; !strings.Contains(body, to+want) {
				w.Errorf("reply %q, want %q", body, want)
			}
		}
	})
}

func TestDeliverFindsThePullRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.Context()
		c := w.client("retake-bot")
		w.claimed(c)
		req := deliver.Request{
			Key: w.key, Nonce: testNonce, Branch: "retake/1-a1", Base: "main",
			Title: "Parse\nit, @octocat", Summary: "Fixes #7", PullRequest: true,
		}
		got, err := c.Deliveries.Deliver(ctx, req)
		w.must(err)
		if got.PullRequest != 2 || got.URL != "https://github.test/acme/widgets/pull/2" {
			w.Errorf("delivered = %+v", got)
		}
		pr := w.sim.Issue(testRepo + "#2")
		if !strings.Contains(pr.Body, "\nRefs #1\n") || strings.Contains(pr.Body, "Fixes #7") ||
			pr.Title != "Parse it, @\u200boctocat" || pr.Head != req.Branch {
			w.Errorf("pull request = %+v", pr)
		}
		w.wantLabels("agent-review")

		// A human closes it. The next task of the issue pushes a branch with the same name and gets a separate pull
		// request.
		w.sim.SetState(testRepo+"#2", "acme", "closed")
		if again, err := c.Deliveries.Deliver(ctx, req); err != nil || again != got {
			w.Errorf("again = %+v, %v", again, err)
		}
		w.sim.AddLabel(w.key, "acme", "agent-task")
		req.Nonce = "aaaabbbb"
		if r, err := c.Claims.Claim(ctx, claimRequest(w, req.Nonce)); err != nil || r.Outcome != claims.Won {
			w.Fatalf("claim = %+v, %v", r, err)
		}
		if got, err = c.Deliveries.Deliver(ctx, req); err != nil || got.PullRequest != 3 {
			w.Errorf("second delivery = %+v, %v", got, err)
		}
	})
}

func TestDeliverWithoutPullRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.claimed(c)
		got, err := c.Deliveries.Deliver(w.Context(),
			deliver.Request{Key: w.key, Nonce: testNonce, Branch: "retake/1-a1"})
		w.must(err)
		if got.PullRequest != 0 || got.URL != "https://github.test/acme/widgets/tree/retake/1-a1" {
			w.Errorf("delivered = %+v", got)
		}
		if body := w.marked(tracker.MarkClaim)[0].Body; !strings.Contains(body, "[`retake/1-a1`]("+got.URL+")") ||
			!strings.Contains(body, `"ended":"delivered"`) {
			w.Errorf("final report = %q", body)
		}
	})
}

func TestTheTokenIsNeverPosted(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.claimed(c)
		w.must(c.People.Escalate(w.Context(), ask.Escalation{
			Key: w.key, Nonce: testNonce, AttemptID: "x-1",
			Tail: "remote: token-of-retake-bot",
		}))
		if body := w.marked(tracker.MarkBlocked)[0].Body; strings.Contains(body, "token-of-retake-bot") ||
			!strings.Contains(body, redact.Marker) {
			w.Errorf("body = %q", body)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Options: api.Options{BaseURL: testAPI, Token: noToken}, Fleet: "default"}
	for name, change := range map[string]func(*Options){
		"address": func(o *Options) { o.BaseURL = "api.github.com" },
		"scheme":  func(o *Options) { o.BaseURL = "ftp://x/" },
		"fleet":   func(o *Options) { o.Fleet = "a b" }, "no fleet": func(o *Options) { o.Fleet = "" },
		"token": func(o *Options) { o.Token = nil },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for _, key := range []string{
		"", "acme", "acme/widgets", "acme/widgets#", "acme/widgets#0", "acme/widgets#01",
		"acme/../x#1", "a/b/c#1", "acme/..#1", "acme/w#1?x",
	} {
		if p, err := api.ParseKey(key); err == nil {
			t.Errorf("key %q was read as %+v", key, p)
		}
	}
}

func TestAnEmptyTokenIsUnauthorized(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot",
			func(o *Options) { o.Token = func(context.Context) (string, error) { return " \n", nil } },
			via(func(http.RoundTripper) http.RoundTripper {
				return roundTrip(func(*http.Request) (*http.Response, error) {
					w.Error("a request left")
					return nil,
						errCrash
				})
			}))
		if _, err := c.Issues.Issue(w.Context(), w.key); api.KindOf(err) != api.KindUnauthorized {
			w.Errorf("error = %v", err)
		}
	})
}
