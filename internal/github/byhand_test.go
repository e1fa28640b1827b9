package github

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/claims"
	"retake/internal/github/tracker"
)

// people are the accounts that remove labels: another person, and the owner of the director's token.
var people = []string{"acme", "retake-bot"}

// TestDeliveryOfWhatWasTakenBack checks that a delivery does not change anything after a person removed the claimed
// label, with or without a new task label.
func TestDeliveryOfWhatWasTakenBack(t *testing.T) {
	for _, who := range people {
		for name, x := range map[string]struct {
			does func(w *world)
			left []string
		}{
			"taken back": {func(*world) {}, nil},
			"offered anew": {
				func(w *world) { w.sim.AddLabel(w.key, who, "agent-task") },
				[]string{"agent-task"},
			},
			"another label put on": {
				func(w *world) { w.sim.AddLabel(w.key, "acme", "agent-blocked") },
				[]string{"agent-blocked"},
			},
		} {
			t.Run(name+" by "+who, func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.claimed(w.client("retake-bot"))
					w.sim.RemoveLabel(w.key, who, "agent-claimed")
					x.does(w)
					before := len(w.changes())
					for range 2 {
						got, err := w.client("retake-bot").Deliveries.Deliver(w.Context(), watched(w))
						w.must(err)
						if got.Withdrawn == "" || got.PullRequest != 0 || len(w.changes()) > before {
							w.Errorf("delivered %+v, %+v", got, w.changes()[before:])
						}
					}
					w.wantLabels(x.left...)
				})
			})
		}
	}
}

// TestDeliveryThatNobodyTookBack checks that the director's own label changes do not withdraw a delivery. They come
// from a question, a review that requests changes, or an earlier claim. If the labels are unchanged, their history is
// not read.
func TestDeliveryThatNobodyTookBack(t *testing.T) {
	resumed := func(w *world, c *Client) error {
		if err := escalateOnce(w.Context(), w, c); err != nil {
			return err
		}
		w.sim.AddComment(w.key, "acme", "/agent resume")
		return nil
	}
	for name, x := range map[string]struct {
		before   func(w *world, c *Client) error
		requests int // for the history of labels
	}{
		"claimed":                            {func(*world, *Client) error { return nil }, 0},
		"asked about, to be handed in again": {resumed, 1},
		"asked about, and the label was taken off by acme": {func(w *world,
			c *Client,
		) error {
			return w.unblocked(c, "acme")
		}, 1},
		"asked about, and the label was taken off by hand": {func(w *world,
			c *Client,
		) error {
			return w.unblocked(c, "retake-bot")
		}, 1},
		"taken back from review":                            {(*world).reviewed, 0},
		"taken off in an earlier claim, which was released": {(*world).claimedAgain, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.client("retake-bot")
				w.claimed(c)
				w.must(x.before(w, c))
				asked := len(w.sim.Requests())
				got, err := c.Deliveries.Deliver(w.Context(), watched(w))
				w.must(err)
				if got.Withdrawn != "" || got.PullRequest == 0 {
					w.Errorf("delivered %+v", got)
				}
				w.wantLabels("agent-review")
				if n := eventReads(w, asked); n != x.requests {
					w.Errorf("%d requests for the history of labels, want %d", n, x.requests)
				}
			})
		})
	}
}

func (w *world) unblocked(c *Client, who string) error {
	if err := escalateOnce(w.Context(), w, c); err != nil {
		return err
	}
	w.sim.RemoveLabel(w.key, who, "agent-blocked")
	return nil
}

func (w *world) reviewed(c *Client) error {
	return inOrder(deliverWatched, takeBack)(w.Context(), w, c)
}

func (w *world) claimedAgain(c *Client) error {
	w.sim.RemoveLabel(w.key, "acme", "agent-claimed")
	if err := c.Claims.Release(w.Context(), claims.ReleaseRequest{
		Key: w.key, Nonce: "aaaabbbb",
		Why: "its label was removed",
	}); err != nil {
		return err
	}
	for _, r := range w.marked(tracker.MarkClaim) { // of that claim
		w.sim.EditComment(w.key, "retake-bot", r.ID, strings.ReplaceAll(r.Body, testNonce, "aaaabbbb"))
	}
	w.sim.AddLabel(w.key, "acme", "agent-task")
	return claimOnce(w.Context(), w, c)
}

func eventReads(w *world, from int) (n int) {
	for _, r := range w.sim.Requests()[from:] {
		if strings.Contains(r.Path, "/events") {
			n++
		}
	}
	return n
}

// TestLabelsTakenOffByHandStayOff checks that a label stays off after the owner of the director's token removed it,
// even if the operation is repeated.
func TestLabelsTakenOffByHandStayOff(t *testing.T) {
	for name, x := range map[string]struct {
		before, run func(w *world, c *Client) error
		label       string
	}{
		"review": {
			func(*world, *Client) error { return nil },
			func(w *world, c *Client) error { return deliverWatched(w.Context(), w, c) },
			"agent-review",
		},
		"review, once more after a review": {
			(*world).reviewed,
			func(w *world, c *Client) error { return deliverWatched(w.Context(), w, c) },
			"agent-review",
		},
		"task": {
			func(*world, *Client) error { return nil },
			func(w *world, c *Client) error {
				return c.Claims.Release(w.Context(), claims.ReleaseRequest{
					Key: w.key, Nonce: testNonce, Why: "no progress",
					RestoreTask: true,
				})
			},
			"agent-task",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, who := range people {
				inWorld(t, func(w *world) {
					c := w.client("retake-bot")
					w.claimed(c)
					w.must(x.before(w, c))
					w.must(x.run(w, c))
					w.wantLabels(x.label)
					time.Sleep(time.Minute)
					w.sim.RemoveLabel(w.key, who, x.label)
					w.must(x.run(w, w.client("retake-bot")))
					w.wantLabels()
				})
			}
		})
	}
}

// TestClaimTakenOffByHand lets a person remove the labels before each request that a claim sends after its comment. The
// claim must end, and must not add the labels again.
func TestClaimTakenOffByHand(t *testing.T) {
	for _, who := range people {
		for _, unblock := range []bool{false, true} {
			for at, reached := 0, true; reached; at++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					req := claimRequest(w, testNonce)
					if req.Unblock = unblock; unblock {
						w.claimed(w.client("retake-bot"))
						w.must(escalateOnce(t.Context(), w, w.client("retake-bot")))
						req.Answers = 1
						time.Sleep(time.Minute)
					}
					seen := -1
					c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
						return roundTrip(func(r *http.Request) (*http.Response, error) {
							on := len(w.marked(tracker.MarkClaim)) > 0 && slices.Contains(w.sim.Issue(w.key).Labels,
								"agent-claimed")
							if on || seen >= 0 {
								seen++
							}
							if seen == at {
								w.sim.RemoveLabel(w.key, who, "agent-claimed")
								w.sim.RemoveLabel(w.key, who, "agent-task")
							}
							return next.RoundTrip(r)
						})
					}))
					got, err := c.Claims.Claim(t.Context(), req)
					if reached = seen >= at; !reached {
						return
					}
					if got.Outcome == claims.Won {
						return // it was read back before; the next poll ends it
					}
					if api.KindOf(err) == api.KindTransient {
						got, err = w.client("retake-bot").Claims.Claim(t.Context(), req)
					}
					w.must(err)
					labels := w.sim.Issue(w.key).Labels
					if got.Outcome != claims.NotEligible || slices.Contains(labels, "agent-claimed") ||
						slices.Contains(labels, "agent-task") {
						t.Errorf("by %s at request %d, unblock %t: claim = %+v, labels %q", who, at, unblock, got,
							labels)
					}
				})
			}
		}
	}
}
