package github

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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

func TestClaimAddsCommentsReadsBackAndRemoves(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withoutGraphQL()
		t, c := w.T, w.client("retake-bot")
		w.claimed(c)
		w.wantLabels("agent-claimed")
		var steps []string
		for _, r := range w.changes() {
			steps = append(steps, r.Method+" "+r.Path)
		}
		want := []string{
			"POST /repos/acme/widgets/issues/1/labels", "POST /repos/acme/widgets/issues/1/comments",
			"DELETE /repos/acme/widgets/issues/1/labels/agent-task",
		}
		if !slices.Equal(steps, want) {
			t.Errorf("writes = %q, want %q", steps, want)
		}
		if r := w.sim.Requests(); r[len(r)-2].Method != http.MethodGet {
			t.Errorf("before the last request = %+v, want the read-back", r[len(r)-2])
		}
		body := w.marked(tracker.MarkClaim)[0].Body
		first, rest, _ := strings.Cut(body, "\n")
		if first != `<!-- retake:claim v1 {"fleet":"default","nonce":"k3v9qx2m","run":"run_20261121-095900Z"} -->` ||
			!strings.HasPrefix(rest, "**Retake** has picked up") {
			t.Errorf("comment = %q", body)
		}
	})
}

// mark returns a comment with a marker by an arbitrary author.
func mark(kind, fleet, nonce, more string) string {
	return fmt.Sprintf(`<!-- retake:%s v1 {"fleet":"%s","nonce":"%s"%s} -->`+"\ntext", kind, fleet, nonce, more)
}

var competitors = map[string]struct {
	comments [][2]string // author, body
	want     claims.Outcome
}{
	"a claim of another fleet": {
		[][2]string{{"other-bot", mark("claim", "night", "aaaabbbb", "")}},
		claims.Lost,
	},
	"a claim of our login, another nonce": {
		[][2]string{{"retake-bot", mark("claim", "default", "aaaabbbb", "")}},
		claims.Lost,
	},
	"forged by an outsider": {[][2]string{{"mallory", mark("claim", "night", "aaaabbbb", "")}}, claims.Won},
	"our nonce, forged by an outsider": {
		[][2]string{{"mallory", mark("claim", "default", testNonce, "")}},
		claims.Won,
	},
	"forged by a reader, a collaborator": {
		[][2]string{{"reader", mark("claim", "night", "aaaabbbb", "")}},
		claims.Won,
	},
	"release forged by a reader": {[][2]string{
		{"other-bot", mark("claim", "night", "aaaabbbb", "")},
		{"reader", mark("release", "night", "aaaabbbb", "")},
	}, claims.Lost},
	"forged by a triager": {[][2]string{{"triager", mark("claim", "night", "aaaabbbb", "")}}, claims.Won},
	"released since": {[][2]string{
		{"other-bot", mark("claim", "night", "aaaabbbb", "")},
		{"other-bot", mark("release", "night", "aaaabbbb", "")},
	}, claims.Won},
	"release forged by an outsider": {[][2]string{
		{"other-bot", mark("claim", "night", "aaaabbbb", "")},
		{"mallory", mark("release", "night", "aaaabbbb", "")},
	}, claims.Lost},
	"released, then claimed again": {[][2]string{
		{"other-bot", mark("claim", "night", "aaaabbbb", "")},
		{"other-bot", mark("release", "night", "aaaabbbb", "")},
		{"other-bot", mark("claim", "night", "ccccdddd", "")},
	}, claims.Lost},
	"delivered": {
		[][2]string{{"other-bot", mark("claim", "night", "aaaabbbb", `,"ended":"delivered"`)}}, claims.Won,
	},
	"quoted, not on the first line": {
		[][2]string{{"other-bot", "> " + mark("claim", "night", "aaaabbbb", "")}}, claims.Won,
	},
	"a marker with an unknown field": {
		[][2]string{{"other-bot", mark("claim", "night", "aaaabbbb", `,"x":"y"`)}}, claims.Won,
	},
	"a marker with a malformed nonce": {
		[][2]string{{"other-bot", mark("claim", "night", "AAAABBB!", "")}},
		claims.Won,
	},
}

func TestClaimCompetition(t *testing.T) {
	for name, tc := range competitors {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.T
				w.must(w.sim.AddRepo(testRepo, "", map[string]string{"reader": "read", "triager": "triage"}))
				for _, c := range tc.comments {
					w.sim.AddComment(w.key, c[0], c[1])
				}
				got, err := w.client("retake-bot").Claims.Claim(t.Context(), claimRequest(w, testNonce))
				w.must(err)
				if got.Outcome != tc.want {
					t.Errorf("outcome = %s (%s), want %s", got.Outcome, got.Why, tc.want)
				}
				if events := w.labelEvents(); got.Outcome == claims.Lost && len(events) > 0 {
					t.Errorf("the loser changed labels: %q", events)
				}
				if got.Outcome == claims.Lost && len(w.changes()) > 0 {
					t.Errorf("the loser wrote: %+v", w.changes())
				}
			})
		})
	}
}

func TestClaimOfWhatIsNotToBeDone(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"closed":              func(w *world) { w.sim.SetState(w.key, "acme", "closed") },
		"unlabelled by human": func(w *world) { w.sim.RemoveLabel(w.key, "acme", "agent-task") },
		"blocked":             func(w *world) { w.sim.AddLabel(w.key, "acme", "agent-blocked") },
		"in review": func(w *world) {
			w.sim.RemoveLabel(w.key, "acme", "agent-task")
			w.sim.AddLabel(w.key, "acme", "agent-review")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.T
				change(w)
				got, err := w.client("retake-bot").Claims.Claim(t.Context(), claimRequest(w, testNonce))
				w.must(err)
				if got.Outcome != claims.NotEligible || got.Why == "" || len(w.changes()) > 0 {
					t.Errorf("claim = %+v with %d writes, want not_eligible and none", got, len(w.changes()))
				}
			})
		})
	}
}

// TestClaimThatLosesItsIssueMeanwhile closes the issue, or removes the label, after the claim has posted its comment
// and before it reads the issue back.
func TestClaimThatLosesItsIssueMeanwhile(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"closed": func(w *world) { w.sim.SetState(w.key, "acme", "closed") },
		"unlabels": func(w *world) {
			w.sim.RemoveLabel(w.key, "acme", "agent-claimed")
			w.sim.RemoveLabel(w.key, "acme", "agent-task")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.T
				c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						resp, err := next.RoundTrip(r)
						if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/comments") {
							change(w)
						}
						return resp, err
					})
				}))
				got, err := c.Claims.Claim(t.Context(), claimRequest(w, testNonce))
				w.must(err)
				if got.Outcome != claims.NotEligible || len(w.marked(tracker.MarkClaim)) != 0 {
					t.Errorf("claim = %+v, comments %+v", got, w.marked(tracker.MarkClaim))
				}
				w.wantLabels(map[string][]string{"closed": {"agent-task"}}[name]...)
			})
		})
	}
}

// TestClaimOfWhatIsStillOffered removes the claimed label at each request while the task label is present. The issue
// stays offered, and the claim continues.
func TestClaimOfWhatIsStillOffered(t *testing.T) {
	for at, reached := 1, true; reached; at++ {
		inWorld(t, func(w *world) {
			t := w.T
			requests := 0
			c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if requests++; requests == at && slices.Contains(w.sim.Issue(w.key).Labels, "agent-task") {
						w.sim.RemoveLabel(w.key, "acme", "agent-claimed")
					}
					return next.RoundTrip(r)
				})
			}))
			got, err := c.Claims.Claim(t.Context(), claimRequest(w, testNonce))
			reached = requests >= at
			if api.KindOf(err) == api.KindTransient {
				got, err = c.Claims.Claim(t.Context(), claimRequest(w, testNonce))
			}
			w.must(err)
			if got.Outcome != claims.Won || len(w.marked(tracker.MarkClaim)) != 1 {
				t.Errorf("request %d: claim = %+v, comments %+v", at, got, w.marked(tracker.MarkClaim))
			}
			w.wantLabels("agent-claimed")
		})
	}
}

func TestClaimGoesOnAfterAHumanUnblocked(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.T
		c := w.client("retake-bot")
		w.claimed(c)
		w.must(c.Claims.Progress(t.Context(), w.key, testNonce, pages.ProgressView{State: "Running", Attempt: 1}))
		w.must(c.People.Escalate(t.Context(), ask.Escalation{
			Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-1",
			Reason: "build_failed", Ask: "Fix it.",
		}))
		w.wantLabels("agent-blocked")
		got, err := c.Claims.Claim(t.Context(), claimRequest(w, testNonce))
		w.must(err)
		if got.Outcome != claims.NotEligible || len(w.marked(tracker.MarkClaim)) != 1 {
			t.Fatalf("claim of a blocked issue = %+v, comments %d", got, len(w.marked(tracker.MarkClaim)))
		}
		w.sim.RemoveLabel(w.key, "acme", "agent-blocked")
		w.claimed(c)
		w.wantLabels("agent-claimed")
		if n := len(w.marked(tracker.MarkClaim)); n != 1 {
			t.Errorf("%d claim comments, want the old one", n)
		}
	})
}

func TestClaimNotYetVisibleIsTransient(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.T
		lists := 0
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/comments") {
					if lists++; lists == 2 {
						resp.Body = http.NoBody
						resp.ContentLength = 0
					}
				}
				return resp, err
			})
		}))
		_, err := c.Claims.Claim(t.Context(), claimRequest(w, testNonce))
		if api.KindOf(err) != api.KindTransient {
			t.Fatalf("error = %v, want transient", err)
		}
		w.claimed(c)
		if n := len(w.marked(tracker.MarkClaim)); n != 1 {
			t.Errorf("%d claim comments", n)
		}
	})
}

func TestWritesDisabledChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.T
		c := w.client("retake-bot", func(o *Options) { o.Writes = false })
		ctx := t.Context()
		_, claim := c.Claims.Claim(ctx, claimRequest(w, testNonce))
		_, deliver := c.Deliveries.Deliver(ctx, deliver.Request{Key: w.key, Nonce: testNonce})
		for name, err := range map[string]error{
			"claim": claim, "deliver": deliver,
			"escalate": c.People.Escalate(ctx, ask.Escalation{Key: w.key, Nonce: testNonce}),
			"release":  c.Claims.Release(ctx, claims.ReleaseRequest{Key: w.key, Nonce: testNonce}),
			"progress": c.Claims.Progress(ctx, w.key, testNonce, pages.ProgressView{}),
			"labels":   c.Labels.EnsureLabels(ctx, testRepo),
			"react":    c.People.React(ctx, w.key, 1, tracker.ReactionUnderstood),
		} {
			if !errors.Is(err, api.ErrWritesDisabled) {
				t.Errorf("%s: error = %v, want ErrWritesDisabled", name, err)
			}
		}
		// The transport also refuses writes that do not come from a method of the client.
		_, err := c.API.Do(ctx, gate.Claim, http.MethodPost, "repos/acme/widgets/issues/1/labels",
			map[string][]string{"labels": {"x"}}, nil)
		if !errors.Is(err, api.ErrWritesDisabled) || len(w.changes()) > 0 {
			t.Errorf("error = %v, writes %+v", err, w.changes())
		}
	})
}

// TestLabelsOfOthersStay checks that the client changes only our four labels in any sequence of operations.
func TestLabelsOfOthersStay(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		for _, label := range []string{"auto-review", "bug"} {
			w.sim.AddLabel(w.key, "acme", label)
		}
		w.claimed(c)
		w.must(operations["escalate"].run(ctx, w, c))
		w.wantLabels("agent-blocked", "auto-review", "bug")
		w.sim.RemoveLabel(w.key, "acme", "agent-blocked")
		w.claimed(c)
		w.must(operations["deliver"].run(ctx, w, c))
		w.wantLabels("agent-review", "auto-review", "bug")
		w.must(c.Claims.Release(ctx, claims.ReleaseRequest{Key: w.key, Nonce: testNonce, RestoreTask: true}))
		for _, e := range w.labelEvents() {
			if strings.Contains(e, "auto-review") || strings.Contains(e, "bug") {
				w.Errorf("we changed a label of others: %s", e)
			}
		}
	})
}

// TestMarkersOfReaders checks that an author association does not replace a permission. A collaborator with read access
// cannot end, take over or block a claim, but a collaborator with write access can.
func TestMarkersOfReaders(t *testing.T) {
	release := `<!-- retake:release v1 {"fleet":"default","nonce":"` + testNonce + `"} -->` + "\nreleased"
	rival := `<!-- retake:claim v1 {"fleet":"night","nonce":"aaaabbbb","run":"run_1"} -->` + "\nmine"
	for permission, counts := range map[string]bool{
		"read": false, "triage": false, "write": true, "maintain": true,
		"admin": true,
	} {
		t.Run(permission, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.sim.SetPermission(testRepo, "rival", permission) // the association is COLLABORATOR
				c := w.client("retake-bot")
				w.claimed(c)
				w.sim.AddComment(w.key, "rival", release)
				w.sim.AddComment(w.key, "rival", rival)
				lookups := len(w.sim.Requests())
				again, err := c.Claims.Claim(w.Context(), claimRequest(w, testNonce))
				w.must(err)
				holder, _, ok, err := c.Claims.Stale(w.Context(), w.key)
				w.must(err)
				if want := map[bool]claims.Outcome{
					true:  claims.Lost,
					false: claims.Won,
				}[counts]; again.Outcome != want || !ok ||
					(holder.Login == "rival") != counts {
					w.Errorf("claim = %+v, held by %+v, %v; want %s", again, holder, ok, want)
				}
				asked := 0
				for _, r := range w.sim.Requests()[lookups:] {
					if strings.Contains(r.Path, "/collaborators/") {
						asked++
					}
				}
				if asked != 1 {
					w.Errorf("%d lookups, want one for the author", asked)
				}
			})
		})
	}
}

// TestAClaimGivenUpLeavesTheOffer checks that the issue is offered again if GitHub permanently refuses a request
// between the two label changes of a claim.
func TestAClaimGivenUpLeavesTheOffer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withoutGraphQL()
		c := w.client("retake-bot")
		w.inject(githubtest.Fault{Status: http.StatusForbidden, Body: `{"message":"Resource not accessible"}`}.On(
			"DELETE", "/labels/"))
		if _, err := c.Claims.Claim(w.Context(),
			claims.Request{Key: w.key, Nonce: testNonce, RunID: "run"}); api.KindOf(
			err) != api.KindPermanent {
			w.Fatalf("got %v, want permanent", err)
		}
		if got := w.sim.Issue(w.key).Labels; !slices.Equal(got, []string{"agent-claimed", "agent-task"}) {
			w.Fatalf("the claim stopped with labels %v", got)
		}
		if err := c.Claims.Release(w.Context(),
			claims.ReleaseRequest{Key: w.key, Nonce: testNonce, Why: "refused"}); err != nil {
			w.Fatal(err)
		}
		if got := w.sim.Issue(w.key).Labels; !slices.Equal(got, []string{"agent-task"}) {
			w.Errorf("after the claim was given back: labels %v, want the offer", got)
		}
	})
}
