package intake

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/fsm"
	"retake/internal/github/deliver"
	"retake/internal/github/inbox"
)

// quietGitHub never shows changes. It counts the requests.
type quietGitHub struct {
	offerClient
	commentClient
	mu    sync.Mutex
	looks int
}

func (g *quietGitHub) Poll(context.Context, string, string) (inbox.Page, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks++
	return inbox.Page{Cursor: "c", Same: true}, nil
}

func (g *quietGitHub) Comments(context.Context, string, string) (inbox.Comments, error) {
	return inbox.Comments{Cursor: "c"}, nil
}

func (*quietGitHub) BranchHead(context.Context, string, string) (string, error) { return "", nil }

func (g *quietGitHub) Refresh(context.Context, string, deliver.PullRequest) (deliver.PullRequest, error) {
	return deliver.PullRequest{}, nil
}

func (g *quietGitHub) PullRequest(context.Context, string, int) (deliver.PullRequest, error) {
	return deliver.PullRequest{}, nil
}

func (g *quietGitHub) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.looks
}

type noRecord struct{}

func (noRecord) Worked(string)                               {}
func (noRecord) Failed(string, string, error, time.Duration) {}

// newPolls returns the polls of one repository, with a full poll every hour.
func newPolls(t *testing.T, g *quietGitHub) *Polls {
	t.Helper()
	c := config.Default()
	c.GitHub.Repositories, c.GitHub.Poll = []string{"acme/widgets"}, time.Hour
	setup, err := inforce.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	var current inforce.Current
	current.Store(setup)
	h, p := looptest.Start(t.Context(), t), &Polls{}
	go func() { // the journal accepts every append
		for {
			select {
			case h.Journal.Answers <- nil:
			case <-t.Context().Done():
				return
			}
		}
	}()
	p.Owner, p.GitHub, p.Config, p.Log, p.Record = h.Owner, g, &current, zap.NewNop(), noRecord{}
	p.WholeEvery, p.CommentsEvery, p.Unusable = WholeEvery, CommentsEvery, &sync.Map{}
	p.Open, p.Closed = func(context.Context, string) error { return nil }, func(fsm.IssueKey) {}
	p.Offers = &Offers{GitHub: g, Config: &current, Unusable: p.Unusable, Log: p.Log}
	p.Refusals = NewPostponed(PostponedFor, p.Offers.AsksForWork)
	p.Comments = &Comments{Owner: h.Owner, GitHub: g, Config: &current, Log: p.Log}
	p.Reviews = NewReviews(ReviewSources{Owner: h.Owner, GitHub: g, Config: &current, Record: noRecord{}, Log: p.Log})
	return p
}

// TestWakeLooksAtItsRepositoryAlone checks that a webhook causes a poll of its repository within seconds, although
// the next poll is an hour away, and a second poll a little later. A webhook of another repository has no effect.
func TestWakeLooksAtItsRepositoryAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &quietGitHub{}
		p := newPolls(t, g)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		run := p.Add("acme/widgets")
		go func() { ended <- run(ctx) }()
		looks := func(wait time.Duration) int {
			before := g.count()
			time.Sleep(wait)
			synctest.Wait()
			return g.count() - before
		}
		if n := looks(time.Minute); n == 0 {
			t.Error("the loop does not poll at the start")
		}
		if n := looks(30 * time.Minute); n != 0 {
			t.Errorf("%d polls within the interval", n)
		}
		if p.Wake(inbox.Notice{Repo: "acme/gadgets", Issue: 1, Matters: true}) || looks(time.Minute) != 0 {
			t.Error("another repository's webhook wakes the poll")
		}
		if !p.Wake(inbox.Notice{Repo: "Acme/Widgets", Issue: 1, Matters: true}) || looks(2*loop.WakeDelay) != 1 {
			t.Error("its webhook does not wake the poll")
		}
		if n := looks(2 * secondLook); n != 1 {
			t.Errorf("%d second polls, want 1", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
