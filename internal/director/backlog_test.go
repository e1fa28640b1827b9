package director

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

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
	case raced: // the first minutes already run all of the code
		issues, hours = 40, 1
	case os.Getenv("RETAKE_NIGHTLY") != "":
		issues, hours = 2000, 4
	}
	var alone time.Duration
	records := openJournal(t)
	synctest.Test(t, func(t *testing.T) {
		f := newPlayedFleet(t, records, playedRepo{name: "acme/widgets", issues: 1, agent: agentTakes})
		f.run(10 * time.Minute)
		alone = slices.Max(f.done)
	})
	records = openJournal(t)
	synctest.Test(t, func(t *testing.T) {
		f := newPlayedFleet(t, records, playedRepo{name: "acme/widgets", issues: issues, agent: agentTakes})
		f.run(time.Duration(hours) * time.Hour)
		f.check(hours, alone)
	})
}

// playedRepo is a repository with labelled issues.
type playedRepo struct {
	name   string
	issues int
	agent  time.Duration // the time that the agent takes for an issue
	after  time.Duration // when the issues are labelled
}

// playedFleet is a director with played workers. Its fields before mu are set before the owner runs.
type playedFleet struct {
	*testing.T
	repos   []playedRepo
	sim     *githubtest.Server
	github  *github.Client
	inForce inforce.Current
	owner   *loop.Owner
	owed    atomic.Int64
	running context.Context //nolint:containedctx // ends the played agents
	journal *outsideJournal
	began   time.Time // when the issues were labelled
	before  int       // number of requests before that

	mu       sync.Mutex
	ended    map[fsm.IssueKey]time.Time // when the agent ended
	done     []time.Duration            // when each delivery succeeded, counted from the labels
	order    []fsm.IssueKey             // issues in the order of their successful deliveries
	waits    []time.Duration            // from the end of the agent to the delivery
	failures []string
}

func newPlayedFleet(t *testing.T, j *outsideJournal, repos ...playedRepo) *playedFleet {
	f := &playedFleet{
		T: t, sim: githubtest.New(githubtest.Options{Limits: true}), journal: j, repos: repos,
		ended: map[fsm.IssueKey]time.Time{},
	}
	f.sim.AddUser("retake-bot", "token")
	c := config.Default()
	c.Director.MaxWorkers, c.GitHub.TrustedAuthors = 40, []string{"OWNER"}
	for _, r := range repos {
		f.must(f.sim.AddRepo(r.name, "", map[string]string{"retake-bot": "write"}))
		c.GitHub.Repositories = append(c.GitHub.Repositories, r.name)
	}
	f.configure(c)
	var err error
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
	for _, r := range repos {
		f.must(f.github.Labels.EnsureLabels(t.Context(), r.name))
	}
	f.before, f.began = len(f.sim.Requests()), time.Now()
	return f
}

func (f *playedFleet) configure(c config.Config) {
	setup, err := inforce.New(c, nil)
	f.must(err)
	f.inForce.Store(setup)
}

// label creates the repository's issues after the repository's delay.
func (f *playedFleet) label(ctx context.Context, r playedRepo) {
	select {
	case <-time.After(r.after):
	case <-ctx.Done():
		return
	}
	for i := range r.issues {
		f.sim.CreateIssue(r.name, "acme", fmt.Sprint("Issue ", i), "Please.", f.inForce.Load().GitHub.Labels.Task)
	}
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
	f.running = ctx
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
	parts := []func(context.Context) error{polls.Reviews.Run, f.owner.Run}
	for _, r := range f.repos {
		parts = append(parts, polls.Add(r.name))
		all.Go(func() { f.label(ctx, r) })
	}
	for _, part := range parts {
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
		f.owner.Send(f.running, fsm.Hello{Worker: e.Worker, Token: 1}, nil)
		select {
		case <-time.After(f.repoOf(e.Task).agent):
		case <-f.running.Done():
			return
		}
		f.mu.Lock()
		f.ended[e.Task] = time.Now()
		f.mu.Unlock()
		f.owner.Send(f.running, fsm.ReportReceived{Worker: e.Worker, Report: success(e.Worker)}, nil)
	}()
	return fsm.EffectEnded{}
}

func (f *playedFleet) repoOf(k fsm.IssueKey) playedRepo {
	return f.repos[slices.IndexFunc(f.repos, func(r playedRepo) bool { return r.name == k.Repo() })]
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
		f.done, f.order = append(f.done, time.Since(f.began)), append(f.order, e.Task)
		f.waits = append(f.waits, time.Since(f.ended[e.Task]))
		f.mu.Unlock()
	}
	return failure.Or(fsm.EffectEnded{Delivery: &fsm.DeliverResult{
		Branch: branch, SHA: "0123456789012345678901234567890123456789", URL: to.URL, PullRequest: to.PullRequest,
	}}, err)
}

// check compares the rate with the bound. alone is the time that a single task takes.
func (f *playedFleet) check(hours int, alone time.Duration) {
	const writes, pause = 5, 2 * time.Second // writes for a task with a pull request, and the pause between two writes
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
