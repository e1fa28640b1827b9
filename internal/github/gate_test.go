package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/github/githubtest"
)

// TestCooldowns: what an answer says, and how long nothing leaves after it.
func TestCooldowns(t *testing.T) {
	secondary := `{"message":"You have exceeded a secondary rate limit."}`
	date := func(d time.Duration) func() string {
		return func() string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	}
	unix := func(d time.Duration) func() string {
		return func() string { return fmt.Sprint(time.Now().Add(d).Unix()) }
	}
	is := func(s string) func() string { return func() string { return s } }
	for name, tc := range map[string]struct {
		status int
		header map[string]func() string
		body   string
		want   time.Duration
		why    string
	}{
		"429 with seconds": {
			429,
			map[string]func() string{"Retry-After": is("30")},
			secondary,
			30 * time.Second, "secondary",
		},
		"403 with seconds": {
			403,
			map[string]func() string{"Retry-After": is("30")},
			secondary,
			30 * time.Second, "secondary",
		},
		"a date": {
			429,
			map[string]func() string{"Retry-After": date(90 * time.Second)},
			secondary, 90 * time.Second, "secondary",
		},
		"403 with nothing left": {
			403,
			map[string]func() string{
				"X-RateLimit-Remaining": is("0"),
				"X-RateLimit-Reset":     unix(20 * time.Minute),
			},
			`{"message":"API rate limit exceeded for user ID 1."}`,
			20 * time.Minute, "primary",
		},
		"429 with nothing left": {429, map[string]func() string{
			"X-RateLimit-Remaining": is("0"),
			"X-RateLimit-Reset":     unix(20 * time.Minute),
		}, "", 20 * time.Minute, "primary"},
		"Retry-After before the reset": {
			403,
			map[string]func() string{
				"Retry-After":           is("45"),
				"X-RateLimit-Remaining": is("0"), "X-RateLimit-Reset": unix(20 * time.Minute),
			},
			secondary, 45 * time.Second,
			"secondary",
		},
		"secondary with nothing left": {403, map[string]func() string{
			"X-RateLimit-Remaining": is("0"),
			"X-RateLimit-Reset":     unix(20 * time.Minute),
		}, secondary, 20 * time.Minute, "secondary"},
		"a reset that does not count": {403, map[string]func() string{
			"X-RateLimit-Remaining": is("4000"),
			"X-RateLimit-Reset":     unix(20 * time.Minute),
		}, secondary, time.Minute, "secondary"},
		"secondary without any header": {403, nil, secondary, time.Minute, "secondary"},
		"429 without anything":         {429, nil, "", time.Minute, "secondary"},
		"abuse detection, the older text": {
			403, nil,
			`{"message":"You have triggered an abuse detection mechanism."}`, time.Minute, "secondary",
		},
		"known only by its documentation": {
			403, nil,
			`{"message":"Slow down.","documentation_url":"https://docs.github.com/en/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`, time.Minute, "secondary",
		},
		"an unreadable Retry-After": {
			429,
			map[string]func() string{"Retry-After": is("soon")},
			secondary,
			time.Minute, "secondary",
		},
		"a negative Retry-After": {
			429,
			map[string]func() string{"Retry-After": is("-5")},
			secondary,
			time.Minute, "secondary",
		},
		"a Retry-After of zero": {
			429,
			map[string]func() string{"Retry-After": is("0")},
			secondary,
			time.Second, "secondary",
		},
		"a reset that has just passed": {403, map[string]func() string{
			"X-RateLimit-Remaining": is("0"),
			"X-RateLimit-Reset":     unix(-time.Minute),
		}, "", time.Second, "primary"},
		"an absurd Retry-After": {
			429,
			map[string]func() string{"Retry-After": is("1e300")},
			secondary,
			24 * time.Hour, "secondary",
		},
		"success that used the last one": {200, map[string]func() string{
			"X-RateLimit-Remaining": is("0"),
			"X-RateLimit-Reset":     unix(20 * time.Minute),
		}, `[]`, 20 * time.Minute, "primary"},
		"403 that is a missing permission": {
			403,
			map[string]func() string{"X-RateLimit-Remaining": is("4000")},
			`{"message":"Resource not accessible by integration"}`, 0, "",
		},
		"503 with a Retry-After is no limit": {503, map[string]func() string{"Retry-After": is("30")}, "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var told []Cooldown
				var c *Client
				c = w.client("retake-bot", func(o *Options) {
					o.OnCooldown = func(cd Cooldown) {
						// Shut before it is told: nothing leaves from here on.
						if _, err := c.Issue(w.Context(), w.key); kindOf(err) != KindRateLimited {
							w.Errorf("a call from OnCooldown: %v, want rate_limited", err)
						}
						told = append(told, cd)
					}
				})
				f := githubtest.Fault{Status: tc.status, Header: map[string]string{}, Body: tc.body}
				for k, v := range tc.header {
					f.Header[k] = v()
				}
				w.inject(f)
				start := time.Now()
				_, err := c.Poll(w.Context(), testRepo, format(start))
				if tc.want == 0 {
					if len(told) > 0 || kindOf(err) == KindRateLimited {
						w.Fatalf("error = %v, cooldowns %+v, want none", err, told)
					}
					return
				}
				until := start.Add(tc.want)
				if tc.status != 200 {
					if e := asError(w.T, err); e.Kind != KindRateLimited || !e.Until.Equal(until) ||
						e.Status != tc.status {
						w.Errorf("error = %+v, want rate_limited until %s", e, until)
					}
				}
				if len(told) != 2 || !told[0].Until.Equal(until) || !strings.HasPrefix(told[0].Why, tc.why) ||
					told[0].Resource == told[1].Resource {
					w.Fatalf("cooldowns = %+v, want both resources until %s, %s", told, until, tc.why)
				}
				w.probeUntil(c, until)
			})
		})
	}
}

// probeUntil checks that nothing leaves before a deadline, and that it works from then on.
func (w *world) probeUntil(c *Client, until time.Time) {
	w.Helper()
	before := len(w.sim.Requests())
	for time.Now().Before(until) {
		asked := time.Now()
		_, read := c.Issue(w.Context(), w.key)
		write := c.EnsureLabels(w.Context(), testRepo)
		if kindOf(read) != KindRateLimited || kindOf(write) != KindRateLimited || !time.Now().Equal(asked) {
			w.Fatalf("at %s: read %v, write %v, after %s; want a refusal at once", asked, read, write,
				time.Since(asked))
		}
		if e := asError(w.T, read); !e.Until.Equal(until) {
			w.Fatalf("refused until %s, want %s", e.Until, until)
		}
		time.Sleep(max(until.Sub(asked)/7, 100*time.Millisecond))
	}
	if n := len(w.sim.Requests()) - before; n > 0 || w.sim.Violations() > 0 {
		w.Fatalf("%d requests left during the cooldown, %d violations", n, w.sim.Violations())
	}
	if _, err := c.Issue(w.Context(), w.key); err != nil {
		w.Fatalf("after the cooldown: %v", err)
	}
}

func TestUnstatedLimitsBackOffExponentially(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		meet := func(want time.Duration) {
			w.Helper()
			w.inject(githubtest.SecondaryLimit(403, 0))
			_, err := c.Issue(w.Context(), w.key)
			if e := asError(w.T, err); !e.Until.Equal(time.Now().Add(want)) {
				w.Errorf("until %s from now, want %s", time.Until(e.Until), want)
			}
			time.Sleep(want)
		}
		for _, want := range []time.Duration{
			time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute,
			16 * time.Minute, backoffLimit, backoffLimit,
		} {
			meet(want)
		}
		if _, err := c.Issue(w.Context(), w.key); err != nil {
			w.Fatal(err)
		}
		meet(time.Minute) // a success forgets
	})
}

func TestConcurrentLimitsAreOneStrike(t *testing.T) {
	inWorld(t, func(w *world) {
		told := 0
		c := w.client("retake-bot", func(o *Options) { o.OnCooldown = func(Cooldown) { told++ } })
		f := githubtest.SecondaryLimit(429, 0)
		f.Times, f.Delay = 2, time.Second
		w.inject(f)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _, _ = c.Issue(w.Context(), w.key) })
		}
		wg.Wait()
		_, err := c.Issue(w.Context(), w.key)
		if e := asError(w.T, err); told != 2 || time.Until(e.Until) != time.Minute {
			w.Errorf("%d reports, until %s from now; want one per resource and one minute", told, time.Until(e.Until))
		}
	})
}

func TestPrimeShutsWithoutReporting(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot",
			func(o *Options) { o.OnCooldown = func(cd Cooldown) { w.Errorf("reported %+v", cd) } })
		until := time.Now().Add(10 * time.Minute)
		c.Prime(Cooldown{ResourceRead, until, "from the journal"})
		c.Prime(Cooldown{ResourceWrite, until, "from the journal"})
		c.Prime(Cooldown{ResourceRead, time.Now().Add(time.Minute), "older"}) // does not shorten
		w.probeUntil(c, until)
	})
}

func TestLiftOpensTheGate(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		for _, r := range []string{ResourceRead, ResourceWrite} {
			c.Prime(Cooldown{r, time.Now().Add(10 * time.Minute), "from the journal"})
		}
		if _, err := c.Issue(w.Context(), w.key); kindOf(err) != KindRateLimited {
			w.Fatalf("not shut: %v", err)
		}
		c.Lift(ResourceRead)
		c.Lift("model.x")
		if _, err := c.Issue(w.Context(), w.key); err != nil {
			w.Errorf("lifted: %v", err)
		}
		if _, err := c.Claim(w.Context(), claimRequest(w, testNonce)); kindOf(err) != KindRateLimited {
			w.Errorf("what was not lifted: %v", err)
		}
	})
}

func TestWriteCooldownLeavesReadsOpen(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		c.Prime(Cooldown{ResourceWrite, time.Now().Add(time.Minute), "own limit"})
		if _, err := c.Issue(w.Context(), w.key); err != nil {
			w.Errorf("a read: %v", err)
		}
		if _, err := c.Claim(w.Context(), claimRequest(w, testNonce)); kindOf(err) != KindRateLimited ||
			len(w.changes()) > 0 {
			w.Errorf("a write: %v", err)
		}
	})
}

func TestWaitersAreRefusedWhenTheGateShuts(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot", func(o *Options) { o.MinBetweenWrites = 20 * time.Second })
		w.inject(githubtest.SecondaryLimit(403, time.Hour).On("GET", "/issues/"))
		g := c.transport.gate
		g.wroteAt = time.Now()
		waited := make(chan error)
		go func() { waited <- g.enter(w.Context(), &waiter{lane: laneClaim, write: true}) }()
		synctest.Wait()
		_, _ = c.Issue(w.Context(), w.key)
		start := time.Now()
		if err := <-waited; kindOf(err) != KindRateLimited || time.Since(start) > 0 {
			w.Errorf("a waiting write got %v after %s, want a refusal at once", err, time.Since(start))
		}
	})
}

// TestWritesAreSpaced: one at a time, and the pause counts from the end of the one before.
func TestWritesAreSpaced(t *testing.T) {
	inWorld(t, func(w *world) {
		const between, slow = 3 * time.Second, 5 * time.Second
		c := w.client("retake-bot", func(o *Options) { o.MinBetweenWrites, o.MaxConcurrent = between, 8 })
		w.inject(githubtest.Fault{Method: "POST", Times: 1000, Delay: slow})
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				w.must(c.call(w.Context(), laneClaim, "POST", "repos/acme/widgets/issues/1/labels",
					map[string][]string{"labels": {fmt.Sprint("l", i)}}))
			})
		}
		wg.Wait()
		changes := w.changes()
		for i := 1; i < len(changes); i++ {
			if gap := changes[i].At.Sub(changes[i-1].At); gap != between+slow {
				w.Errorf("write %d came %s after the one before, want %s", i, gap, between+slow)
			}
		}
		if len(changes) != 5 {
			w.Errorf("%d writes", len(changes))
		}
	})
}

func TestWritesAreNeverCloserThanASecond(t *testing.T) {
	w := newWorld(t)
	for least, want := range map[time.Duration]time.Duration{
		0:                    time.Second,
		5 * time.Millisecond: 5 * time.Millisecond,
	} {
		c := w.client("retake-bot", func(o *Options) { o.MinBetweenWrites, o.LeastBetween = time.Millisecond, least })
		if g := c.transport.gate; g.between != want {
			t.Errorf("between = %s with LeastBetween %s, want %s", g.between, least, want)
		}
	}
}

func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Second, 1, time.Minute, func(Cooldown) {})
		first := &waiter{lane: laneReads}
		if err := g.enter(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for _, w := range []struct {
			name string
			waiter
		}{
			{"progress", waiter{lane: laneProgress, write: true}},
			{"read 1", waiter{lane: laneReads}},
			{"read 2", waiter{lane: laneReads}},
			{"completion", waiter{lane: laneCompletion, write: true}},
			{"claim", waiter{lane: laneClaim, write: true}},
			{"escalation 1", waiter{lane: laneEscalation, write: true}},
			{"escalation 2", waiter{lane: laneEscalation, write: true}},
		} {
			wg.Go(func() {
				if err := g.enter(t.Context(), &w.waiter); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, w.name)
				mu.Unlock()
				g.leave(&w.waiter, time.Now(), result{ok: true})
			})
			synctest.Wait()
		}
		g.leave(first, time.Now(), result{ok: true})
		wg.Wait()
		// The second escalation waits for the pause between writes; reads need not wait with it.
		want := []string{"escalation 1", "read 1", "read 2", "escalation 2", "claim", "completion", "progress"}
		if !slices.Equal(order, want) {
			t.Errorf("order = %q, want %q", order, want)
		}
	})
}

func TestBudgetsOfOurOwn(t *testing.T) {
	pass := func(t *testing.T, g *gate, l lane, write bool, n int) (passed int, err error) {
		t.Helper()
		for range n {
			w := &waiter{lane: l, write: write}
			if write {
				w.content = 1
			}
			if err := g.enter(t.Context(), w); err != nil {
				return passed, err
			}
			passed++
			g.leave(w, time.Now(), result{ok: true})
		}
		return passed, nil
	}
	t.Run("900 points a minute", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, start := newGate(time.Second, 1, time.Minute, func(Cooldown) {}), time.Now()
			_, _ = pass(t, g, laneReads, false, 900)
			if d := time.Since(start); d != 0 {
				t.Errorf("the first 900 took %s", d)
			}
			_, _ = pass(t, g, laneReads, false, 1)
			if d := time.Since(start); d != time.Minute {
				t.Errorf("number 901 left after %s, want a minute", d)
			}
		})
	})
	t.Run("2,000 points of GraphQL a minute, and 80 changes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for changes, want := range map[int]int{0: graphQLPerMinute / pointsOfWrite, 3: contentPerMinute / 3} {
				g, start := newGate(time.Millisecond, 1, time.Minute, func(Cooldown) {}), time.Now()
				n := 0
				for time.Since(start) < time.Minute {
					w := &waiter{lane: laneEscalation, write: true, graphQL: true, content: changes}
					if err := g.enter(t.Context(), w); err != nil {
						t.Fatal(err)
					}
					g.leave(w, time.Now(), result{ok: true})
					n++
				}
				if n != want+1 { // the last one had to wait for the minute
					t.Errorf("%d changes in each request: %d passed in a minute, want %d", changes, n-1, want)
				}
			}
		})
	})
	t.Run("the last 20 changes of an hour are for escalations", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(time.Second, 1, time.Minute, func(c Cooldown) { t.Errorf("told: %+v", c) })
			n, err := pass(t, g, laneClaim, true, 1000)
			if e := asError(t, err); n != contentPerHour-contentReserve || !e.Reserved() || e.Kind != KindRateLimited {
				t.Fatalf("claims: %d passed, then %v", n, err)
			}
			if n, err := pass(t, g, laneEscalation, true, contentReserve); n != contentReserve {
				t.Errorf("escalations: %d passed, then %v", n, err)
			}
		})
	})
	t.Run("500 changes an hour, 400 for progress", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var told []Cooldown
			g, start := newGate(time.Second, 1, time.Minute, func(c Cooldown) { told = append(told, c) }), time.Now()
			n, err := pass(t, g, laneProgress, true, 1000)
			if kindOf(err) != KindRateLimited || n != progressPerHour || len(told) > 0 {
				t.Fatalf("progress: %d passed, then %v; cooldowns %+v", n, err, told)
			}
			n, err = pass(t, g, laneEscalation, true, 1000)
			if kindOf(err) != KindRateLimited || n != contentPerHour-progressPerHour {
				t.Fatalf("escalations: %d passed, then %v", n, err)
			}
			if len(told) != 1 || told[0].Resource != ResourceWrite || !told[0].Until.Equal(start.Add(time.Hour)) {
				t.Errorf("cooldowns = %+v, want writes for an hour from %s", told, start)
			}
			if _, err := pass(t, g, laneReads, false, 1); err != nil {
				t.Errorf("a read: %v", err)
			}
		})
	})
}

// TestEachBudgetIsItsOwn: what GraphQL, or search, has used up closes nothing else; a secondary limit is of the
// credential.
func TestEachBudgetIsItsOwn(t *testing.T) {
	for _, resource := range []string{"graphql", "search"} {
		inWorld(t, func(w *world) {
			var told []Cooldown
			c := w.client("retake-bot", func(o *Options) { o.OnCooldown = func(c Cooldown) { told = append(told, c) } })
			f := githubtest.PrimaryLimit(403, time.Now().Add(20*time.Minute))
			f.Header["X-RateLimit-Resource"] = resource
			w.inject(f)
			_, err := c.Poll(w.Context(), testRepo, "")
			if e := asError(w.T, err); e.Resource != "github."+resource || len(told) != 1 ||
				told[0].Resource != e.Resource {
				w.Errorf("%+v, cooldowns %+v", e, told)
			}
			w.claimed(c)
			q := &waiter{lane: laneCompletion, write: true, graphQL: true}
			g := c.transport.gate
			g.mu.Lock()
			err = g.refusal(q, time.Now())
			g.mu.Unlock()
			if (err != nil) != (resource == "graphql") {
				w.Errorf("GraphQL after a limit of %s: %v", resource, err)
			}
		})
	}
}

// TestTheLastRequestsAreForQuestions: of the hour's requests a rest is kept for escalations. Nobody is told of
// a cooldown, since they go on.
func TestTheLastRequestsAreForQuestions(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot", func(o *Options) { o.OnCooldown = func(c Cooldown) { w.Errorf("told: %+v", c) } })
		reset := time.Now().Add(20 * time.Minute).Truncate(time.Second)
		left := func(n int) githubtest.Fault {
			return githubtest.Fault{Status: 200, Body: "[]", Header: map[string]string{
				"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": fmt.Sprint(n),
				"X-RateLimit-Reset": fmt.Sprint(reset.Unix()), "X-RateLimit-Resource": "core",
			}}
		}
		for _, n := range []int{requestReserve + 1, requestReserve} {
			w.inject(left(n))
			if _, err := c.Poll(w.Context(), testRepo, format(reset)); err != nil {
				w.Fatalf("with %d left: %v", n, err)
			}
		}
		_, err := c.Poll(w.Context(), testRepo, format(reset))
		if e := asError(w.T, err); !e.Reserved() || !e.Until.Equal(reset) {
			w.Errorf("a poll: %v, want it to wait for %s", err, reset)
		}
		w.must(c.call(w.Context(), laneEscalation, "POST", "repos/acme/widgets/issues/1/labels",
			map[string][]string{"labels": {"l"}}))
		time.Sleep(time.Until(reset))
		if _, err := c.Poll(w.Context(), testRepo, format(reset)); err != nil {
			w.Errorf("after the reset: %v", err)
		}
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		var mu sync.Mutex
		now, most := 0, 0
		c := w.client("retake-bot", func(o *Options) { o.MaxConcurrent = 3 },
			via(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					now++
					most = max(most, now)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					now--
					mu.Unlock()
					return next.RoundTrip(r)
				})
			}))
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := c.Issue(w.Context(), w.key); err != nil {
					w.Error(err)
				}
			})
		}
		wg.Wait()
		if most != 3 {
			w.Errorf("%d requests at a time, want 3", most)
		}
	})
}

func TestWaitsHonourTheContext(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot", func(o *Options) { o.MinBetweenWrites = time.Hour })
		w.claimedLabel(c)
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(w.Context())
		ended := make(chan error)
		go func() { ended <- c.Release(ctx, ReleaseRequest{Key: w.key, Nonce: testNonce}) }()
		synctest.Wait()
		cancel(why)
		if err := <-ended; kindOf(err) != KindTransient && !errors.Is(err, context.Canceled) {
			w.Errorf("error = %v", err)
		}
		if g := c.transport.gate; g.inflight != 0 || g.writing || len(g.queue) != 0 {
			w.Errorf("the gate still counts the waiter: %+v", g.queue)
		}
		// A hung connection ends by itself.
		w.inject(githubtest.Fault{Method: "GET", Delay: 24 * time.Hour})
		start := time.Now()
		if _, err := c.Issue(w.Context(), w.key); kindOf(err) != KindTransient || time.Since(start) != exchangeTimeout {
			w.Errorf("error = %v after %s", err, time.Since(start))
		}
	})
}

// claimedLabel makes one write.
func (w *world) claimedLabel(c *Client) {
	w.Helper()
	w.must(c.call(w.Context(), laneClaim, "POST", "repos/acme/widgets/issues/1/labels",
		map[string][]string{"labels": {"agent-claimed"}}))
}
