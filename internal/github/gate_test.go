package github

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/githubtest"
)

// TestCooldowns checks that the client does not send requests until the deadline of a limit, and that the gate closes
// before it reports the limit.
func TestCooldowns(t *testing.T) {
	for name, tc := range map[string]struct {
		fault githubtest.Fault
		until time.Duration
		why   string
	}{
		"secondary, with Retry-After": {githubtest.SecondaryLimit(429, 30*time.Second), 30 * time.Second, "secondary"},
		"secondary, nothing stated":   {githubtest.SecondaryLimit(403, 0), time.Minute, "secondary"},
		"primary":                     {githubtest.PrimaryLimit(403, time.Time{}), 20 * time.Minute, "primary"},
		"success that used the last request": {
			githubtest.Fault{Status: 200, Body: `[]`, Header: map[string]string{"X-RateLimit-Remaining": "0"}},
			20 * time.Minute, "primary",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := tc.fault
				if tc.why == "primary" {
					f.Header["X-RateLimit-Reset"] = fmt.Sprint(time.Now().Add(tc.until).Unix())
				}
				w.meetLimit(f, time.Now().Add(tc.until), tc.why)
			})
		})
	}
}

// meetLimit lets a poll exceed a limit, and checks the error, the report and the deadline.
func (w *world) meetLimit(f githubtest.Fault, until time.Time, why string) {
	var told []gate.Cooldown
	var c *Client
	c = w.client("retake-bot", func(o *Options) {
		o.OnCooldown = func(cd gate.Cooldown) {
			if _, err := c.Issues.Issue(w.Context(), w.key); api.KindOf(err) != api.KindRateLimited {
				w.Errorf("a call from OnCooldown: %v, want rate_limited", err)
			}
			told = append(told, cd)
		}
	})
	w.inject(f)
	_, err := c.Inbox.Poll(w.Context(), testRepo, api.Format(time.Now()))
	if f.Status != 200 {
		if e := asError(w.T, err); e.Kind != api.KindRateLimited || !e.Until.Equal(until) || e.Status != f.Status {
			w.Errorf("error = %+v, want rate_limited until %s", e, until)
		}
	}
	if len(told) != 2 || !told[0].Until.Equal(until) || !strings.HasPrefix(told[0].Why, why) ||
		told[0].Resource == told[1].Resource {
		w.Fatalf("cooldowns = %+v, want both resources until %s, %s", told, until, why)
	}
	w.probeUntil(c, until)
}

// probeUntil checks that requests are refused before a deadline, and succeed after it.
func (w *world) probeUntil(c *Client, until time.Time) {
	w.Helper()
	before := len(w.sim.Requests())
	for time.Now().Before(until) {
		asked := time.Now()
		_, read := c.Issues.Issue(w.Context(), w.key)
		write := c.Labels.EnsureLabels(w.Context(), testRepo)
		if api.KindOf(read) != api.KindRateLimited || api.KindOf(write) != api.KindRateLimited ||
			!time.Now().Equal(asked) {
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
	if _, err := c.Issues.Issue(w.Context(), w.key); err != nil {
		w.Fatalf("after the cooldown: %v", err)
	}
}

// TestEachBudgetIsItsOwn checks that an exhausted budget of GraphQL or search does not close other resources. A
// secondary limit applies to the whole credential.
func TestEachBudgetIsItsOwn(t *testing.T) {
	for _, resource := range []string{"graphql", "search"} {
		inWorld(t, func(w *world) {
			var told []gate.Cooldown
			c := w.client("retake-bot", func(o *Options) {
				o.OnCooldown = func(c gate.Cooldown) { told = append(told, c) }
			})
			f := githubtest.PrimaryLimit(403, time.Now().Add(20*time.Minute))
			f.Header["X-RateLimit-Resource"] = resource
			w.inject(f)
			_, err := c.Inbox.Poll(w.Context(), testRepo, "")
			if e := asError(w.T, err); e.Resource != "github."+resource || len(told) != 1 ||
				told[0].Resource != e.Resource {
				w.Errorf("%+v, cooldowns %+v", e, told)
			}
			w.claimed(c)
			ended, end := context.WithCancel(w.Context())
			end()
			err = c.API.Gate.Enter(ended, &gate.Request{Lane: gate.Completion, Write: true, GraphQL: true})
			_, refused := errors.AsType[*gate.Refused](err)
			if refused != (resource == "graphql") {
				w.Errorf("GraphQL after a limit of %s: %v", resource, err)
			}
		})
	}
}

// TestTheLastRequestsAreForQuestions checks that the last requests of the hour are reserved for escalations. The gate
// does not report a cooldown, because escalations continue.
func TestTheLastRequestsAreForQuestions(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot", func(o *Options) {
			o.OnCooldown = func(c gate.Cooldown) { w.Errorf("told: %+v", c) }
		})
		reset := time.Now().Add(20 * time.Minute).Truncate(time.Second)
		left := func(n int) githubtest.Fault {
			return githubtest.Fault{Status: 200, Body: "[]", Header: map[string]string{
				"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": fmt.Sprint(n),
				"X-RateLimit-Reset": fmt.Sprint(reset.Unix()), "X-RateLimit-Resource": "core",
			}}
		}
		for _, n := range []int{100 + 1, 100} {
			w.inject(left(n))
			if _, err := c.Inbox.Poll(w.Context(), testRepo, api.Format(reset)); err != nil {
				w.Fatalf("with %d left: %v", n, err)
			}
		}
		_, err := c.Inbox.Poll(w.Context(), testRepo, api.Format(reset))
		if e := asError(w.T, err); !e.Reserved() || !e.Until.Equal(reset) {
			w.Errorf("a poll: %v, want it to wait for %s", err, reset)
		}
		_, err = c.API.Do(w.Context(), gate.Escalation, "POST", "repos/acme/widgets/issues/1/labels",
			map[string][]string{"labels": {"l"}}, nil)
		w.must(err)
		time.Sleep(time.Until(reset))
		if _, err := c.Inbox.Poll(w.Context(), testRepo, api.Format(reset)); err != nil {
			w.Errorf("after the reset: %v", err)
		}
	})
}

func TestAHungConnectionEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.inject(githubtest.Fault{Method: "GET", Delay: 24 * time.Hour})
		start := time.Now()
		if _, err := c.Issues.Issue(w.Context(), w.key); api.KindOf(err) != api.KindTransient ||
			time.Since(start) != (30*time.Second) {
			w.Errorf("error = %v after %s", err, time.Since(start))
		}
	})
}
