package github

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"retake/internal/secrets/redact"
)

var update = flag.Bool("update", false, "rewrite the golden comments in testdata")

func noToken(context.Context) (string, error) { return "token", nil }

var sample = Escalation{
	Key: "acme/widgets#1", Nonce: testNonce, AttemptID: testNonce + "-2",
	Reply:   "/agent retry <what the agent should do differently>",
	Command: []string{"go", "build", "./..."}, ExitCode: new(1), Branch: "retake/1-a2",
	BranchURL: "https://github.test/acme/widgets/tree/retake/1-a2",
	Answers:   []AnswerLine{{By: "octocat", At: time.Unix(150, 0), Text: "decodeHeader is in the other repository."}},
	Stage:     "VALIDATE", Reason: "build_failed", Title: "the build fails",
	Cause: "./parser.go:12:9: undefined: decodeHeader",
	Alike: []string{"acme/widgets#1", "acme/widgets#4", "big/acme/widgets#5", "acme/gadgets#2"},
	Tried: []string{"3 rounds of CODE and VALIDATE in attempt 2, each shown the failure of the last"},
	Attempts: []AttemptLine{
		{1, "CODE", "worker_lost", "container killed by SIGKILL", "fresh worker on the same checkout", time.Time{}},
		{2, "VALIDATE", "build_failed", "./parser.go:12:9: undefined: decodeHeader", "asked a human", time.Time{}},
	},
	WhyStopped: "The build fails with the same error after 3 fix rounds. The policy allows no further attempt for " +
		"`build_failed`: a retry would only spend budget.",
	Ask: "`parser.go` calls `decodeHeader`, which does not exist in this repository. Say in a comment where " +
		"it should come from, or add it to `main`.",
	Tail: "# example.com/widgets\n./parser.go:12:9: undefined: decodeHeader\n./parser.go:31:14: too many " +
		"arguments in call to readBody\n\thave (io.Reader, int)\n\twant (io.Reader)\nFAIL\texample.com/widgets " +
		"[build failed]\n",
}

var question = Escalation{
	Key: "acme/widgets#1", Nonce: testNonce, AttemptID: testNonce + "-1", Stage: "CODE", Reason: "needs_human",
	Title: "a question",
	Cause: "Two formats are described in the issue, and they contradict each other:",
	Question: "Two formats are described in the issue, and they contradict each other:\n\n- **A**: `key=value`, one " +
		"per line\n- **B**: JSON\n\n" +
		"Which of the two is meant? See @octocat's comment.\n```\nparse(A)",
	Facts:      []string{"exit code 0"},
	Attempts:   []AttemptLine{{1, "CODE", "needs_human", "a question", "asked a human", time.Time{}}},
	WhyStopped: "needs_human: asks for a decision", Ask: "Answer the question.", Reply: "/agent retry <your answer>",
}

var stale = Escalation{
	Key: "acme/widgets#1", Nonce: testNonce, AttemptID: testNonce + "-1", Reason: "worker_lost",
	Title: "the worker keeps disappearing", Cause: "nothing happened in this claim for 6h0m0s",
	WhyStopped: "This claim went stale a second time.", Ask: "Look at the host.", Reply: "/agent resume",
	Unsafe: "a secret in conf/prod.env:2", Reclaim: "nothing happened in it for 6h0m0s",
}

// TestCommentTexts holds what people read against files that are reviewed as such; -update rewrites them.
func TestCommentTexts(t *testing.T) {
	c, err := New(Options{BaseURL: testAPI, Fleet: "default", Token: noToken, Labels: testLabels})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"reply-why": c.replyText(ReplyRequest{
			Kind: ReplyWhy, Task: ProgressView{
				State: "Backoff", Attempt: 5, Note: "the limit of the model's provider",
				Attempts: slices.Repeat(sample.Attempts, 2),
			},
			Until: time.Date(2026, 11, 22, 16, 0, 0, 0, time.UTC), Can: []Command{CommandSnooze, CommandStop},
		}, thread{}),
		"reply-why-first": c.replyText(ReplyRequest{Kind: ReplyWhy, Task: ProgressView{State: "Running", Attempt: 1}},
			thread{}),
		"reply-help": c.replyText(ReplyRequest{Kind: ReplyHelp}, thread{}),
		"reply-refused": c.replyText(ReplyRequest{
			Kind:    ReplyRefused,
			Why:     "the work is in review as pull request #8; `/agent fix <text>` begins another attempt at it.",
			Instead: "Comment `/agent why` to see what Retake is doing.",
		}, thread{}),
		"reply-misspelt": c.replyText(ReplyRequest{Kind: ReplyMisspelt, Word: "retyr", Meant: CommandRetry},
			thread{}),
		"reply-not-a-word": c.replyText(ReplyRequest{Kind: ReplyMisspelt, Word: "`<!-- @octocat"}, thread{}),
		"reply-no-command": c.replyText(ReplyRequest{Kind: ReplyMisspelt}, thread{}),
		"escalation":       c.escalationText(sample),
		"stale":            c.escalationText(stale),
		"question":         c.escalationText(question),
		"claim":            c.page("claim", testNonce),
		"progress": c.page("progress",
			progressPage{
				ProgressView: ProgressView{State: "Running", Attempt: 2, Attempts: sample.Attempts[:1]},
				Nonce:        testNonce,
			}),
		"validating": c.page("progress",
			progressPage{ProgressView: ProgressView{
				State: "Running", Attempt: 3, Validates: true,
				Attempts: sample.Attempts[:1],
			}, Nonce: testNonce}),
		"to-validate": c.page("progress", progressPage{
			ProgressView: ProgressView{State: "Backoff", Attempt: 2, Validates: true}, Nonce: testNonce,
		}),
		"waits": c.page("progress", progressPage{
			ProgressView{State: "Blocked", Attempt: 2, Attempts: sample.Attempts},
			testNonce,
			asked{"your check `go build ./...` failed", "https://github.test/acme/widgets/issues/1#issuecomment-7"},
		}),
		"snoozed": c.page("progress", progressPage{
			ProgressView: ProgressView{State: "Parked", Attempt: 2, PutOff: time.Date(2026, 11, 22, 17, 28, 0, 0,
				time.UTC), Note: "octocat commented /agent snooze"}, Nonce: testNonce,
		}),
		"reclaim": c.page("release",
			releasePage{ReleaseRequest: ReleaseRequest{
				Nonce: testNonce, Why: "no progress for 6h0m0s",
				RestoreTask: true, Reclaim: true,
			}}),
		"release": c.page("release",
			releasePage{ReleaseRequest: ReleaseRequest{
				Nonce: testNonce, Why: "no progress for 6 hours",
				RestoreTask: true,
			}}),
	} {
		golden(t, name, got)
	}
}

func TestCommentsAreWrittenInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
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
		if want := map[string]int{"thread.go": 2}[file]; writes != want {
			t.Errorf("%s writes comments in %d places, want %d: use post or edit, which begin with a marker", file,
				writes, want)
		}
	}
}

func TestRepliesAreShort(t *testing.T) {
	c, err := New(Options{BaseURL: testAPI, Fleet: "default", Token: noToken, Labels: testLabels})
	if err != nil {
		t.Fatal(err)
	}
	full := ReplyRequest{
		Task: ProgressView{
			State: "Blocked", Attempt: 80, Note: strings.Repeat("long\n", 400),
			Attempts: slices.Repeat(sample.Attempts, 40),
		},
		Until: time.Unix(1, 0), Can: []Command{
			CommandRetry, CommandResume, CommandFresh, CommandSnooze, CommandBudget,
			CommandTake, CommandStop,
		},
		Why: strings.Repeat("long\n", 400), Instead: strings.Repeat("long\n", 400),
		Word: strings.Repeat("x", wordLimit),
	}
	for _, full.Kind = range []ReplyKind{ReplyWhy, ReplyHelp, ReplyRefused, ReplyMisspelt} {
		text := strings.TrimSpace(c.replyText(full, thread{}))
		if full.Kind == ReplyHelp {
			text = strings.Replace(text, "| --- | --- | --- |\n", "", 1) // no line on the page
		}
		if n := strings.Count(text, "\n") + 1; n > 10 || strings.Contains(text, "cannot be shown") {
			t.Errorf("%s has %d lines:\n%s", full.Kind, n, text)
		}
	}
}

// TestAReplyForEachText: the same comment once more is answered once, an edit of it anew.
func TestAReplyForEachText(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		id := w.sim.AddComment(w.key, "acme", "/agent retyr")
		req := ReplyRequest{Key: w.key, Comment: id, Kind: ReplyMisspelt, Word: "retyr", Meant: CommandRetry}
		now := time.Now()
		for _, step := range []struct {
			comment int64
			edit    time.Time
			replies int
		}{{id, now, 1}, {id, now, 1}, {id, now.Add(time.Minute), 2}, {id, now, 2}, {id + 1, now, 3}} {
			req.Comment, req.Edit = step.comment, step.edit
			w.must(w.client("retake-bot").Reply(w.Context(), req))
			if got := w.marked(markReply); len(got) != step.replies {
				w.Errorf("%+v: %d replies", step, len(got))
			}
		}
		w.sim.Delete(w.key)
		w.must(c.Reply(w.Context(), req))
	})
}

func TestProgressIsOneCommentAndSaysNothingTwice(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.Context()
		c := w.client("retake-bot")
		if err := c.Progress(ctx, w.key, testNonce, ProgressView{State: "Running"}); !isGone(err) {
			w.Errorf("progress without a claim: %v, want not_found", err)
		}
		w.claimed(c)
		view := ProgressView{State: "Running", Attempt: 1}
		w.must(c.Progress(ctx, w.key, testNonce, view))
		n := len(w.sim.Requests())
		w.must(c.Progress(ctx, w.key, testNonce, view))
		if len(w.sim.Requests()) != n {
			w.Errorf("the same text again caused requests: %+v", w.sim.Requests()[n:])
		}
		writes := len(w.changes())
		w.must(w.client("retake-bot").Progress(ctx, w.key, testNonce, view)) // remembers nothing
		if len(w.changes()) != writes {
			w.Errorf("the same text was sent by a new client")
		}
		view.Note = "waits for GitHub"
		w.must(c.Progress(ctx, w.key, testNonce, view))
		if got := w.marked(markClaim); len(got) != 1 || !strings.Contains(got[0].Body, "waits for GitHub") {
			w.Errorf("comments = %+v", got)
		}
	})
}

// TestWhatWaitsLinksItsQuestion: the latest, from the claim comment and from a reply, also for a client that
// remembers nothing.
func TestWhatWaitsLinksItsQuestion(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.Context()
		c := w.client("retake-bot")
		w.claimed(c)
		view := ProgressView{State: "Blocked", Attempt: 1, Attempts: sample.Attempts[:1]}
		w.must(c.Progress(ctx, w.key, testNonce, view))
		if body := w.marked(markClaim)[0].Body; !strings.Contains(body, "waits for an answer to its question") {
			w.Errorf("without a question: %q", body)
		}
		for i, title := range []string{"your check `./check.sh` failed", "see [this](https://evil.test), @octocat"} {
			w.must(c.Escalate(ctx, Escalation{Key: w.key, Nonce: testNonce, AttemptID: "x-1", Block: "x-1." +
				strconv.Itoa(i), Title: title}))
			w.sim.AddComment(w.key, "retake-bot", "### Retake needs a human: nothing of ours")
			w.must(w.client("retake-bot").Progress(ctx, w.key, testNonce, view))
			id := w.sim.AddComment(w.key, "acme", "/agent why")
			w.must(c.Reply(ctx, ReplyRequest{Key: w.key, Comment: id, Edit: time.Now(), Kind: ReplyWhy, Task: view}))
			shown := []string{"your check `./check.sh` failed", "see this (`https://evil.test`), @\u200boctocat"}[i]
			want := fmt.Sprintf("**Retake** waits for an answer: "+
				"[%s](https://github.test/acme/widgets/issues/1#issuecomment-%d).", shown, w.marked(markBlocked)[i].ID)
			if body := w.marked(markClaim)[0].Body; !strings.Contains(body, want) {
				w.Errorf("claim comment %q, want %q", body, want)
			}
			to := fmt.Sprintf("To `acme` ([comment](https://github.test/acme/widgets/issues/1#issuecomment-%d)): ", id)
			if body := w.marked(markReply)[i].Body; !strings.Contains(body, to+want) {
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
		req := DeliverRequest{
			Key: w.key, Nonce: testNonce, Branch: "retake/1-a1", Base: "main",
			Title: "Parse\nit, @octocat", Summary: "Fixes #7", PullRequest: true,
		}
		got, err := c.Deliver(ctx, req)
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

		// A human closes it; the next task of the issue pushes a branch of the same name and gets a pull
		// request of its own.
		w.sim.SetState(testRepo+"#2", "acme", "closed")
		if again, err := c.Deliver(ctx, req); err != nil || again != got {
			w.Errorf("again = %+v, %v", again, err)
		}
		w.sim.AddLabel(w.key, "acme", "agent-task")
		req.Nonce = "aaaabbbb"
		if r, err := c.Claim(ctx, claimRequest(w, req.Nonce)); err != nil || r.Outcome != Won {
			w.Fatalf("claim = %+v, %v", r, err)
		}
		if got, err = c.Deliver(ctx, req); err != nil || got.PullRequest != 3 {
			w.Errorf("second delivery = %+v, %v", got, err)
		}
	})
}

func TestDeliverWithoutPullRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.claimed(c)
		got, err := c.Deliver(w.Context(), DeliverRequest{Key: w.key, Nonce: testNonce, Branch: "retake/1-a1"})
		w.must(err)
		if got.PullRequest != 0 || got.URL != "https://github.test/acme/widgets/tree/retake/1-a1" {
			w.Errorf("delivered = %+v", got)
		}
		if body := w.marked(markClaim)[0].Body; !strings.Contains(body, "[`retake/1-a1`]("+got.URL+")") ||
			!strings.Contains(body, `"ended":"delivered"`) {
			w.Errorf("final report = %q", body)
		}
	})
}

func TestTheTokenIsNeverPosted(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.claimed(c)
		w.must(c.Escalate(w.Context(), Escalation{
			Key: w.key, Nonce: testNonce, AttemptID: "x-1",
			Tail: "remote: token-of-retake-bot",
		}))
		if body := w.marked(markBlocked)[0].Body; strings.Contains(body, "token-of-retake-bot") ||
			!strings.Contains(body, redact.Marker) {
			w.Errorf("body = %q", body)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{BaseURL: testAPI, Fleet: "default", Token: noToken}
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
		if p, err := parseKey(key); err == nil {
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
		if _, err := c.Issue(w.Context(), w.key); kindOf(err) != KindUnauthorized {
			w.Errorf("error = %v", err)
		}
	})
}
