package github

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/github/githubtest"
)

// away are the ways in which GitHub does not answer.
var away = map[string]func(*http.Request) (*http.Response, error){
	"connection refused": func(*http.Request) (*http.Response, error) {
		return nil, errors.New("dial tcp 192.0.2.1:443: connect: connection refused")
	},
	"502": func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusBadGateway, Header: http.Header{}, Body: http.NoBody, Request: r},
			nil
	},
	"no answer in time": func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	},
	"a proxy's page": func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{},
			Body: io.NopCloser(strings.NewReader("<html>back soon</html>")), Request: r,
		}, nil
	},
}

// TestWhatWasNotSentSaysNothingOfGitHub: a transport that refuses by itself, as one without the lease does.
func TestWhatWasNotSentSaysNothingOfGitHub(t *testing.T) {
	inWorld(t, func(w *world) {
		modes["GraphQL"](w)
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if changes(r) {
					return nil, ErrNotSent
				}
				return next.RoundTrip(r)
			})
		}))
		for range 2 * downAfter {
			if _, err := c.Claim(w.Context(), claimRequest(w, testNonce)); !errors.Is(err, ErrNotSent) {
				w.Fatalf("claimed: %v", err)
			}
		}
		if since, why := c.Away(); !since.IsZero() || c.restAlone() {
			w.Errorf("away since %s: %s; without GraphQL: %t", since, why, c.restAlone())
		}
	})
}

// TestGitHubAwayIsProbed: ten minutes in which GitHub does not answer, with a poll every two seconds and a
// claim every three. It is shut within three failures, then there is one request per pause, which doubles to a
// minute; then everything goes on.
func TestGitHubAwayIsProbed(t *testing.T) {
	for name, fail := range away {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				const lasts = 10 * time.Minute
				begin := time.Now()
				var sent []time.Time
				var told []Cooldown
				var mu sync.Mutex // of both
				hear := func(c Cooldown) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, c)
				}
				c := w.client("retake-bot", func(o *Options) { o.OnCooldown = hear },
					via(func(next http.RoundTripper) http.RoundTripper {
						return roundTrip(func(r *http.Request) (*http.Response, error) {
							if time.Since(begin) >= lasts {
								return next.RoundTrip(r)
							}
							mu.Lock()
							sent = append(sent, time.Now())
							mu.Unlock()
							return fail(r)
						})
					}))
				go func() { // gives up on nothing, and waits for no deadline
					for time.Since(begin) < lasts {
						_, _ = c.Claim(w.Context(), claimRequest(w, testNonce))
						time.Sleep(3 * time.Second)
					}
				}()
				for time.Since(begin) < lasts {
					_, err := c.Poll(w.Context(), testRepo, format(begin))
					if err == nil {
						w.Fatal("a poll was answered")
					}
					mu.Lock()
					known := len(told) > 0
					mu.Unlock()
					if since, why := c.Away(); known && (since.IsZero() || why == "") {
						w.Errorf("after %s it is not away", time.Since(begin))
					}
					time.Sleep(2 * time.Second)
				}
				mu.Lock()
				requests, pauses := slices.Clone(sent), slices.Clone(told)
				mu.Unlock()
				if n := len(requests) - downAfter; n < 5 || n > len(pauses) { // one per pause that was over
					w.Fatalf("%d requests in %d pauses", len(requests), len(pauses))
				}
				for i, cd := range pauses {
					if cd.Resource != ResourceAPI || !strings.HasPrefix(cd.Why, "GitHub does not answer: ") {
						w.Errorf("cooldown %+v", cd)
					}
					pause := min(4*time.Second<<i, time.Minute)
					for _, at := range requests {
						if at.After(cd.Until.Add(-pause)) && at.Before(cd.Until) {
							w.Errorf("a request in pause %d, of %s", i, pause)
						}
					}
				}
				time.Sleep(time.Minute)
				if _, err := c.Poll(w.Context(), testRepo, ""); err != nil {
					w.Errorf("afterwards: %v", err)
				}
				if since, _ := c.Away(); !since.IsZero() {
					w.Error("afterwards it is away still")
				}
				w.claimed(c)
			})
		})
	}
}

// TestOneProbe: when the pause is over, and many wait, one request goes; the others learn from its answer.
func TestOneProbe(t *testing.T) {
	inWorld(t, func(w *world) {
		under, most := 0, 0
		var mu sync.Mutex // of both
		var answers atomic.Bool
		c := w.client("retake-bot", func(o *Options) { o.MaxConcurrent = 50 },
			via(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					under++
					most = max(most, under)
					mu.Unlock()
					time.Sleep(5 * time.Second)
					mu.Lock()
					under--
					mu.Unlock()
					if !answers.Load() {
						return nil, errors.New("connection refused")
					}
					return next.RoundTrip(r)
				})
			}))
		for range downAfter {
			_, _ = c.Issue(w.Context(), w.key)
		}
		ask := func() (sent int, errs []error) {
			time.Sleep(time.Minute)
			before := len(w.sim.Requests())
			all := make(chan error)
			for range 20 {
				go func() {
					_, err := c.Issue(w.Context(), w.key)
					all <- err
				}()
			}
			for range 20 {
				errs = append(errs, <-all)
			}
			return len(w.sim.Requests()) - before, errs
		}
		mu.Lock()
		most = 0
		mu.Unlock()
		_, errs := ask()
		limited := 0
		for _, err := range errs {
			if kindOf(err) == KindRateLimited {
				limited++
			}
		}
		if most != 1 || limited != 19 {
			w.Errorf("it still fails: %d requests at a time, %d refused; want 1 and 19", most, limited)
		}
		answers.Store(true)
		if sent, errs := ask(); sent != 20 || errors.Join(errs...) != nil {
			w.Errorf("it answers: %d requests, %v", sent, errors.Join(errs...))
		}
	})
}

// TestWhatIsNoOutage: refusals are answers, and so is anything between two failures; who gives up says nothing.
func TestWhatIsNoOutage(t *testing.T) {
	for name, between := range map[string]func(w *world, c *Client){
		"an answer": func(w *world, c *Client) { _, _ = c.Poll(w.Context(), testRepo, "") },
		"not found": func(w *world, c *Client) { _, _ = c.Issue(w.Context(), testRepo+"#99") },
		"a 403":     func(w *world, c *Client) { w.inject(forbidden()); _, _ = c.Poll(w.Context(), testRepo, "") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.client("retake-bot",
					func(o *Options) { o.OnCooldown = func(c Cooldown) { w.Errorf("shut: %+v", c) } })
				for range 5 {
					f := githubtest.ServerError(502)
					f.Times = downAfter - 1
					w.inject(f)
					for range downAfter - 1 {
						if _, err := c.Issue(w.Context(), w.key); kindOf(err) != KindTransient {
							w.Fatalf("want a failure, got %v", err)
						}
					}
					between(w, c)
				}
			})
		})
	}
}

func forbidden() githubtest.Fault {
	return githubtest.Fault{Status: 403, Body: `{"message":"Resource not accessible by integration"}`}
}

// TestAwayAfterARestart: the next process waits until the deadline, too, and then sends one request.
func TestAwayAfterARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		until := time.Now().Add(50 * time.Second)
		c.Prime(Cooldown{ResourceAPI, until, "GitHub does not answer: status 502"})
		w.inject(githubtest.ServerError(502))
		for range 30 {
			_, err := c.Issue(w.Context(), w.key)
			if e := asError(w.T, err); e.Kind != KindRateLimited || !e.Until.Equal(until) {
				w.Fatalf("before the deadline: %v", err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Until(until))
		if _, err := c.Issue(w.Context(), w.key); kindOf(err) != KindTransient {
			w.Fatalf("the probe: %v", err)
		}
		if _, err := c.Issue(w.Context(), w.key); kindOf(err) != KindRateLimited {
			w.Errorf("after the probe: %v", err)
		}
	})
}

// TestClosedIsNotSilent: whatever else has closed GitHub's API, a verdict for example, is told as what it is:
// GitHub has not been silent.
func TestClosedIsNotSilent(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		until := time.Now().Add(50 * time.Second)
		c.Prime(Cooldown{ResourceAPI, until, "three tasks failed alike"})
		if since, why := c.Away(); !since.IsZero() {
			w.Errorf("away since %s: %s", since, why)
		}
		if at, why := c.Closed(); !at.Equal(until) || why != "three tasks failed alike" {
			w.Errorf("closed until %s: %q", at, why)
		}
		w.probeUntil(c, until)
		if at, why := c.Closed(); !at.IsZero() {
			w.Errorf("still closed until %s: %q", at, why)
		}
		c.Prime(Cooldown{ResourceAPI, time.Now().Add(time.Minute), "GitHub does not answer: status 502"})
		if since, why := c.Away(); since.IsZero() || why != "status 502" {
			w.Errorf("away since %s: %q", since, why)
		}
		if at, why := c.Closed(); !at.IsZero() {
			w.Errorf("it is away, and closed until %s: %q", at, why)
		}
	})
}

// TestAProbeThatIsGivenUp is followed by a pause, too.
func TestAProbeThatIsGivenUp(t *testing.T) {
	inWorld(t, func(w *world) {
		sent := 0
		c := w.client("retake-bot", via(func(http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				sent++
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
		}))
		for range downAfter {
			_, _ = c.Issue(w.Context(), w.key)
		}
		time.Sleep(firstProbe)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if _, err := c.Issue(ctx, w.key); kindOf(err) != KindTransient {
			w.Fatalf("the probe: %v", err)
		}
		_, err := c.Issue(w.Context(), w.key)
		if e := asError(w.T, err); e.Kind != KindRateLimited || time.Until(e.Until) != firstProbe || sent != downAfter+
			1 {
			w.Errorf("after it: %v, %d requests", err, sent)
		}
	})
}
