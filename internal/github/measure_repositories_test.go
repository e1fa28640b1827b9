package github

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/githubtest"
)

// quiet polls repositories without changes, with one credential and the defaults, for twice the given time. For the
// second half it returns the number of requests, the number of requests that count against the hourly limit, and the
// sorted intervals between polls of a repository. It runs on the bubble's clock.
func quiet(t *testing.T, repos, limit int, every, lasts time.Duration) (requests, paid int, between []time.Duration) {
	t.Helper()
	sim := githubtest.New(githubtest.Options{Limits: true, RateLimit: limit})
	sim.AddUser("retake-bot", "token")
	var mu sync.Mutex
	counts := false
	client, err := New(Options{
		Options: api.Options{
			BaseURL: testAPI, MinBetweenWrites: 2 * time.Second, MaxConcurrent: 2, CooldownDefault: time.Minute,
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(latency)
				answer, err := sim.Transport().RoundTrip(r)
				mu.Lock()
				defer mu.Unlock()
				if counts && err == nil {
					requests++
					if answer.StatusCode != http.StatusNotModified {
						paid++
					}
				}
				return answer, err
			}),
			Token: func(context.Context) (string, error) { return "token", nil },
		},
		Fleet: "default", Labels: testLabels, TrustedAuthors: []string{"OWNER"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var pollers sync.WaitGroup
	for i := range repos {
		repo := fmt.Sprintf("acme/r%04d", i)
		if err := sim.AddRepo(repo, "", map[string]string{"retake-bot": "write"}); err != nil {
			t.Fatal(err)
		}
		pollers.Go(func() {
			pollEvery(ctx, client, repo, every, func(pause time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				if counts {
					between = append(between, pause)
				}
			})
		})
	}
	time.Sleep(lasts) // the first polls list everything
	mu.Lock()
	counts = true
	mu.Unlock()
	time.Sleep(lasts)
	stop()
	pollers.Wait()
	if n := sim.Throttled(); n > 0 {
		t.Errorf("%d repositories every %v: GitHub's limits were met %d times", repos, every, n)
	}
	slices.Sort(between)
	return requests, paid, between
}

// pollEvery polls a repository until ctx is done, and reports the intervals.
func pollEvery(ctx context.Context, c *Client, repo string, every time.Duration, looked func(pause time.Duration)) {
	var last time.Time
	for cursor := ""; ctx.Err() == nil; {
		if page, err := c.Inbox.Poll(ctx, repo, cursor); err == nil {
			if !last.IsZero() {
				looked(time.Since(last))
			}
			cursor, last = page.Cursor, time.Now()
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

// TestManyQuietRepositoriesCostNothing checks that polls of unchanged repositories do not count against GitHub's hourly
// limit, for any number of repositories.
func TestManyQuietRepositoriesCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, paid, between := quiet(t, 600, 12500, 5*time.Minute, 12*time.Minute)
		if paid > 0 || requests < 600 || len(between) < 600 {
			t.Errorf("%d of %d requests cost one, and %d looks were seen", paid, requests, len(between))
		}
	})
}

// TestMeasureRepositories prints the number of requests and the delay of polls for many quiet repositories. The figures
// are in docs/specs/kubernetes.md.
func TestMeasureRepositories(t *testing.T) {
	if os.Getenv("RETAKE_MEASURE") == "" {
		t.Skip("measures for half a minute: RETAKE_MEASURE=1")
	}
	for _, c := range []struct {
		repos, limit int // limit: hourly requests of a token, or of an App with that number of repositories
		every        time.Duration
	}{
		{10, 5000, 30 * time.Second},
		{100, 5000, 30 * time.Second},
		{1000, 12500, 30 * time.Second},
		{1000, 12500, 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			const lasts = 30 * time.Minute
			requests, paid, between := quiet(t, c.repos, c.limit, c.every, lasts)
			t.Logf("%d repositories every %v: %d requests a minute, %d of them paid in %v, time between polls "+
				"%v, at most %v", c.repos, c.every,
				requests/int(lasts.Minutes()), paid, lasts, between[len(between)/2].Round(time.Second),
				between[len(between)-1].Round(time.Second))
		})
	}
}
