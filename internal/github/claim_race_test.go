package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/github/claims"
	"retake/internal/github/tracker"
)

// TestOneWinnerInEveryInterleaving runs two claims request by request in every possible order, with different
// credentials and with the same one.
func TestOneWinnerInEveryInterleaving(t *testing.T) {
	for mode, setUp := range modes {
		for _, rival := range []string{"other-bot", "retake-bot"} {
			t.Run(mode+", "+rival, func(t *testing.T) {
				t.Parallel()
				runs := 0
				for order := []bool{}; order != nil; runs++ {
					order = interleave(t, setUp, rival, order)
				}
				t.Logf("%d interleavings", runs)
				if runs < 100 {
					t.Errorf("only %d interleavings: the requests were not interleaved", runs)
				}
			})
		}
	}
}

// interleave runs two claims request by request. order selects the claim that sends the next request, with false for
// the first claim. After the end of order, the first claim runs whenever possible. interleave returns the next order to
// try, or nil if all have been tried.
func interleave(t *testing.T, setUp func(*world), rival string, order []bool) (next []bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		setUp(w)
		var turns [2]chan struct{}
		var waiting, reads, ended [2]bool
		var results [2]claims.Result
		var errs [2]error
		for i, login := range []string{"retake-bot", rival} {
			turns[i] = make(chan struct{})
			c := w.client(login, func(o *Options) { o.Fleet, o.Login = fmt.Sprint("fleet", i), is(login) },
				// Do not validate the answers, because there are thousands, and other tests validate them.
				via(func(http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						waiting[i], reads[i] = true, r.Method == http.MethodGet
						<-turns[i]
						return w.sim.Transport().RoundTrip(r)
					})
				}))
			go func() {
				results[i], errs[i] = c.Claims.Claim(t.Context(), claimRequest(w, fmt.Sprintf("nonce%daa", i+2)))
				ended[i] = true
			}()
		}
		var taken []bool // turns taken
		var free []bool  // turns with a choice
		lastRead := false
		for {
			time.Sleep(2 * time.Second) // longer than the pacing of writes
			synctest.Wait()
			if ended[0] && ended[1] {
				break
			}
			choice := !ended[0] && !ended[1]
			second := ended[0]
			switch at := len(taken); {
			case choice && lastRead && taken[at-1] && reads[0]:
				second, choice = true, false // the order of two consecutive reads does not matter
			case choice && at < len(order):
				second = order[at]
			}
			taken, free = append(taken, second), append(free, choice)
			i := map[bool]int{false: 0, true: 1}[second]
			if !waiting[i] {
				t.Fatalf("client %d does not wait, but has not ended", i)
			}
			waiting[i], lastRead = false, reads[i]
			turns[i] <- struct{}{}
		}
		checkRace(w, results, errs, taken)
		for at := len(taken) - 1; at >= 0; at-- {
			if free[at] && !taken[at] {
				next = append(slices.Clone(taken[:at]), true)
				break
			}
		}
	})
	return next
}

func checkRace(w *world, results [2]claims.Result, errs [2]error, taken []bool) {
	w.Helper()
	won := 0
	for i, r := range results {
		if errs[i] != nil {
			w.Fatalf("%v: client %d: %v", taken, i, errs[i])
		}
		switch r.Outcome {
		case claims.Won:
			won++
		case claims.Lost:
			if r.Winner.Nonce == "" || r.Winner.Nonce == fmt.Sprintf("nonce%daa", i+2) {
				w.Fatalf("%v: client %d lost to %+v", taken, i, r.Winner)
			}
		}
	}
	if comments := w.marked(tracker.MarkClaim); won != 1 || len(comments) != 1 {
		w.Fatalf("%v: outcomes %s, %s; claim comments %+v", taken, results[0].Outcome, results[1].Outcome, comments)
	}
	if events := w.labelEvents(); !slices.Equal(events, []string{"+agent-claimed", "-agent-task"}) {
		w.Fatalf("%v: label events %q", taken, events)
	}
	if w.Failed() {
		w.FailNow()
	}
}

// is returns a known login without a request to GitHub.
func is(login string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return login, nil }
}
