package github

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/githubtest"
)

// away has the types of failures that count as an outage.
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

// TestWhatWasNotSentSaysNothingOfGitHub covers a transport that refuses requests locally, for example because the
// director does not hold the lease. Such requests do not count as an outage.
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

// TestGitHubAwayIsProbed checks that polls and claims close the gate in every type of outage, that the gate admits one
// request per pause, and that all requests succeed afterwards. Package gate tests the pauses.
func TestGitHubAwayIsProbed(t *testing.T) {
	for name, fail := range away {
		t.Run(name, func(t *testing.T) { inWorld(t, func(w *world) { w.probed(fail) }) })
	}
}

func (w *world) probed(fail func(*http.Request) (*http.Response, error)) {
	const lasts = 10 * time.Minute
	begin := time.Now()
	var sent, pauses atomic.Int32
	c := w.client("retake-bot", func(o *Options) {
		o.OnCooldown = func(cd gate.Cooldown) {
			if pauses.Add(1); cd.Resource != gate.API || !strings.HasPrefix(cd.Why, "GitHub does not answer: ") {
				w.Errorf("cooldown %+v", cd)
			}
		}
	}, via(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if time.Since(begin) >= lasts {
				return next.RoundTrip(r)
			}
			sent.Add(1)
			return fail(r)
		})
	}))
	go func() { // does not wait for the deadlines
		for time.Since(begin) < lasts {
			_, _ = c.Claims.Claim(w.Context(), claimRequest(w, testNonce))
			time.Sleep(3 * time.Second)
		}
	}()
	for time.Since(begin) < lasts {
		if _, err := c.Inbox.Poll(w.Context(), testRepo, api.Format(begin)); err == nil {
			w.Fatal("a poll was answered")
		}
		if since, why := c.API.Gate.Away(); pauses.Load() > 0 && (since.IsZero() || why == "") {
			w.Errorf("GitHub does not count as away after %s", time.Since(begin))
		}
		time.Sleep(2 * time.Second)
	}
	if n := sent.Load() - gate.DownAfter; n < 5 || n > pauses.Load() { // one request for each pause that has ended
		w.Fatalf("%d requests in %d pauses", sent.Load(), pauses.Load())
	}
	time.Sleep(time.Minute)
	if _, err := c.Inbox.Poll(w.Context(), testRepo, ""); err != nil {
		w.Errorf("afterwards: %v", err)
	}
	if since, _ := c.API.Gate.Away(); !since.IsZero() {
		w.Error("GitHub still counts as away afterwards")
	}
	w.claimed(c)
}

// TestWhatIsNoOutage checks that a refusal counts as an answer, that any answer resets the count of failures, and that
// a cancelled request does not count as a failure.
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
