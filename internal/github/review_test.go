package github

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/deliver"
	"retake/internal/github/githubtest"
)

const testPull = testRepo + "#2"

// delivered claims the issue and opens pull request 2.
func (w *world) delivered(c *Client) {
	w.Helper()
	w.claimed(c)
	got, err := c.Deliveries.Deliver(w.Context(), watched(w))
	w.must(err)
	if got.PullRequest != 2 {
		w.Fatalf("delivered = %+v", got)
	}
}

func (w *world) pull(c *Client) deliver.PullRequest {
	w.Helper()
	pr, err := c.Deliveries.PullRequest(w.Context(), w.key, 2)
	w.must(err)
	return pr
}

func TestPullRequestView(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.delivered(c)
		head := w.sim.Issue(testPull).HeadSHA
		want := deliver.PullRequest{
			Number: 2, URL: "https://github.test/acme/widgets/pull/2", State: deliver.PullOpen, Head: head,
			Settled: true,
		}
		check := func(what string) {
			w.Helper()
			got := w.pull(c)
			if got.State == deliver.PullOpen {
				again, err := c.Deliveries.Refresh(w.Context(), w.key, got)
				w.must(err)
				if !reflect.DeepEqual(again, got) {
					w.Errorf("%s: %+v when refreshed, want %+v", what, again, got)
				}
			}
			if got.Determined = false; !reflect.DeepEqual(got, want) {
				w.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		check("nothing has happened")

		w.sim.SetCheck(testPull, "ci", "", "")
		w.sim.SetStatus(testPull, "deploy", "pending", "waits")
		want.Settled = false
		check("checks are under way")
		for _, conclusion := range []string{"success", "neutral", "skipped", "cancelled"} {
			w.sim.SetCheck(testPull, "ci", conclusion, "")
			check(conclusion)
		}
		w.checksFail(c)
		w.sim.SetCheck(testPull, "ci", "success", "")
		w.sim.SetStatus(testPull, "deploy", "success", "")
		want.Settled = true
		check("the check passes again")

		w.sim.SetConflict(testPull, true)
		check("unknown so far")
		want.Conflict = true
		check("a conflict")
		w.sim.SetConflict(testPull, false)
		want.Conflict = false
		check("found out anew")
		w.sim.SetDraft(testPull, "acme", true)
		want.Draft = true
		check("a draft")
		w.must(merge(w))
		want = deliver.PullRequest{Number: 2, URL: want.URL, State: deliver.PullMerged, By: "acme", Head: head}
		check("merged")
	})
}

// TestRefreshSeesNewVerdicts checks that a refresh notices failing checks, and forgets failures that are over.
func TestRefreshSeesNewVerdicts(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.delivered(c)
		before := w.pull(c)
		w.sim.SetCheck(testPull, "ci", "failure", "")
		failing, err := c.Deliveries.Refresh(w.Context(), w.key, before)
		w.must(err)
		if len(failing.Failing) != 1 || failing.Number != before.Number || failing.Head != before.Head {
			w.Errorf("a failing check: %+v", failing)
		}
		w.sim.SetCheck(testPull, "ci", "success", "")
		if passing, err := c.Deliveries.Refresh(w.Context(), w.key, failing); err != nil || len(passing.Failing) != 0 {
			w.Errorf("it passes again: %+v, %v", passing, err)
		}
	})
}

// TestBranchHead reads a branch twice. The second answer is a 304, which the hourly limit ignores.
func TestBranchHead(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		head, err := c.Deliveries.BranchHead(w.Context(), testRepo, "main")
		w.must(err)
		before := len(w.sim.Requests())
		again, err := c.Deliveries.BranchHead(w.Context(), testRepo, "main")
		w.must(err)
		if r := w.sim.Requests(); len(head) != 40 || again != head || r[len(r)-1].Status != 304 || len(r) != before+1 {
			w.Errorf("head %q, then %q: %+v", head, again, r[before:])
		}
		if none, err := c.Deliveries.BranchHead(w.Context(), testRepo, "missing"); none != "" || err != nil {
			w.Errorf("a missing branch: %q, %v", none, err)
		}
	})
}

// checksFail makes a check and a status fail.
func (w *world) checksFail(c *Client) {
	w.Helper()
	w.sim.SetCheck(testPull, "ci", "timed_out", "it took \x1b[31m6 hours\x1b[0m")
	w.sim.SetStatus(testPull, "deploy", "error", "no room")
	got := w.pull(c)
	if len(got.Failing) != 2 || got.Failing[0].Name != "ci" ||
		!strings.Contains(got.Failing[0].Text, "it took 6 hours") || got.Failing[0].URL == "" ||
		got.Failing[1].Name != "deploy" || got.Failing[1].Text != "no room" || !got.Settled {
		w.Errorf("failing checks: %+v", got)
	}
}

func TestClosedPullRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.delivered(c)
		w.sim.Close(testPull, "other-bot")
		if got := w.pull(c); got.State != deliver.PullClosed || got.By != "other-bot" {
			w.Errorf("closed = %+v", got)
		}
		if _, err := c.Deliveries.PullRequest(w.Context(), w.key, 77); !api.IsGone(err) {
			w.Errorf("a pull request that is not there: %v", err)
		}
	})
}

func merge(w *world) error {
	w.sim.SetDraft(testPull, "acme", false)
	return w.sim.Merge(testPull, "acme")
}

func TestChangeRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.sim.AddUser("ann", "token-of-ann")
		w.sim.SetPermission(testRepo, "ann", "write")
		w.delivered(c)
		want := func(what string, by ...string) []deliver.ChangeRequest {
			w.Helper()
			got := w.pull(c).Changes
			var who []string
			for _, v := range got {
				who = append(who, v.By)
			}
			if !reflect.DeepEqual(who, by) {
				w.Errorf("%s: changes wanted by %q, want %q", what, who, by)
			}
			return got
		}
		w.sim.Review(testPull, "mallory", "CHANGES_REQUESTED", "no")
		want("by a person without write access")
		first := w.sim.Review(testPull, "ann", "CHANGES_REQUESTED", "Please:\x07",
			githubtest.Inline{Path: "parser.go", Line: 12, Body: "why not `strings.Cut`?"})
		time.Sleep(time.Minute)
		got := want("by ann", "ann")
		if got[0].ID != first || got[0].Text != "Please:\n\nparser.go:12: why not `strings.Cut`?" ||
			!time.Now().After(got[0].At) || got[0].At.IsZero() {
			w.Errorf("change request %+v", got[0])
		}
		w.sim.Review(testPull, "ann", "COMMENTED", "see above", githubtest.Inline{Path: "x.go", Line: 1, Body: "?"})
		w.sim.Review(testPull, "acme", "CHANGES_REQUESTED", strings.Repeat("long ", 10_000))
		got = want("a comment withdraws no request", "ann", "acme")
		if got[0].ID != first || strings.Contains(got[0].Text, "x.go") || len([]rune(got[1].Text)) > 16_000 {
			w.Errorf("change requests %+v", got)
		}
		w.sim.Review(testPull, "ann", "APPROVED", "")
		want("ann is content", "acme")
		second := w.sim.Review(testPull, "ann", "CHANGES_REQUESTED", "no, wait")
		if got := want("or not", "acme", "ann"); got[1].ID != second {
			w.Errorf("change request %+v", got)
		}
		w.sim.DismissReview(testPull, "acme", second)
		want("dismissed", "acme")
	})
}

// TestAnUnchangedPullRequestCostsNothing checks that GitHub answers all requests for an unchanged pull request with
// 304, so they do not count against the hourly limit.
func TestAnUnchangedPullRequestCostsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.delivered(c)
		w.sim.SetCheck(testPull, "ci", "failure", "2 tests fail")
		w.sim.SetStatus(testPull, "deploy", "pending", "")
		w.sim.Review(testPull, "acme", "CHANGES_REQUESTED", "no", githubtest.Inline{Path: "a.go", Line: 1, Body: "no"})
		w.pull(c)
		first := w.pull(c) // GitHub has now determined whether it can be merged
		for range 3 {
			time.Sleep(time.Hour) // cached permissions expire earlier
			before := len(w.sim.Requests())
			if again := w.pull(c); !reflect.DeepEqual(again, first) || len(again.Changes) != 1 ||
				len(again.Failing) != 1 {
				t.Errorf("again %+v, first %+v", again, first)
			}
			asked := w.sim.Requests()[before:]
			if len(asked) != 6 {
				t.Errorf("%d requests: %+v", len(asked), asked)
			}
			for _, r := range asked {
				if r.Status != http.StatusNotModified {
					t.Errorf("%s %s was answered with %d, which counts", r.Method, r.Path, r.Status)
				}
			}
		}
	})
}

// TestChecksThatTheTokenMayNotReadAreLeftOut checks that a pull request is watched without its checks.
func TestChecksThatTheTokenMayNotReadAreLeftOut(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil && strings.HasSuffix(r.URL.Path, "/check-runs") {
					resp.StatusCode, resp.Body = http.StatusForbidden, http.NoBody
				}
				return resp, err
			})
		}))
		w.delivered(c)
		w.sim.SetCheck(testPull, "ci", "failure", "")
		w.sim.SetStatus(testPull, "deploy", "failure", "no room")
		if got := w.pull(c); len(got.Failing) != 1 || got.Failing[0].Name != "deploy" {
			t.Errorf("pull request %+v", got)
		}
	})
}

func TestDeleteBranch(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		w.delivered(c)
		sha := w.sim.Issue(testPull).HeadSHA
		remove := func(branch, sha string) int {
			w.Helper()
			before := len(w.changes())
			w.must(c.Deliveries.DeleteBranch(ctx, testRepo, branch, sha))
			return len(w.changes()) - before
		}
		if n := remove("retake/1-a1", strings.Repeat("1", 40)); n != 0 {
			t.Error("a branch that has moved was deleted")
		}
		before := len(w.changes())
		if w.must(c.Deliveries.DeleteUnshown(ctx, testRepo, "retake/1-a1", sha)); len(w.changes()) > before {
			t.Error("a branch that people see in a pull request was deleted")
		}
		if n := remove("retake/1-a1", sha); n != 1 || w.sim.Issue(testPull).State != "closed" {
			t.Errorf("%d writes, the pull request is %s", n, w.sim.Issue(testPull).State)
		}
		if n := remove("retake/1-a1", sha); n != 0 {
			t.Error("a branch that is gone was deleted")
		}
		protected := w.sim.Push(testRepo, "main", "")
		remove("main", protected) // GitHub refuses
	})
}
