package github

import (
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/claims"
	"retake/internal/github/githubtest"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// TestOneRefusalEndsNothing checks that a single 404 about an issue, or a single 401, does not count, because the
// answering server may be wrong. Only an answer that repeats for some time counts.
func TestOneRefusalEndsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		fault githubtest.Fault
		kind  api.Kind
	}{
		"not found": {
			githubtest.Fault{Status: 404, Body: `{"message":"Not Found"}`}.On("GET", "/issues/1$"),
			api.KindNotFound,
		},
		"unauthorized": {
			githubtest.Fault{Status: 401, Body: `{"message":"Requires authentication"}`}.On("GET", "/issues/1$"),
			api.KindUnauthorized,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				bot := w.client("retake-bot")
				_, err := bot.Issues.Issue(w.Context(), w.key)
				w.must(err)
				look := func() api.Kind {
					_, err := bot.Issues.Issue(w.Context(), w.key)
					if err == nil {
						return ""
					}
					e := asError(w.T, err)
					if e.Kind == api.KindTransient && !e.Doubtful {
						t.Errorf("%v is not doubtful", e)
					}
					return e.Kind
				}
				c.fault.Times = 3
				w.inject(c.fault)
				for range 3 {
					if got := look(); got != api.KindTransient {
						t.Fatalf("the answer within a second: %q, want transient", got)
					}
				}
				if got := look(); got != "" {
					t.Fatalf("afterwards: %q", got)
				}
				c.fault.Times = 4
				w.inject(c.fault)
				began := time.Now()
				for _, want := range []api.Kind{api.KindTransient, api.KindTransient, api.KindTransient, c.kind} {
					if got := look(); got != want {
						t.Errorf("after %s: %q, want %q", time.Since(began), got, want)
					}
					time.Sleep(25 * time.Second)
				}
			})
		})
	}
}

// surely reads an issue until the error is not doubtful anymore.
func (w *world) surely(c *Client, key string) (i tracker.Issue, err error) {
	for range 3 {
		if i, err = c.Issues.Issue(w.Context(), key); !api.Detail(err).Doubtful {
			break
		}
		time.Sleep(time.Minute / (3 - 1))
	}
	return i, err
}

// TestWrongTokenIsSaidAtOnce checks that the client reports at once that a credential is refused if it has never
// worked.
func TestWrongTokenIsSaidAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		if _, _, err := w.client("nobody").Account(w.Context()); asError(w.T, err).Kind != api.KindUnauthorized {
			t.Errorf("got %v, want unauthorized", err)
		}
	})
}

// TestLabelThatIsOnlySaidToBeOn lets GitHub confirm a new label without adding it. The operation must stop before the
// steps that rely on the label, and the next try adds the label.
func TestLabelThatIsOnlySaidToBeOn(t *testing.T) {
	var labels []string
	for _, name := range []string{"agent-claimed", "agent-blocked", "agent-review"} {
		labels = append(labels,
			`{"id":1,"node_id":"x","url":"https://github.test/","description":"","color":"ededed","default":false,"name":"`+name+`"}`)
	}
	for name, step := range map[string]func(w *world, c *Client) error{
		"claim":    func(w *world, c *Client) error { return claimOnce(w.Context(), w, c) },
		"escalate": func(w *world, c *Client) error { return escalateOnce(w.Context(), w, c) },
		"deliver":  func(w *world, c *Client) error { return deliverWatched(w.Context(), w, c) },
	} {
		for said, body := range map[string]string{"nothing": `[]`, "wrong labels": "[" + strings.Join(labels, ",") +
			"]"} {
			t.Run(name+", "+said, func(t *testing.T) {
				inWorld(t, func(w *world) {
					bot := w.client("retake-bot")
					want := map[string]string{
						"claim": "agent-claimed", "escalate": "agent-blocked",
						"deliver": "agent-review",
					}[name]
					if name != "claim" {
						w.claimed(bot)
					}
					w.inject(githubtest.Fault{Status: 200, Body: body}.On("POST", "/labels$"))
					if err := step(w, bot); err == nil {
						t.Error("the step succeeded without the label")
					} else if e := asError(w.T, err); e.Kind != api.KindTransient {
						t.Errorf("got %v, want a transient error", e)
					}
					w.must(step(w, bot))
					w.wantLabels(want)
				})
			})
		}
	}
}

// TestLabelThatIsOnlySaidToBeOff lets GitHub confirm the removal of a label without removing it. The operation must
// fail, so that it is tried again.
func TestLabelThatIsOnlySaidToBeOff(t *testing.T) {
	inWorld(t, func(w *world) {
		bot := w.client("retake-bot")
		w.claimed(bot)
		w.inject(githubtest.ServerError(403).On(githubtest.Mutation, "^/removeLabelsFromLabelable$"))
		w.inject(githubtest.Fault{
			Status: 200,
			Body:   `[{"id":1,"name":"agent-review"},{"id":2,"name":"agent-claimed"}]`,
		}.On("DELETE",
			"/labels/agent-claimed$"))
		if err := deliverWatched(w.Context(), w, w.client("retake-bot", unchecked(w))); err == nil ||
			asError(w.T, err).Kind != api.KindTransient {
			t.Errorf("got %v, want a transient error", err)
		}
		w.must(deliverWatched(w.Context(), w, bot))
		w.wantLabels("agent-review")
	})
}

// unchecked returns a client without the check of answers against GitHub's description.
func unchecked(w *world) func(*Options) {
	return func(o *Options) { o.Transport = w.sim.Transport() }
}

// TestReleaseLeavesANewRequest lets a person remove the claimed label and add the task label before the claim is
// released. The task label is a new request, so the release must keep it.
func TestReleaseLeavesANewRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		bot := w.client("retake-bot")
		w.claimed(bot)
		w.sim.RemoveLabel(w.key, "acme", "agent-claimed")
		w.sim.AddLabel(w.key, "acme", "agent-task")
		for range 2 {
			w.must(bot.Claims.Release(w.Context(), claims.ReleaseRequest{
				Key: w.key, Nonce: testNonce, Won: true,
				Why: "the claim's label was removed",
			}))
			w.wantLabels("agent-task")
		}
		got, err := bot.Claims.Claim(w.Context(), claimRequest(w, "aaaabbbb"))
		w.must(err)
		if got.Outcome != claims.Won {
			t.Errorf("claim = %+v", got)
		}
	})
}

// TestEditedNonce lets a person edit the nonce in the claim comment's marker. The next write repairs it. A comment of
// unknown origin stays unchanged.
func TestEditedNonce(t *testing.T) {
	for name, c := range map[string]struct {
		next func(w *world, c *Client) error
		want int // our claim markers afterwards
	}{
		"deliver":  {func(w *world, c *Client) error { return deliverWatched(w.Context(), w, c) }, 1},
		"progress": {func(w *world, c *Client) error { return w.progressed(c) }, 1},
		"release": {func(w *world, c *Client) error {
			return c.Claims.Release(w.Context(),
				claims.ReleaseRequest{Key: w.key, Nonce: testNonce, Won: true, Why: "closed"})
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.claimed(w.client("retake-bot"))
				claim := w.marked(tracker.MarkClaim)[0]
				w.sim.EditComment(w.key, "acme", claim.ID,
					`<!-- retake:claim v1 {"fleet":"default","nonce":"aaaabbbb"} -->`+"\nRetake")
				bot := w.client("retake-bot") // after a restart
				w.must(c.next(w, bot))
				ours := 0
				for _, m := range w.marked(tracker.MarkClaim) {
					if mark, _ := tracker.ReadMarker(m.Body); mark.Nonce == testNonce {
						ours++
					}
				}
				if all := len(w.marked(tracker.MarkClaim)); ours != c.want || all != 1 {
					t.Errorf("%d of %d claim comments are ours, want %d of 1", ours, all, c.want)
				}
				if name == "release" {
					w.wantLabels()
				}
			})
		})
	}
}

func (w *world) progressed(c *Client) error {
	return c.Claims.Progress(w.Context(), w.key, testNonce, pages.ProgressView{State: "Running", Attempt: 2})
}
