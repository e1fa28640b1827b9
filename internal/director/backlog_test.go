package director

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/journal"
	"retake/internal/bus/server"
	"retake/internal/config"
	"retake/internal/director/effects"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/intake"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/api"
	"retake/internal/github/approval"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/deliver"
	"retake/internal/github/gate"
	"retake/internal/github/githubtest"
	"retake/internal/github/inbox"
	"retake/internal/github/tracker"
)

const (
	backlogRepo    = "acme/widgets"
	backlogLatency = 250 * time.Millisecond // of a request to GitHub
	agentTakes     = 30 * time.Second
	pushTakes      = time.Second
	startTakes     = time.Second
)

// TestBacklogOfAMachine labels 1,000 issues at once, or 2,000 at night. The machine, its owner, the intake, the claims,
// the gate and the journal are real. Workers and git are played, on the bubble's clock. From minute 60, the rate must
// approach the bound that GitHub's limits set, and finished work must not wait. The pull requests stay unreviewed.
func TestBacklogOfAMachine(t *testing.T) {
	issues, hours := 1000, 2
	switch {
	case raced: // the same code runs in the first minutes
		issues, hours = 40, 1
	case os.Getenv("RETAKE_NIGHTLY") != "":
		issues, hours = 2000, 4
	}
	var alone time.Duration
	records := openJournal(t)
	synctest.Test(t, func(t *testing.T) {
		f := newPlayedFleet(t, 1, records)
		f.run(10 * time.Minute)
		alone = slices.Max(f.done)
	})
	records = openJournal(t)
	synctest.Test(t, func(t *testing.T) {
		f := newPlayedFleet(t, issues, records)
		f.run(time.Duration(hours) * time.Hour)
		f.check(hours, alone)
	})
}

// outsideJournal is a journal with a server on the real clock. The bubble's clock stops during its appends.
type outsideJournal struct {
	requests chan appendRequest
	answers  chan appendAnswer
	end      atomic.Pointer[bus.Head]
	batches  atomic.Int64
}

type appendRequest struct {
	id    string
	after uint64
	data  []byte
}

type appendAnswer struct {
	seq uint64
	err error
}

func openJournal(t *testing.T) *outsideJournal {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	srv, err := server.Start(t.Context(), server.Options{Dir: t.TempDir()})
	must(err)
	t.Cleanup(func() { _ = srv.Close(context.Background()) })
	user, err := srv.Keys().Journal()
	must(err)
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserJWTAndSeed(user.JWT, user.Seed),
		nats.Timeout(time.Minute))
	must(err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(err)
	dir := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Options{
		JS: js, Subject: "journal.backlog", Fleet: "default", Bytes: 1 << 30, Replicas: 1, Log: zap.NewNop(),
		Mirror: filepath.Join(dir, "journal.head"), Archive: journal.Archive{Dir: filepath.Join(dir, "journal")},
	})
	must(err)
	t.Cleanup(func() { must(j.Close()) })
	o := &outsideJournal{requests: make(chan appendRequest), answers: make(chan appendAnswer)}
	o.end.Store(new(j.Head()))
	go func() {
		for r := range o.requests {
			seq, err := j.Append(context.Background(), r.id, r.after, r.data)
			o.end.Store(new(j.Head()))
			o.batches.Add(1)
			o.answers <- appendAnswer{seq, err}
		}
	}()
	t.Cleanup(func() { close(o.requests) })
	return o
}

// Append appends one batch. The owner runs one append at a time.
func (o *outsideJournal) Append(_ context.Context, id string, after uint64, data []byte) (uint64, error) {
	o.requests <- appendRequest{id, after, data}
	a := <-o.answers
	return a.seq, a.err
}

func (o *outsideJournal) Head() bus.Head { return *o.end.Load() }

// playedFleet is a director with played workers. Its fields before mu are set before the owner runs.
type playedFleet struct {
	*testing.T
	sim     *githubtest.Server
	github  *github.Client
	inForce inforce.Current
	owner   *loop.Owner
	owed    atomic.Int64
	journal *outsideJournal
	began   time.Time // of the labels
	before  int       // requests before the labels

	mu       sync.Mutex
	ended    map[fsm.IssueKey]time.Time // when the agent ended
	done     []time.Duration            // when each delivery succeeded, counted from the labels
	waits    []time.Duration            // from the end of the agent to the delivery
	failures []string
}

func newPlayedFleet(t *testing.T, issues int, j *outsideJournal) *playedFleet {
	f := &playedFleet{
		T: t, sim: githubtest.New(githubtest.Options{Limits: true}), journal: j,
		ended: map[fsm.IssueKey]time.Time{},
	}
	f.sim.AddUser("retake-bot", "token")
	f.must(f.sim.AddRepo(backlogRepo, "", map[string]string{"retake-bot": "write"}))
	c := config.Default()
	c.GitHub.Repositories, c.Director.MaxWorkers, c.GitHub.TrustedAuthors = []string{backlogRepo}, 40, []string{"OWNER"}
	setup, err := inforce.New(c, nil)
	f.must(err)
	f.inForce.Store(setup)
	f.github, err = github.New(github.Options{
		Options: api.Options{
			BaseURL: "https://github.test/api/v3/", Writes: true,
			MinBetweenWrites: c.RateLimits.GitHub.MinBetweenWrites,
			MaxConcurrent:    c.RateLimits.GitHub.MaxConcurrentRequests, CooldownDefault: time.Minute,
			Owed: func() int { return int(f.owed.Load()) }, Transport: distantGitHub{f.sim.Transport()},
			Token: func(context.Context) (string, error) { return "token", nil },
			OnCooldown: func(c gate.Cooldown) {
				go f.owner.Send(t.Context(),
					fsm.CooldownReported{Resource: c.Resource, Until: c.Until, Why: c.Why}, nil)
			},
		},
		Fleet: "default", Labels: tracker.Labels(c.GitHub.Labels), TrustedAuthors: c.GitHub.TrustedAuthors,
	})
	f.must(err)
	f.must(f.github.Labels.EnsureLabels(t.Context(), backlogRepo))
	f.before, f.began = len(f.sim.Requests()), time.Now()
	for i := range issues {
		f.sim.CreateIssue(backlogRepo, "acme", fmt.Sprint("Issue ", i), "Please.", c.GitHub.Labels.Task)
	}
	return f
}

func (f *playedFleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// distantGitHub delays each request.
type distantGitHub struct{ http.RoundTripper }

func (d distantGitHub) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(backlogLatency)
	return d.RoundTripper.RoundTrip(r)
}

// run starts the director's parts and ends them after span.
func (f *playedFleet) run(span time.Duration) {
	ctx, stop := context.WithCancel(f.Context())
	m := fsm.New(f.inForce.Load().Machine(nil))
	f.owner = loop.New(fsm.NewDriver(m, f.journal.Head().Seq, "backlog"), f.journal, zap.NewNop())
	runner := loop.NewRunner(ctx, f.executors(), func(e fsm.EffectEnded) { f.owner.Send(ctx, e, nil) },
		func() bool { return true }, zap.NewNop())
	f.owner.Effects, f.owner.OnDurable = runner.Submit, f.durable
	f.owner.OnBatch = func(uint64, []fsm.Record) { f.owed.Store(int64(m.Owed())) }
	f.must(f.owner.Offer(fsm.Booted{RunID: "backlog"}))
	f.must(f.owner.Offer(fsm.ContainersListed{TakenAt: f.owner.Clock.Now()}))
	polls := f.polls()
	var all sync.WaitGroup
	for _, part := range []func(context.Context) error{polls.Add(backlogRepo), polls.Reviews.Run, f.owner.Run} {
		all.Go(func() {
			if err := part(ctx); err != nil {
				f.Error(err)
			}
		})
	}
	time.Sleep(span)
	stop()
	all.Wait()
	runner.Wait()
}

// durable follows cooldowns as the director does.
func (f *playedFleet) durable(r fsm.Record) {
	for _, fact := range r.Facts {
		switch fact := fact.(type) {
		case fsm.CooldownSet:
			f.github.API.Gate.Prime(gate.Cooldown{Resource: fact.Resource, Until: fact.Until, Why: fact.Why})
		case fsm.CooldownLifted:
			f.github.API.Gate.Lift(fact.Resource)
		case fsm.VerdictMade:
			f.mu.Lock()
			f.failures = append(f.failures, fmt.Sprintf("%s: %s: %s", fact.Task, fact.Verdict.Action, fact.Verdict.Why))
			f.mu.Unlock()
		}
	}
}

// polls returns the intake of the repository.
func (f *playedFleet) polls() *intake.Polls {
	p := &intake.Polls{
		Owner: f.owner, GitHub: f.github.Inbox, Config: &f.inForce, Offers: f.offers(),
		Comments: &intake.Comments{Owner: f.owner, Config: &f.inForce, Log: zap.NewNop(), GitHub: struct {
			*inbox.Inbox
			*claims.Claims
			*ask.Asker
		}{f.github.Inbox, f.github.Claims, f.github.People}},
		Reviews: intake.NewReviews(intake.ReviewSources{
			Owner: f.owner, GitHub: f.github.Deliveries, Config: &f.inForce, Record: unrecorded{}, Log: zap.NewNop(),
		}),
		Open: func(context.Context, string) error { return nil }, Closed: func(fsm.IssueKey) {},
		Unusable: &sync.Map{}, Record: unrecorded{}, WholeEvery: intake.WholeEvery,
		CommentsEvery: intake.CommentsEvery, Log: zap.NewNop(),
	}
	p.Refusals = intake.NewPostponed(intake.PostponedFor, p.Offers.AsksForWork)
	return p
}

func (f *playedFleet) offers() *intake.Offers {
	return &intake.Offers{Config: &f.inForce, Unusable: &sync.Map{}, Log: zap.NewNop(), GitHub: struct {
		*inbox.Inbox
		*approval.Approvals
	}{f.github.Inbox, f.github.Approvals}}
}

type unrecorded struct{}

func (unrecorded) Worked(string)                               {}
func (unrecorded) Failed(string, string, error, time.Duration) {}

// executors returns the director's executors for GitHub, and played ones for containers and git.
func (f *playedFleet) executors() map[fsm.EffectKind]loop.Executor {
	c := &effects.Claims{
		GitHub: f.github, Labels: f.inForce.Load().GitHub.Labels, RunID: "backlog", Refused: func(string) {},
	}
	questions := &effects.Questions{Setup: f.inForce.Load, GitHub: f.github}
	nothing := func(context.Context, fsm.Effect) fsm.EffectEnded { return fsm.EffectEnded{} }
	all := map[fsm.EffectKind]loop.Executor{}
	for _, k := range append(fsm.DurableEffects(), fsm.DoWelcome, fsm.DoFence, fsm.DoProbe, fsm.DoRemove,
		fsm.DoReadIssue,
		fsm.DoReadReview, fsm.DoReply, fsm.DoReclaim, fsm.DoTidy, fsm.DoForget) {
		all[k] = nothing
	}
	all[fsm.DoClaim], all[fsm.DoRecheck], all[fsm.DoProgress] = c.Claim, c.Recheck, questions.Progress
	all[fsm.DoStart], all[fsm.DoStop], all[fsm.DoDeliver] = f.start, f.stop, f.deliver
	return all
}

// start plays a container with a worker whose agent succeeds.
func (f *playedFleet) start(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if _, err := effects.NewIssueTexts(f.github, zap.NewNop()).Approved(ctx, e.Task); err != nil {
		return failure.Ended(err)
	}
	time.Sleep(startTakes)
	go func() {
		f.owner.Send(ctx, fsm.Hello{Worker: e.Worker, Token: 1}, nil)
		time.Sleep(agentTakes)
		f.mu.Lock()
		f.ended[e.Task] = time.Now()
		f.mu.Unlock()
		f.owner.Send(f.Context(), fsm.ReportReceived{Worker: e.Worker, Report: success(e.Worker)}, nil)
	}()
	return fsm.EffectEnded{}
}

func success(worker string) fsm.Report {
	return fsm.Report{Ref: fsm.ReportRef{ID: worker + "/1", Seq: 1}, OK: true, Final: true, Stage: "DONE"}
}

func (f *playedFleet) stop(_ context.Context, e fsm.Effect) fsm.EffectEnded {
	return fsm.EffectEnded{Stop: &fsm.StopResult{ExitCode: new(0), Reports: []fsm.Report{success(e.Worker)}}}
}

// deliver makes the requests of a delivery, and plays the push.
func (f *playedFleet) deliver(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	issue, err := f.github.Issues.Issue(ctx, string(e.Task))
	if err == nil {
		_, err = f.github.Deliveries.Withdrawn(ctx, issue)
	}
	if err != nil {
		return failure.Ended(err)
	}
	time.Sleep(pushTakes)
	branch := effects.BranchOf(e)
	to, err := f.github.Deliveries.Deliver(ctx, deliver.Request{
		Key: string(e.Task), Nonce: e.Nonce, Branch: branch, Base: "main", Title: issue.Title,
		PullRequest: true, Watch: true, Summary: "Done.",
	})
	if err == nil {
		f.mu.Lock()
		f.done = append(f.done, time.Since(f.began))
		f.waits = append(f.waits, time.Since(f.ended[e.Task]))
		f.mu.Unlock()
	}
	return failure.Or(fsm.EffectEnded{Delivery: &fsm.DeliverResult{
		Branch: branch, SHA: "0123456789012345678901234567890123456789", URL: to.URL, PullRequest: to.PullRequest,
	}}, err)
}

// check compares the rate with the bound. alone is the time that a single task takes.
func (f *playedFleet) check(hours int, alone time.Duration) {
	const writes, pause = 5, 2 * time.Second // of a task with its pull request
	within, counted := 0, 0
	for _, at := range f.done {
		if at >= time.Hour {
			within++
		}
	}
	for _, r := range f.sim.Requests()[f.before:] {
		if r.Status != http.StatusNotModified && r.Path != "/graphql" { // these two do not use up the hour's requests
			counted++
		}
	}
	if len(f.done) == 0 {
		f.Fatal("nothing was delivered")
	}
	content, pace := 480.0/2, float64(time.Hour)/float64(writes*(pause+backlogLatency))
	primary := 5000 / (float64(counted) / float64(len(f.done)))
	rate, longest := float64(within)/max(1, float64(hours-1)), slices.Max(f.waits)
	f.Logf("%d done, the first after %s (alone: %s), %.0f an hour from minute 60. Bounds: %.0f by content, %.0f "+
		"by the pause, %.0f by requests. The longest wait for a delivery is %s. %d batches in the journal.",
		len(f.done),
		f.done[0], alone, rate, content, pace, primary, longest, f.journal.batches.Load())
	if bound := min(content, pace, primary); hours > 1 && rate < 0.9*bound {
		f.Errorf("%.0f done in an hour, want 0.9 of %.0f", rate, bound)
	}
	if longest > 2*time.Minute {
		f.Errorf("finished work waited for %s", longest)
	}
	if f.done[0] > alone*6/5 {
		f.Errorf("the first one is done after %s, and a single task after %s", f.done[0], alone)
	}
	if n := f.sim.Throttled(); n > 0 || f.sim.Violations() > 0 {
		f.Errorf("%d requests met a limit, %d were sent during one", n, f.sim.Violations())
	}
	if len(f.failures) > 0 {
		f.Errorf("%d verdicts on attempts that all succeed, such as %s", len(f.failures), f.failures[0])
	}
}
