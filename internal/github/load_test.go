package github

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// load simulates a director's workers and a repository with many issues that are labelled at once. It runs on the
// bubble's clock.
type load struct {
	*testing.T
	sim     *githubtest.Server
	client  *Client
	began   time.Time // time of the labels, or zero
	keys    []string
	mu      sync.Mutex
	before  int             // number of requests that created the labels
	claimed []time.Duration // times of the claims since the issues were labelled, in order
	owed    atomic.Int64    // number of claimed issues that are not delivered
	refused int             // number of limits that GitHub reported, without limits of our gate
}

// latency is the duration of one request, about as long as a write to GitHub.
const latency = 250 * time.Millisecond

func newLoad(t *testing.T, issues int, wrap func(http.RoundTripper) http.RoundTripper) *load {
	if raced && issues > 40 {
		t.Skip("a run of 40 issues covers the same code for the race detector")
	}
	w := &load{T: t, sim: githubtest.New(githubtest.Options{Limits: true})}
	w.sim.AddUser("retake-bot", "token")
	if err := w.sim.AddRepo(testRepo, "", map[string]string{"retake-bot": "write"}); err != nil {
		t.Fatal(err)
	}
	slow := roundTrip(func(r *http.Request) (*http.Response, error) {
		time.Sleep(latency)
		if w.began.IsZero() {
			return w.sim.Transport().RoundTrip(r)
		}
		return wrap(w.sim.Transport()).RoundTrip(r)
	})
	var err error
	w.client, err = New(Options{
		Options: api.Options{
			BaseURL:          testAPI,
			Writes:           true,
			MinBetweenWrites: 2 * time.Second,
			MaxConcurrent:    2,
			CooldownDefault:  time.Minute,
			Owed:             func() int { return int(w.owed.Load()) },
			Transport:        slow,
			Token:            func(context.Context) (string, error) { return "token", nil },
		},
		Fleet:          "default",
		Labels:         testLabels,
		TrustedAuthors: []string{"OWNER"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.client.Labels.EnsureLabels(t.Context(), testRepo); err != nil {
		t.Fatal(err)
	}
	w.before, w.began = len(w.sim.Requests()), time.Now()
	for i := range issues {
		w.keys = append(w.keys, w.sim.CreateIssue(testRepo, "acme", fmt.Sprint("Issue ", i), "Please.", "agent-task"))
	}
	return w
}

// insist repeats a step until it succeeds, as the director does. It waits for the end of a limit. After other failures
// it waits 4 seconds, and longer each time.
func (w *load) insist(step func() error) {
	wait := 4 * time.Second
	for tries := 1; ; tries++ {
		err := step()
		if err == nil {
			return
		}
		e := api.Detail(err)
		if tries > 500 {
			w.Errorf("failed after %d tries: %v", tries, err)
			return
		}
		if e.Kind == api.KindRateLimited {
			if e.Status != 0 {
				w.mu.Lock()
				w.refused++
				w.mu.Unlock()
			}
			time.Sleep(time.Until(e.Until) + time.Millisecond)
			continue
		}
		time.Sleep(wait)
		wait = min(2*wait, time.Minute)
	}
}

// work lets a number of workers handle all issues, and polls like the director. takes returns the time for one issue.
func (w *load) work(workers int, takes func() time.Duration) {
	queue := make(chan int, len(w.keys))
	for i := range w.keys {
		queue <- i
	}
	close(queue)
	ctx, stop := context.WithCancel(w.Context())
	var all, polls sync.WaitGroup
	polls.Go(func() {
		for cursor := ""; ctx.Err() == nil; {
			if page, err := w.client.Inbox.Poll(ctx, testRepo, cursor); err == nil {
				cursor = page.Cursor
			}
			select {
			case <-ctx.Done():
			case <-time.After(30 * time.Second):
			}
		}
	})
	for range workers {
		all.Go(func() {
			for i := range queue {
				w.claim(ctx, i)
				time.Sleep(takes())
				w.deliver(ctx, i)
			}
		})
	}
	all.Wait()
	stop()
	polls.Wait()
}

func (w *load) claim(ctx context.Context, i int) {
	w.owed.Add(1)
	key, nonce := w.keys[i], fmt.Sprintf("load%04d", i)
	w.insist(func() error {
		got, err := w.client.Claims.Claim(ctx, claims.Request{Key: key, Nonce: nonce, RunID: "run_1"})
		if err == nil && got.Outcome != claims.Won {
			w.Errorf("%s: %+v", key, got)
		}
		return err
	})
	w.mu.Lock()
	w.claimed = append(w.claimed, time.Since(w.began))
	w.mu.Unlock()
}

func (w *load) deliver(ctx context.Context, i int) {
	w.insist(func() error {
		_, err := w.client.Deliveries.Deliver(ctx, deliver.Request{
			Key: w.keys[i], Nonce: fmt.Sprintf("load%04d", i), Branch: fmt.Sprintf("retake/%d-a1", i+1), Base: "main",
			Title: "Done", PullRequest: true, Watch: true, Summary: "Done.",
		})
		return err
	})
	w.owed.Add(-1)
}

// verify compares every issue with the expected outcome.
func (w *load) verify() {
	pulls := map[string]int{}
	for _, i := range w.sim.Issues(testRepo) {
		if i.Head != "" {
			pulls[i.Head]++
		}
	}
	for n, key := range w.keys {
		i, claims := w.sim.Issue(key), 0
		for _, m := range i.Comments {
			if mark, ok := tracker.ReadMarker(m.Body); ok && mark.Kind == tracker.MarkClaim &&
				strings.Contains(m.Body, "In review") {
				claims++
			}
		}
		if claims != 1 || len(i.Comments) != 1 || !slices.Equal(i.Labels, []string{"agent-review"}) ||
			pulls[fmt.Sprintf("retake/%d-a1", n+1)] != 1 {
			w.Errorf("%s: %d comments, %d of them reports, labels %q, %d pull requests", key, len(i.Comments), claims,
				i.Labels, pulls[fmt.Sprintf("retake/%d-a1", n+1)])
		}
	}
	if len(pulls) != len(w.keys) {
		w.Errorf("%d pull requests for %d issues", len(pulls), len(w.keys))
	}
}

func (w *load) report() {
	const pointsOfRead, pointsOfWrite = 1, 5
	reads, free, writes, points := 0, 0, 0, 0
	for _, r := range w.sim.Requests()[w.before:] {
		switch {
		case r.Method != http.MethodGet:
			writes++
			points += pointsOfWrite
		case r.Status == http.StatusNotModified:
			free++
			points += pointsOfRead
		default:
			reads++
			points += pointsOfRead
		}
	}
	n := len(w.keys)
	w.Logf("%d issues: %.1f writes each; the first one is claimed after %.1f s, the last one "+
		"after %.0f s, all is done after %s; %d reads, %d that cost nothing, %d points",
		n, float64(writes)/float64(n), w.claimed[0].Seconds(), w.claimed[len(w.claimed)-1].Seconds(),
		time.Since(w.began).Round(time.Second), reads, free, points)
}

func plainly(next http.RoundTripper) http.RoundTripper { return next }

// TestLoad labels 200 issues at once, with 40 workers and GitHub's documented limits. The requests must not exceed any
// limit.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLoad(t, 200, plainly)
		random := rand.New(rand.NewPCG(1, 2))
		w.work(40, func() time.Duration {
			w.mu.Lock()
			defer w.mu.Unlock()
			return time.Minute + time.Duration(random.Int64N(int64(9*time.Minute)))
		})
		w.verify()
		w.report()
		if n := w.sim.Throttled(); n > 0 || w.refused > 0 || w.sim.Violations() > 0 {
			t.Errorf("%d requests met a limit, %d were sent during one", n, w.sim.Violations())
		}
	})
}

// TestLoadWithFaults is like TestLoad, but with faults: for one in nine requests, GitHub refuses it or fails, or the
// answer is lost. In the end, every comment and pull request must exist exactly once.
func TestLoadWithFaults(t *testing.T) {
	seeds := uint64(2)
	if raced {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				random, hit := rand.New(rand.NewPCG(seed, 7)), 0
				var mu sync.Mutex
				w := newLoad(t, 200, func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						mu.Lock()
						kind := random.IntN(400)
						if kind < 44 {
							hit++
						}
						mu.Unlock()
						switch {
						case kind < 20: // the effect happens, the answer is lost
							_, _ = next.RoundTrip(r)
							return nil, errCrash
						case kind < 30:
							return nil, errCrash
						case kind < 40:
							return bare(r, http.StatusBadGateway, http.Header{}), nil
						case kind < 42:
							return bare(r, http.StatusTooManyRequests, http.Header{"Retry-After": {"20"}}), nil
						case kind < 44:
							return bare(r, http.StatusForbidden, http.Header{"Retry-After": {"20"}}), nil
						}
						return next.RoundTrip(r)
					})
				})
				w.work(40, func() time.Duration { return 5 * time.Minute })
				w.verify()
				w.report()
				if hit < 200 {
					t.Errorf("only %d requests were hit", hit)
				}
				if n := w.sim.Throttled(); n > 0 {
					t.Errorf("%d requests met a limit", n)
				}
			})
		})
	}
}

func bare(r *http.Request, status int, h http.Header) *http.Response {
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody, Request: r}
}

// TestClaimsAreWonOneAfterTheOther checks many issues that are labelled at once. The first claim takes as long as a
// single claim, and the others follow in sequence.
func TestClaimsAreWonOneAfterTheOther(t *testing.T) {
	for _, mode := range []string{"GraphQL", "REST"} {
		synctest.Test(t, func(t *testing.T) {
			w := newLoad(t, 40, plainly)
			if mode == "REST" {
				w.client.Labels.AvoidGraphQL(tracker.Thread{}, "to measure without")
			}
			w.work(40, func() time.Duration { return 10 * time.Minute })
			w.verify()
			if first := w.claimed[0]; first > 10*time.Second {
				t.Errorf("%s: the first one is claimed after %s", mode, first)
			}
			for i, at := range w.claimed[1:] {
				if apart := at - w.claimed[i]; apart > 12*time.Second {
					t.Errorf("%s: %[3]s pass between claim %[2]d and the next one", mode, i+1, apart)
				}
			}
		})
	}
}

// TestMeasureWrites prints the cost of 1 and of 40 issues that are labelled at once. docs/specs/github.md has the
// figures.
func TestMeasureWrites(t *testing.T) {
	issues := 40
	for _, mode := range []string{"GraphQL", "GraphQL", "REST", "REST"} {
		issues = 41 - issues
		synctest.Test(t, func(t *testing.T) {
			w := newLoad(t, issues, plainly)
			if mode == "REST" {
				w.client.Labels.AvoidGraphQL(tracker.Thread{}, "to measure without")
			}
			t.Log(mode)
			w.work(40, func() time.Duration { return 10 * time.Minute })
			w.verify()
			w.report()
		})
	}
}
