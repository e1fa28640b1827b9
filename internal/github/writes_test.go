package github

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/githubtest"
	"retake/internal/github/tracker"
)

// wholeTask claims an issue and delivers its work.
var wholeTask = inOrder(claimOnce, deliverWatched)

// TestWritesOfATask limits the number of write requests of a task that succeeds in its first attempt, with a pull
// request.
func TestWritesOfATask(t *testing.T) {
	for mode, most := range map[string]int{"GraphQL": 5, "REST": 6} {
		t.Run(mode, func(t *testing.T) {
			inWorld(t, func(w *world) {
				modes[mode](w)
				w.must(wholeTask(w.Context(), w, w.client("retake-bot")))
				var writes []string
				for _, r := range w.changes() {
					writes = append(writes, r.Method+" "+r.Path)
				}
				if len(writes) > most {
					w.Errorf("%d writes, want %d: %q", len(writes), most, writes)
				}
				w.wantLabels("agent-review")
			})
		})
	}
}

// TestLabelsThatAPersonChangesAtTheSameMoment lets a person change labels just before or after the effect of each
// request of a task. The person adds a label and removes a different label or the same label. Both changes must
// persist, even if the director crashes there and another director continues.
func TestLabelsThatAPersonChangesAtTheSameMoment(t *testing.T) {
	for mode, setUp := range modes {
		for _, who := range []string{"acme", "retake-bot"} { // retake-bot: the owner of our token, by hand
			for _, after := range []bool{false, true} {
				for _, dies := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, %s, after=%v, dies=%v", mode, who, after, dies), func(t *testing.T) {
						for at, reached := 1, true; reached; at++ {
							synctest.Test(t, func(t *testing.T) { reached = changedAt(t, setUp, who, at, after, dies) })
						}
					})
				}
			}
		}
	}
}

func changedAt(t *testing.T, setUp func(*world), who string, at int, after, dies bool) (reached bool) {
	w := newWorld(t)
	setUp(w)
	w.sim.AddLabel(w.key, "acme", "bug")
	time.Sleep(time.Hour)
	requests := 0
	change := func() {
		w.sim.AddLabel(w.key, who, "urgent")
		w.sim.RemoveLabel(w.key, who, "bug")
	}
	c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			requests++
			if requests == at && !after {
				change()
			}
			resp, err := next.RoundTrip(r)
			if requests == at && after {
				change()
			}
			if dies && requests >= at {
				return nil, errCrash
			}
			return resp, err
		})
	}))
	err := wholeTask(w.Context(), w, c)
	reached = requests >= at
	if err != nil {
		if !dies {
			w.must(err)
		}
		c = w.client("retake-bot")
		if err := claimOnce(w.Context(), w, c); err != nil && !strings.Contains(err.Error(), "in review") {
			w.must(err)
		}
		w.must(deliverWatched(w.Context(), w, c))
	}
	if reached {
		w.wantLabels("agent-review", "urgent")
	} else {
		w.wantLabels("agent-review", "bug")
	}
	if w.Failed() {
		t.Fatalf("at request %d: %+v", at, w.sim.Events(w.key))
	}
	return reached
}

// TestMutationsThatFailAlone refuses one mutation of a request while the others succeed. Other requests make the
// missing change, even if the director ends at that point.
func TestMutationsThatFailAlone(t *testing.T) {
	for _, name := range []string{
		"addLabelsToLabelable", "removeLabelsFromLabelable", "addComment",
		"updateIssueComment",
	} {
		for _, status := range []int{http.StatusNotFound, http.StatusForbidden} {
			for stops := range 16 {
				t.Run(fmt.Sprintf("%s, %d, ends at request %d", name, status, stops), func(t *testing.T) {
					inWorld(t, func(w *world) {
						modes["GraphQL"](w)
						w.inject(githubtest.Fault{Status: status, Body: "no"}.On(githubtest.Mutation, "^/"+name+"$"))
						won := false
						run := func(c *Client) error {
							if !won {
								if err := claimOnce(w.Context(), w, c); err != nil {
									return err
								}
								won = true
							}
							req := watched(w)
							req.Watch = false // its comment says that the claim has ended
							_, err := c.Deliveries.Deliver(w.Context(), req)
							return err
						}
						if err := run(w.client("retake-bot", dying(stops, true))); err != nil {
							w.must(run(w.client("retake-bot")))
						}
						w.wantLabels("agent-review")
						if got := w.marked(tracker.MarkClaim); len(got) != 1 ||
							!strings.Contains(got[0].Body, `"ended":"delivered"`) {
							w.Errorf("comments %+v", got)
						}
						if pulls := len(w.sim.Issues(testRepo)) - 1; pulls != 1 {
							w.Errorf("%d pull requests", pulls)
						}
					})
				})
			}
		}
	}
}

// TestGraphQLThatIsAway checks that the director uses only REST while GraphQL fails, immediately or from its next try
// on, and uses GraphQL again later.
func TestGraphQLThatIsAway(t *testing.T) {
	for name, f := range map[string]githubtest.Fault{
		"not there":   githubtest.ServerError(http.StatusNotFound),
		"bad gateway": githubtest.ServerError(http.StatusBadGateway),
		"no permission": {
			Status: http.StatusOK,
			Body:   `{"data":null,"errors":[{"type":"FORBIDDEN","message":"Resource not accessible by integration"}]}`,
		},
		"an answer lost": {CutAfter: true},
		"not JSON":       {Status: http.StatusOK, Body: `<html>`},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				modes["GraphQL"](w)
				f.Times = 1
				w.inject(f.On("POST", "^/graphql$"))
				c := w.client("retake-bot", unchecked(w))
				err := wholeTask(w.Context(), w, c)
				if api.KindOf(err) == api.KindTransient {
					err = wholeTask(w.Context(), w, c)
				}
				w.must(err)
				w.wantLabels("agent-review")
				if !c.Labels.RestAlone() {
					w.Error("the client did not notice the failure")
				}
				if n := len(w.marked(tracker.MarkClaim)); n != 1 {
					w.Errorf("%d claim comments", n)
				}
			})
		})
	}
}

// TestGraphQLWhosePointsAreSpent checks that GraphQL's points are a separate budget. When they are used up, the
// director uses REST at once, and does not use GraphQL until the reset.
func TestGraphQLWhosePointsAreSpent(t *testing.T) {
	inWorld(t, func(w *world) {
		modes["GraphQL"](w)
		f := githubtest.PrimaryLimit(http.StatusForbidden, time.Now().Add(time.Hour))
		f.Header["X-RateLimit-Resource"] = "graphql"
		w.inject(f.On("POST", "^/graphql$"))
		w.must(wholeTask(w.Context(), w, w.client("retake-bot")))
		w.wantLabels("agent-review")
		asked := 0
		for _, r := range w.changes() {
			if r.Path == "/graphql" {
				asked++
			}
		}
		if asked != 1 || len(w.marked(tracker.MarkClaim)) != 1 {
			w.Errorf("%d requests to GraphQL, %d comments", asked, len(w.marked(tracker.MarkClaim)))
		}
	})
}

// TestGraphQLWhosePointsAreNearlySpent checks that the hourly reserve also applies to GraphQL's points, and that the
// director then uses REST.
func TestGraphQLWhosePointsAreNearlySpent(t *testing.T) {
	inWorld(t, func(w *world) {
		modes["GraphQL"](w)
		asked := 0
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil && r.URL.Path == "/api/graphql" {
					asked++
					for name, value := range map[string]string{
						"Limit": "5000", "Remaining": "60",
						"Reset": strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10), "Resource": "graphql",
					} {
						resp.Header.Set("X-Ratelimit-"+name, value)
					}
				}
				return resp, err
			})
		}))
		began := time.Now()
		w.must(wholeTask(w.Context(), w, c))
		w.wantLabels("agent-review")
		if took := time.Since(began); asked != 1 || took > 10*time.Minute {
			w.Errorf("%d requests to GraphQL, and it took %s", asked, took)
		}
	})
}
