package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/claims"
	"retake/internal/github/gate"
	"retake/internal/github/githubtest"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

func keysOf(issues []tracker.Issue) (keys []string) {
	for _, i := range issues {
		keys = append(keys, i.Key)
	}
	return keys
}

func TestAnIdlePollIsOneConditionalRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		ctx := w.Context()
		first, err := c.Inbox.Poll(ctx, testRepo, "")
		w.must(err)
		if !slices.Equal(keysOf(first.Issues), []string{w.key}) || first.Cursor == "" {
			w.Fatalf("first poll = %+v", first)
		}
		cursor := first.Cursor
		for range 2 { // the first cursor is a little before the change, the next one is the change itself
			page, err := c.Inbox.Poll(ctx, testRepo, cursor)
			w.must(err)
			cursor = page.Cursor
		}
		before := len(w.sim.Requests())
		for range 5 {
			time.Sleep(30 * time.Second)
			page, err := c.Inbox.Poll(ctx, testRepo, cursor)
			w.must(err)
			if !page.Same || page.Cursor != cursor || !slices.Equal(keysOf(page.Issues), []string{w.key}) {
				w.Fatalf("idle poll = %+v", page)
			}
		}
		for _, r := range w.sim.Requests()[before:] {
			if r.Status != http.StatusNotModified {
				w.Errorf("idle request = %+v, want 304", r)
			}
		}
		if n := len(w.sim.Requests()) - before; n != 5 {
			w.Errorf("%d requests for 5 polls", n)
		}

		time.Sleep(time.Minute)
		w.sim.SetState(w.key, "acme", "closed")
		page, err := c.Inbox.Poll(ctx, testRepo, cursor)
		w.must(err)
		if page.Cursor == cursor || len(page.Issues) != 1 || page.Issues[0].State != "closed" {
			w.Errorf("poll after a change = %+v", page)
		}
	})
}

func TestFirstPollDoesNotReadHistory(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 150 {
			k := w.sim.CreateIssue(testRepo, "acme", fmt.Sprint("old ", i), "")
			w.sim.SetState(k, "acme", "closed")
		}
		blocked := w.sim.CreateIssue(testRepo, "acme", "stuck", "", "agent-blocked", "agent-task")
		c := w.client("retake-bot")
		page, err := c.Inbox.Poll(w.Context(), testRepo, "")
		w.must(err)
		if !slices.Equal(keysOf(page.Issues), []string{w.key, blocked}) {
			w.Errorf("issues = %q", keysOf(page.Issues))
		}
		if n := len(w.sim.Requests()); n != 3 {
			w.Errorf("%d requests, want one per label", n)
		}
		if want := api.Format(time.Now().Add(-(10 * time.Second))); page.Cursor != want {
			w.Errorf("cursor = %s, want %s", page.Cursor, want)
		}
	})
}

// TestPollReadsOnByTime polls more changes than fit on a page, with many in one second and a change between two pages.
func TestPollReadsOnByTime(t *testing.T) {
	inWorld(t, func(w *world) {
		cursor := api.Format(time.Now())
		for range 230 {
			w.sim.CreateIssue(testRepo, "acme", "of one second", "")
		}
		for i := range 120 {
			time.Sleep(time.Second)
			w.sim.CreateIssue(testRepo, "acme", fmt.Sprint("later ", i), "")
		}
		lists := 0
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if lists++; lists == 3 {
					time.Sleep(time.Second)
					w.sim.AddComment(testRepo+"#260", "acme", "moves to the end, and everything behind it forward")
				}
				return resp, err
			})
		}))
		page, err := c.Inbox.Poll(w.Context(), testRepo, cursor)
		w.must(err)
		seen := keysOf(page.Issues)
		slices.Sort(seen)
		if n := len(slices.Compact(seen)); n != 351 || len(page.Issues) != 351 {
			w.Errorf("%d issues in %d entries, want 351", n, len(page.Issues))
		}
		if page.Cursor != api.Format(time.Now()) {
			w.Errorf("cursor = %s, want the last change", page.Cursor)
		}
	})
}

// TestPollReadsASecondAgain polls more changes in one second than a page holds. Some issues change again during the
// poll, so that others move to a page that was already read.
func TestPollReadsASecondAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		cursor := api.Format(time.Now())
		for range 250 {
			w.sim.CreateIssue(testRepo, "acme", "of one second", "")
		}
		lists := 0
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if lists++; lists <= 2 {
					time.Sleep(time.Second)
					w.sim.AddComment(fmt.Sprintf("%s#%d", testRepo, 10+lists), "acme", "moves to the end")
				}
				return resp, err
			})
		}))
		page, err := c.Inbox.Poll(w.Context(), testRepo, cursor)
		w.must(err)
		if len(page.Issues) != 251 {
			w.Errorf("%d issues, want 251", len(page.Issues))
		}
	})
}

func TestPollLeavesOutPullRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.claimed(c)
		w.must(operations["deliver"].run(w.Context(), w, c))
		page, err := c.Inbox.Poll(w.Context(), testRepo, api.Format(time.Now().Add(-time.Hour)))
		w.must(err)
		if !slices.Equal(keysOf(page.Issues), []string{w.key}) || len(w.sim.Issues(testRepo)) != 2 {
			w.Errorf("issues = %q", keysOf(page.Issues))
		}
	})
}

func TestIssueThatIsElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		status int
		moved  string
	}{
		"deleted":     {func(w *world) { w.sim.Delete(w.key) }, 410, ""},
		"never there": {func(w *world) { w.key = testRepo + "#99" }, 404, ""},
		"transferred": {func(w *world) {
			w.sim.CreateIssue("acme/other", "acme", "x",
				"")
			w.sim.Transfer(w.key, "acme/other")
		}, 301, "acme/other#2"},
		"transferred, same number": {
			func(w *world) { w.sim.Transfer(w.key, "acme/other") }, 301,
			"acme/other#1",
		},
		"the repository got another name": {func(w *world) { w.sim.Rename(testRepo, "gadgets") }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.must(w.sim.AddRepo("acme/other", "", nil))
				tc.change(w)
				issue, err := w.surely(w.client("retake-bot"), w.key)
				if tc.status == 0 {
					if err != nil || issue.Key != w.key || issue.Title != "Parse the new format" {
						w.Errorf("issue = %+v, %v; want it under the requested key", issue, err)
					}
					return
				}
				if e := asError(w.T, err); e.Kind != api.KindNotFound || e.Status != tc.status ||
					e.MovedTo != tc.moved {
					w.Errorf("error = %+v, want not_found, %d, moved to %q", e, tc.status, tc.moved)
				}
			})
		})
	}
}

// TestRedirectedWritesStayWrites checks that the client repeats a redirected write. net/http would answer a redirected
// POST with a GET, and report success.
func TestRedirectedWritesStayWrites(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.sim.Rename(testRepo, "gadgets")
		w.inject(githubtest.Fault{
			Method: "POST", Path: "/labels", Status: 301,
			Header: map[string]string{"Location": testAPI + "repos/acme/gadgets/issues/1/labels"},
			Body:   `{"message":"Moved Permanently"}`,
		})
		w.claimed(c)
		if got := w.sim.Issue("acme/gadgets#1").Labels; !slices.Equal(got, []string{"agent-claimed"}) {
			w.Errorf("labels = %q", got)
		}
		w.inject(githubtest.Fault{Status: 301, Header: map[string]string{"Location": "https://evil.test/api/v3/x"}})
		if _, err := c.Issues.Issue(w.Context(), w.key); api.KindOf(err) != api.KindPermanent ||
			!strings.Contains(err.Error(), "another host") {
			w.Errorf("error = %v, want permanent: the token stays with its host", err)
		}
		w.inject(githubtest.Fault{
			Times: 6, Status: 307,
			Header: map[string]string{"Location": testAPI + "repos/acme/gadgets/issues/1"},
		})
		if _, err := c.Issues.Issue(w.Context(), w.key); api.KindOf(err) != api.KindPermanent {
			w.Errorf("error = %v, want permanent: a loop", err)
		}
	})
}

func TestErrorKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		fault githubtest.Fault
		kind  api.Kind
		text  string
	}{
		"500":            {githubtest.ServerError(500), api.KindTransient, "Server Error"},
		"502 of a proxy": {githubtest.Fault{Status: 502, Body: "<html>bad gateway</html>"}, api.KindTransient, "502"},
		"cut before":     {githubtest.Fault{CutBefore: true}, api.KindTransient, "no response"},
		"cut after":      {githubtest.Fault{CutAfter: true}, api.KindTransient, "no response"},
		"401": {
			githubtest.Fault{Status: 401, Body: `{"message":"Bad credentials"}`},
			api.KindUnauthorized,
			"Bad credentials",
		},
		"403": {
			githubtest.Fault{Status: 403, Body: `{"message":"Must have admin rights to Repository."}`},
			api.KindPermanent, "admin rights",
		},
		"422": {
			githubtest.Fault{
				Status: 422,
				Body:   `{"message":"Validation Failed","errors":[{"field":"body","code":"missing"}]}`,
			},
			api.KindPermanent,
			"Validation Failed; body missing",
		},
		"408":             {githubtest.Fault{Status: 408}, api.KindTransient, "408"},
		"200, no JSON":    {githubtest.Fault{Status: 200, Body: "<html>"}, api.KindTransient, "unusable response"},
		"200, other JSON": {githubtest.Fault{Status: 200, Body: "{}"}, api.KindTransient, "not an issue"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c, err := New(Options{
					Options: api.Options{
						BaseURL:   testAPI,
						Transport: w.sim.Transport(),
						Token:     func(context.Context) (string, error) { return "token-of-retake-bot", nil },
					},
					Fleet: "default",
				})
				w.must(err)
				w.inject(tc.fault)
				_, err = c.Issues.Issue(w.Context(), w.key)
				if e := asError(w.T, err); e.Kind != tc.kind || !strings.Contains(e.Error(), tc.text) ||
					e.Status != tc.fault.Status && e.Status != 0 {
					w.Errorf("error = %v, want %s with %q", e, tc.kind, tc.text)
				}
			})
		})
	}
}

func TestEnsureLabels(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.must(c.Labels.EnsureLabels(w.Context(), testRepo))
		n := len(w.changes())
		if n != 3 { // agent-task came with the issue
			w.Errorf("%d labels created, want 3", n)
		}
		w.must(c.Labels.EnsureLabels(w.Context(), testRepo))
		if len(w.changes()) != n {
			w.Errorf("existing labels were created again: %+v", w.changes())
		}
		if err := w.client("mallory").Labels.EnsureLabels(w.Context(), testRepo); err != nil {
			w.Errorf("the labels exist, so there is nothing to write: %v", err)
		}
	})
}

func TestRequestsFitGitHubsDescription(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, before := w.Context(), validated.Load()
		odd := testLabels
		odd.Task, odd.Claimed = "needs: agent/work", "agent claimed?"
		w.sim.AddLabel(w.key, "acme", odd.Task)
		c := w.client("retake-bot", func(o *Options) { o.Labels = odd })
		w.must(c.Labels.EnsureLabels(ctx, testRepo))
		_, err := c.Inbox.Poll(ctx, testRepo, "")
		w.must(err)
		w.claimed(c)
		w.must(c.Claims.Progress(ctx, w.key, testNonce, pages.ProgressView{State: "Running", Attempt: 1}))
		w.must(operations["escalate"].run(ctx, w, c))
		id := w.sim.AddComment(w.key, "acme", "/agent retry")
		for _, content := range []string{tracker.ReactionConfused, tracker.ReactionUnderstood, "heart"} {
			w.must(c.People.React(ctx, w.key, id, content))
		}
		_, err = c.Inbox.Answers(ctx, w.key)
		w.must(err)
		_, _, _, err = c.Claims.Stale(ctx, w.key)
		w.must(err)
		w.sim.RemoveLabel(w.key, "acme", "agent-blocked")
		_, _, err = c.Inbox.Unblocked(ctx, w.key)
		w.must(err)
		w.claimed(c)
		w.must(operations["deliver"].run(ctx, w, c))
		w.must(c.Claims.Release(ctx, claims.ReleaseRequest{Key: w.key, Nonce: testNonce}))
		w.sim.AddLabel(w.key, "acme", odd.Task)
		w.sim.RemoveLabel(w.key, "retake-bot", odd.Task) // as a claim that stopped between its labels: events are read
		_, err = c.Claims.Claim(ctx, claimRequest(w, "aaaabbbb"))
		w.must(err)
		_, err = w.surely(c, testRepo+"#99")
		if !api.IsGone(err) {
			w.Error(err)
		}
		for _, path := range []string{
			"user", "rate_limit", "repos/acme/widgets", "repos/acme/widgets/pulls/2",
			"repos/acme/widgets/labels/agent-blocked",
			"repos/acme/widgets/collaborators/retake-bot", "repos/acme/widgets/collaborators/retake-bot/permission",
			"repos/acme/widgets/issues/1/labels",
		} {
			_, err := c.API.Do(ctx, gate.Reads, "GET", path, nil, nil)
			w.must(err)
		}
		if n := validated.Load() - before; n < 40 {
			w.Errorf("only %d exchanges were checked", n)
		}
	})
}
