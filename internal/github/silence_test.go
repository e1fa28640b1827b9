package github

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/gate"
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
				if r.Method != http.MethodGet {
					return nil, api.ErrNotSent
				}
				return next.RoundTrip(r)
			})
		}))
		for range 2 * gate.DownAfter {
			if _, err := c.Claims.Claim(w.Context(), claimRequest(w, testNonce)); !errors.Is(err, api.ErrNotSent) {
				w.Fatalf("claimed: %v", err)
			}
		}
		if since, why := c.API.Gate.Away(); !since.IsZero() || c.Labels.RestAlone() {
			w.Errorf("away since %s: %s; without GraphQL: %t", since, why, c.Labels.RestAlone())
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
				var told []gate.Cooldown
				var mu sync.Mutex // of both
				hear := func(c gate.Cooldown) {
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
						_, _ = c.Claims.Claim(w.Context(), claimRequest(w, testNonce))
						time.Sleep(3 * time.Second)
					}
				}()
				for time.Since(begin) < lasts {
					_, err := c.Inbox.Poll(w.Context(), testRepo, api.Format(begin))
					if err == nil {
						w.Fatal("a poll was answered")
					}
					mu.Lock()
					known := len(told) > 0
					mu.Unlock()
					if since, why := c.API.Gate.Away(); known && (since.IsZero() || why == "") {
						w.Errorf("after %s it is not away", time.Since(begin))
					}
					time.Sleep(2 * time.Second)
				}
				mu.Lock()
				requests, pauses := slices.Clone(sent), slices.Clone(told)
				mu.Unlock()
				if n := len(requests) - gate.DownAfter; n < 5 || n > len(pauses) { // one per pause that was over
					w.Fatalf("%d requests in %d pauses", len(requests), len(pauses))
				}
				for i, cd := range pauses {
					if cd.Resource != gate.API || !strings.HasPrefix(cd.Why, "GitHub does not answer: ") {
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
				if _, err := c.Inbox.Poll(w.Context(), testRepo, ""); err != nil {
					w.Errorf("afterwards: %v", err)
				}
				if since, _ := c.API.Gate.Away(); !since.IsZero() {
					w.Error("afterwards it is away still")
				}
				w.claimed(c)
			})
		})
	}
}

// TestWhatIsNoOutage: refusals are answers, and so is anything between two failures; who gives up says nothing.
func TestWhatIsNoOutage(t *testing.T) {
	for name, between := range map[string]func(w *world, c *Client){
		"an answer": func(w *world, c *Client) { _, _ = c.Inbox.Poll(w.Context(), testRepo, "") },
		"not found": func(w *world, c *Client) { _, _ = c.Issues.Issue(w.Context(), testRepo+"#99") },
		"a 403": func(w *world, c *Client) {
			w.inject(forbidden())
			_,
				_ = c.Inbox.Poll(w.Context(), testRepo, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.client("retake-bot",
					func(o *Options) { o.OnCooldown = func(c gate.Cooldown) { w.Errorf("shut: %+v", c) } })
				for range 5 {
					f := githubtest.ServerError(502)
					f.Times = gate.DownAfter - 1
					w.inject(f)
					for range gate.DownAfter - 1 {
						if _, err := c.Issues.Issue(w.Context(), w.key); api.KindOf(err) != api.KindTransient {
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
