package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github/api"
	"retake/internal/github/inbox"
)

// WholeEvery is the interval between full lists of the issues with our labels. A full list finds claims without a task.
// The other lists omit such issues, because they list only issues that have changed. Unchanged lists do not count
// against GitHub's hourly limit.
const WholeEvery = time.Hour

// CommentsEvery is the maximum interval between two requests for comments in a repository that has tasks. GitHub's
// lists may lag, and GitHub does not promise that an edited comment updates its issue, so issue lists cannot replace
// these requests.
const CommentsEvery = time.Minute

// secondLook is the pause before a second poll after each wake. The first poll may miss the change if GitHub's lists
// lag.
const secondLook = 10 * time.Second

// Polls polls repositories. Set the exported fields before the first Run. Call Add before Ring or Wake.
type Polls struct {
	Owner  *loop.Owner
	GitHub interface {
		Poll(ctx context.Context, repo, cursor string) (inbox.Page, error)
	}
	Config        *inforce.Current
	Offers        *Offers
	Comments      *Comments
	Reviews       *Reviews
	Refusals      *Postponed                                   // issues whose claim failed
	Open          func(ctx context.Context, repo string) error // checks a repository; a no-op once it has succeeded
	Closed        func(fsm.IssueKey)                           // called for each issue that is not open
	Unusable      *sync.Map                                    // unusable repositories, with the reason
	Record        Record
	WholeEvery    time.Duration
	CommentsEvery time.Duration
	Log           *zap.Logger

	wakes map[string]loop.Wake // by repository in lower case
}

// poll is the state of one repository's poll loop.
type poll struct {
	*Polls
	repo    string
	wake    loop.Wake
	setup   *inforce.Setup // the setup in force at the last poll
	whole   bool           // a full list is due
	looked  time.Time      // when the last full list was read
	quiet   bool           // comments were read since the last change, so they are due only after CommentsEvery
	heard   time.Time      // when comments were last read
	rang    bool           // a wake triggered this poll
	lookups lookups
}

// Add returns the poll loop of a repository. The loop runs until ctx is done, or until the repository is no longer
// configured and its last task is over.
func (p *Polls) Add(repo string) (run func(context.Context) error) {
	if p.wakes == nil {
		p.wakes = map[string]loop.Wake{}
	}
	one := &poll{
		Polls: p, repo: repo, wake: loop.NewWake(), whole: true, setup: p.Config.Load(),
		lookups: lookups{waited: map[string]bool{}},
	}
	p.wakes[strings.ToLower(repo)] = one.wake
	return one.run
}

// Ring makes the loop poll a repository soon.
func (p *Polls) Ring(repo string) {
	if b, ok := p.wakes[strings.ToLower(repo)]; ok {
		b.Signal()
	}
}

// Wake makes the loops promptly poll the issue or pull request that a webhook reports. It returns true only if the
// webhook concerns an issue or a watched pull request of a polled repository.
func (p *Polls) Wake(n inbox.Notice) bool {
	poll, ours := p.wakes[strings.ToLower(n.Repo)]
	switch {
	case !ours:
		return false
	case n.Issue > 0: // the issue list shows this change
		poll.Signal()
	case p.Reviews.turns.wakeChecks(n.Repo, n.SHA):
		p.Reviews.Wake.Signal()
	default:
		return false
	}
	return true
}

// run polls every github.poll_seconds, and on a wake. After a rate limit, it waits until the limit ends. It logs
// other failures, and polls again at the usual time. A wake does not shorten either wait.
func (p *poll) run(ctx context.Context) error {
	for ctx.Err() == nil {
		at, err := loop.Look(ctx, p.Owner, func(d *fsm.Driver) place { return placeOf(d.Machine(), p.repo) })
		if err != nil && ctx.Err() == nil {
			return err
		}
		if at.over {
			p.Unusable.Delete(pollsOf(p.repo))
			p.sayWhatWaits(0)
			p.Log.Info("stopped polling a repository that is not in github.repositories, because its last task has "+
				"ended",
				zap.String("repo", p.repo))
			return nil
		}
		p.isWholeDue(ctx)
		err = p.look(ctx, at)
		most := p.after(ctx, err)
		if p.rang && err == nil {
			most = min(most, secondLook)
		}
		p.rang = p.wake.Await(ctx, most, err == nil)
	}
	return nil
}

// place is the position from which a repository's poll continues. The machine owns the cursor.
type place struct {
	cursor string
	over   bool // the repository is not configured, and all its tasks have ended
	tasks  bool
}

func placeOf(m *fsm.Machine, repo string) place {
	ofRepo := func(t *fsm.Task) bool { return strings.EqualFold(t.Key.Repo(), repo) }
	tasks := slices.ContainsFunc(m.Tasks(), ofRepo)
	return place{m.ReadTo(repo), !m.Covers(repo) && !tasks, tasks}
}

// isWholeDue sets p.whole if a full list is due. A full list is needed when an issue that has not changed since the
// cursor may have become relevant, for example after a configuration change.
func (p *poll) isWholeDue(ctx context.Context) {
	if now := p.Config.Load(); now != p.setup { // the new configuration may map labels to other priorities and caps
		p.setup, p.whole = now, true
	}
	p.whole = p.Refusals.Lapsed(p.repo) || p.whole || time.Since(p.looked) >= p.WholeEvery
	if !slices.Contains(p.setup.GitHub.Repositories, p.repo) {
		return
	}
	_, was := p.Unusable.Load(p.repo)
	// If the repository was not usable at startup, Open tries again.
	if err := p.Open(ctx, p.repo); err != nil && ctx.Err() == nil {
		p.Unusable.Store(p.repo, err.Error())
		p.Log.Warn("cannot use repository, so no new work starts there", zap.String("repo", p.repo),
			zap.Error(err))
	}
	if _, is := p.Unusable.Load(p.repo); was && !is {
		p.whole = true
	}
}

// look polls the repository once.
func (p *poll) look(ctx context.Context, at place) error {
	p.lookups.left = LookupsPerPoll
	later, same, err := p.list(ctx, at.cursor, true)
	// A new comment updates its issue, so an unchanged issue list implies unchanged comments. GitHub's lists may lag
	// behind each other, so read comments once more after the first unchanged list.
	if p.quiet = p.quiet && same && !p.rang && !p.whole; err == nil &&
		(!p.quiet || at.tasks && time.Since(p.heard) >= p.CommentsEvery) {
		var over bool
		over, err = p.Comments.Read(ctx, p.repo)
		p.quiet, p.heard = over && same && err == nil, time.Now()
	}
	if err == nil && p.whole && at.cursor != "" {
		var more int
		more, _, err = p.list(ctx, "", false) // a full list reads all issues with our labels
		later = max(later, more)
	}
	if err != nil {
		return err
	}
	p.sayWhatWaits(later)
	if p.whole && later == 0 {
		p.whole, p.looked = false, time.Now()
	}
	return nil
}

// list reads the issues that changed since the cursor, or all issues with our labels if cursor is "". It moves the
// machine's cursor only if advance is set, because a list filtered by label misses issues that have lost a label. later
// is the number of issues that wait for lookups, and same reports whether GitHub calls the list unchanged.
func (p *poll) list(ctx context.Context, cursor string, advance bool) (later int, same bool, err error) {
	asked := p.Owner.Clock.Now()
	page, err := p.GitHub.Poll(ctx, p.repo, cursor)
	if err != nil {
		return 0, false, err
	}
	if !advance {
		page.Cursor = ""
	}
	p.Reviews.WakeFor(ctx, p.repo, page.PullRequests)
	seen, later := p.seen(ctx, asked, page)
	p.Owner.Send(ctx, seen, nil)
	return later, page.Same, nil
}

// seen converts a list for the machine. later is the number of issues that wait for a lookup.
func (p *poll) seen(ctx context.Context, asked time.Time, page inbox.Page) (seen fsm.IssuesSeen, later int) {
	seen = fsm.IssuesSeen{Repo: p.repo, Cursor: page.Cursor, AskedAt: asked}
	for _, key := range page.Closed { // other issues may depend on a closed issue
		p.Offers.Closed(key)
		seen.Issues = append(seen.Issues, fsm.IssueView{Key: fsm.IssueKey(key)})
	}
	slices.SortStableFunc(page.Issues, p.lookups.first)
	for _, i := range page.Issues {
		if i.State != "open" { // the machine waits for a running delivery to end, so cancel the delivery
			p.Closed(fsm.IssueKey(i.Key))
		}
		if p.Refusals.Hold(i) {
			continue
		}
		v, err := p.Offers.View(ctx, i, &p.lookups.left)
		delete(p.lookups.waited, i.Key)
		if errors.Is(err, inbox.ErrLater) {
			p.lookups.waited[i.Key] = true
			later++
			seen.Cursor = ""
			continue
		}
		if err != nil { // keep the cursor, so that the next poll lists this issue again
			p.Log.Warn("could not convert issue; the next poll will retry", zap.String("issue", i.Key), zap.Error(err))
			seen.Cursor = ""
			continue
		}
		seen.Issues = append(seen.Issues, v)
	}
	return seen, later
}

// sayWhatWaits reports the number of issues waiting for a dependency lookup.
func (p *poll) sayWhatWaits(later int) {
	key := "dependencies in " + p.repo
	if later == 0 {
		p.Unusable.Delete(key)
		return
	}
	why := fmt.Sprintf("%d issues in %s are waiting for a dependency lookup: each poll looks up %d, as long as more "+
		"than half of the hourly request quota remains", later, p.repo, LookupsPerPoll)
	if _, said := p.Unusable.Swap(key, why); !said {
		p.Log.Info("issues are waiting for a dependency lookup", zap.String("repo", p.repo),
			zap.Int("issues", later))
	}
}

func pollsOf(repo string) string { return "polls of " + repo } // the key in Unusable

// after returns the pause before the next poll. It records the result of the last one, and logs a failure.
func (p *poll) after(ctx context.Context, err error) time.Duration {
	key, usual := pollsOf(p.repo), p.Config.Load().GitHub.Poll
	switch limit, ok := errors.AsType[*api.Error](err); {
	case ctx.Err() != nil:
	case err == nil:
		p.Unusable.Delete(key)
		p.Record.Worked(p.repo)
	case ok && limit.Kind == api.KindRateLimited:
		p.Log.Info("poll delayed by a rate limit", zap.String("reason", limit.Message), zap.Time("until", limit.Until))
		wait := max(time.Until(limit.Until), time.Second)
		p.Record.Failed(CallerPoll, p.repo, err, wait)
		return wait
	default:
		p.Record.Failed(CallerPoll, p.repo, err, usual)
		if _, said := p.Unusable.Load(p.repo); !said { // otherwise Unusable already has the reason, with advice
			p.Unusable.Store(key, fmt.Sprintf("cannot read %s, so Retake retries every %s: %v", p.repo, usual,
				err))
		}
		p.Log.Warn("poll failed", zap.String("repo", p.repo), zap.Error(err))
	}
	return usual
}
