package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/claims"
	"retake/internal/github/deliver"
	"retake/internal/github/githubtest"
	"retake/internal/github/tracker"
)

// crowd is a world with six issues in two repositories. Tests work on all issues at the same time.
type crowd struct {
	*world
	keys []string
}

func inCrowd(t *testing.T, f func(w *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &crowd{world: newWorld(t)}
		w.must(w.sim.AddRepo("acme/gadgets", "", map[string]string{"retake-bot": "write"}))
		for _, repo := range []string{testRepo, "acme/gadgets"} {
			w.sim.DefineLabels(repo, testLabels.Others("")...)
			for i := range 3 {
				key := w.sim.CreateIssue(repo, "acme", fmt.Sprint("Issue ", i), "Please.", "agent-task")
				w.keys = append(w.keys, key)
			}
		}
		f(w)
	})
}

// each runs a step for all issues at the same time, and returns the errors by issue.
func (w *crowd) each(step func(ctx context.Context, i int) error) []error {
	errs := make([]error, len(w.keys))
	var all sync.WaitGroup
	for i := range w.keys {
		all.Go(func() { errs[i] = step(w.Context(), i) })
	}
	all.Wait()
	return errs
}

func (w *crowd) nonce(i int) string { return fmt.Sprintf("crowd%03d", i) }

func (w *crowd) claim(c *Client) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		got, err := c.Claims.Claim(ctx, claims.Request{Key: w.keys[i], Nonce: w.nonce(i), RunID: "run_1"})
		if err == nil && got.Outcome != claims.Won {
			err = fmt.Errorf("%s: claim = %+v", w.keys[i], got)
		}
		return err
	}
}

func (w *crowd) deliver(c *Client) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		_, err := c.Deliveries.Deliver(ctx, deliver.Request{
			Key: w.keys[i], Nonce: w.nonce(i), Branch: fmt.Sprintf("retake/%d-a1", i), Base: "main", Title: "Parse",
			PullRequest: true, Summary: "Parsed.",
		})
		return err
	}
}

func (w *crowd) mustAll(errs []error) {
	w.Helper()
	for i, err := range errs {
		if err != nil {
			w.Fatalf("%s: %v", w.keys[i], err)
		}
	}
}

// verify checks the labels of each issue, and that comments and pull requests exist once.
func (w *crowd) verify(label string, pulls int) {
	w.Helper()
	for _, key := range w.keys {
		i := w.sim.Issue(key)
		marked := slices.DeleteFunc(slices.Clone(i.Comments), func(c githubtest.Comment) bool {
			m, ok := tracker.ReadMarker(c.Body)
			return !ok || m.Kind != tracker.MarkClaim
		})
		if !slices.Equal(i.Labels, []string{label}) || len(i.Comments) != 1 || len(marked) != 1 {
			w.Errorf("%s: labels %q, %d comments, %d of them claims", key, i.Labels, len(i.Comments), len(marked))
		}
	}
	heads := map[string]int{}
	for _, i := range append(w.sim.Issues(testRepo), w.sim.Issues("acme/gadgets")...) {
		if i.Head != "" {
			heads[i.Head]++
		}
	}
	for head, n := range heads {
		if n != 1 {
			w.Errorf("%s has %d pull requests", head, n)
		}
	}
	if len(heads) != pulls {
		w.Errorf("%d pull requests, want %d", len(heads), pulls)
	}
}

// writes returns the requests that changed something, such as "POST /graphql".
func (w *crowd) writes() (all []string) {
	for _, r := range w.changes() {
		all = append(all, r.Method+" "+r.Path)
	}
	return all
}

// TestChangesThatWaitAreOneRequest claims and delivers issues of two repositories at once. Each step is one request.
func TestChangesThatWaitAreOneRequest(t *testing.T) {
	inCrowd(t, func(w *crowd) {
		c := w.client("retake-bot")
		w.mustAll(w.each(w.claim(c)))
		w.verify("agent-claimed", 0)
		if got := w.writes(); len(got) != 2 {
			w.Errorf("claims: %q, want one request for each of two steps", got)
		}
		w.mustAll(w.each(w.deliver(c)))
		w.verify("agent-review", len(w.keys))
		if got := w.writes(); len(got) != 5 {
			w.Errorf("claims and deliveries: %q, want one request for each of five steps", got)
		}
	})
}

// TestPartsThatFailAlone refuses one mutation of a request. Only the issue of this mutation needs REST, and the other
// issues are not delayed.
func TestPartsThatFailAlone(t *testing.T) {
	for mutation, rest := range map[string]string{
		"addLabelsToLabelable": "/labels", "addComment": "/comments", "removeLabelsFromLabelable": "/labels/agent-task",
		"createPullRequest": "/pulls", "updateIssueComment": "", // the next edit is another request of GraphQL
	} {
		t.Run(mutation, func(t *testing.T) {
			inCrowd(t, func(w *crowd) {
				w.inject(githubtest.Fault{
					Status: http.StatusForbidden, Body: "no", Skip: 2,
				}.On(githubtest.Mutation, "^/"+mutation+"$"))
				c := w.client("retake-bot")
				w.mustAll(w.each(w.claim(c)))
				w.mustAll(w.each(w.deliver(c)))
				w.verify("agent-review", len(w.keys))
				byRest := slices.DeleteFunc(w.writes(), func(r string) bool { return r == "POST /graphql" })
				if rest == "" && len(byRest) == 0 {
					return
				}
				if len(byRest) != 1 || !strings.Contains(byRest[0], rest) {
					w.Errorf("by REST: %q, want one request of %q", byRest, rest)
				}
				if c.Labels.RestAlone() {
					w.Error("one refused change ended the use of GraphQL")
				}
			})
		})
	}
}

// TestARequestOfPartsThatFails loses the answer to a whole request, or refuses the request. The director then reads
// each issue again, and makes the missing changes.
func TestARequestOfPartsThatFails(t *testing.T) {
	for name, f := range map[string]githubtest.Fault{
		"an answer lost":    {CutAfter: true},
		"a request lost":    {CutBefore: true},
		"bad gateway":       githubtest.ServerError(http.StatusBadGateway),
		"refused":           {Status: http.StatusOK, Body: `{"errors":[{"message":"Something is wrong"}]}`},
		"a secondary limit": githubtest.SecondaryLimit(http.StatusForbidden, time.Minute),
	} {
		for at := range 5 {
			t.Run(fmt.Sprintf("%s, request %d", name, at), func(t *testing.T) {
				inCrowd(t, func(w *crowd) {
					f.Skip = at
					w.inject(f.On("POST", "^/graphql$"))
					c := w.client("retake-bot", unchecked(w.world))
					for _, step := range []func(context.Context, int) error{w.claim(c), w.deliver(c)} {
						var tries atomic.Int64
						w.mustAll(w.each(func(ctx context.Context, i int) error {
							for {
								err := step(ctx, i)
								if k := api.KindOf(err); k != api.KindTransient && k != api.KindRateLimited {
									return err
								}
								tries.Add(1)
								time.Sleep(max(time.Until(api.Detail(err).Until), time.Minute))
							}
						}))
						if n := tries.Load(); n > int64(2*len(w.keys)) {
							w.Errorf("%d tries again", n)
						}
					}
					w.verify("agent-review", len(w.keys))
				})
			})
		}
	}
}

// TestAPartThatIsCancelled cancels one claim while the common request is in progress. That claim returns at once, and
// the other claims are not affected.
func TestAPartThatIsCancelled(t *testing.T) {
	for stopped := range 6 { // any of the claims may be the first one, which sends the request
		t.Run(fmt.Sprint("part ", stopped), func(t *testing.T) {
			inCrowd(t, func(w *crowd) {
				w.inject(githubtest.Fault{Delay: 10 * time.Second}.On("POST", "^/graphql$"))
				c, cause, began := w.client("retake-bot"), errors.New("stopped"), time.Now()
				errs := w.each(func(ctx context.Context, i int) error {
					if i != stopped {
						return w.claim(c)(ctx, i)
					}
					ctx, cancel := context.WithCancelCause(ctx)
					defer time.AfterFunc(6*time.Second, func() { cancel(cause) }).Stop()
					err := w.claim(c)(ctx, i)
					if took := time.Since(began); took != 6*time.Second {
						w.Errorf("it returned after %s", took)
					}
					return err
				})
				if !errors.Is(errs[stopped], cause) {
					w.Errorf("the cancelled claim: %v", errs[stopped])
				}
				errs[stopped] = w.claim(c)(w.Context(), stopped)
				w.mustAll(errs)
				w.verify("agent-claimed", 0)
				if c.Labels.RestAlone() {
					w.Error("a cancelled claim ended the use of GraphQL")
				}
			})
		})
	}
}

// TestPartsThatAreAllCancelled checks that the request is cancelled when all its parts are, as when a director stops.
func TestPartsThatAreAllCancelled(t *testing.T) {
	inCrowd(t, func(w *crowd) {
		w.inject(githubtest.Fault{Delay: time.Hour}.On("POST", "^/graphql$"))
		c, began := w.client("retake-bot"), time.Now()
		ctx, cancel := context.WithTimeout(w.Context(), 6*time.Second)
		defer cancel()
		for i, err := range w.each(func(_ context.Context, i int) error { return w.claim(c)(ctx, i) }) {
			if !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("%s: %v", w.keys[i], err)
			}
		}
		if took := time.Since(began); took != 6*time.Second {
			w.Errorf("it took %s", took)
		}
		w.mustAll(w.each(w.claim(c))) // the request has left the gate
		w.verify("agent-claimed", 0)
	})
}

// TestRepeatedAfterACrashWithManyAtOnce stops a director at each request for all issues, before and after the effect of
// the request. The next director makes the missing changes.
func TestRepeatedAfterACrashWithManyAtOnce(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			t.Parallel()
			for stops, done := 0, false; !done; stops++ {
				inCrowd(t, func(w *crowd) {
					first := w.client("retake-bot", dying(stops, after))
					won := func(c *Client) []error {
						return w.each(func(ctx context.Context, i int) error {
							if err := w.claim(c)(ctx, i); err != nil && !strings.Contains(err.Error(), "in review") {
								return err
							}
							return w.deliver(c)(ctx, i)
						})
					}
					done = !slices.ContainsFunc(won(first), func(err error) bool { return err != nil })
					w.mustAll(won(w.client("retake-bot")))
					w.verify("agent-review", len(w.keys))
				})
				if t.Failed() {
					t.Fatalf("stopped at request %d", stops)
				}
			}
		})
	}
}
