package intake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/fsm"
	"retake/internal/github/api"
	"retake/internal/github/deliver"
)

// failingPulls fails each read of a pull request with one error.
type failingPulls struct{ err error }

func (failingPulls) BranchHead(context.Context, string, string) (string, error) { return "", nil }

func (f failingPulls) Refresh(context.Context, string, deliver.PullRequest) (deliver.PullRequest, error) {
	return deliver.PullRequest{}, f.err
}

func (f failingPulls) PullRequest(context.Context, string, int) (deliver.PullRequest, error) {
	return deliver.PullRequest{}, f.err
}

// TestRingDoesNotShortenARateLimit checks that a webhook about a pull request does not send requests into a limit.
// After any other failure, a webhook wakes the next round.
func TestRingDoesNotShortenARateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, err := inforce.New(config.Default(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var current inforce.Current
		current.Store(in)
		owner := loop.New(fsm.NewDriver(fsm.New(looptest.Config()), 0, "test"), looptest.NewJournal(), zap.NewNop())
		limit := &api.Error{Kind: api.KindRateLimited, Until: time.Now().Add(time.Hour)}
		for _, row := range []struct {
			err     error
			pause   time.Duration
			mayWake bool
		}{
			{limit, time.Hour, false},
			{&api.Error{Kind: api.KindTransient}, in.GitHub.Poll, true},
			{nil, in.GitHub.Poll, true},
		} {
			r := NewReviews(ReviewSources{
				Owner: owner, GitHub: failingPulls{row.err}, Config: &current, Record: noRecord{}, Log: zap.NewNop(),
			})
			pause, mayWake := r.lookAtAll(t.Context(), []reviewedTask{{"acme/widgets#1", 7}})
			if pause != row.pause || mayWake != row.mayWake {
				t.Errorf("%v: pause %s, may ring %t; want %s, %t", row.err, pause, mayWake, row.pause, row.mayWake)
			}
		}
	})
}
