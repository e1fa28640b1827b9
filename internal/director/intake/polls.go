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
	"retake/internal/github"
)

// WholeEvery is how often everything is listed that carries our labels, whenever it changed: a claim that no task knows
// changes no more. While nothing else changes either, the lists cost nothing of the hourly limit.
const WholeEvery = time.Hour

// CommentsEvery is how often the comments of a repository with a task are asked for although nothing says that
// there are new ones: GitHub's lists may lag behind each other, and nowhere does it promise that an edited
// comment changes its issue.
const CommentsEvery = time.Minute

// Polls reads repositories. Its exported fields are set before the first Run, and Add is called before the bells ring.
type Polls struct {
	Owner  *loop.Owner
	GitHub interface {
		Poll(ctx context.Context, repo, cursor string) (github.Page, error)
	}
	Config        *inforce.Current
	Offers        *Offers
	Comments      *Comments
	Reviews       *Reviews
	Refusals      *Postponed                                   // issues that could not be claimed
	Open          func(ctx context.Context, repo string) error // makes sure, once, that a repository can be used
	Closed        func(fsm.IssueKey)                           // hears of each issue that is not open
	Unusable      *sync.Map                                    // what cannot be used, or not yet, and why
	Record        Record
	WholeEvery    time.Duration
	CommentsEvery time.Duration
	Log           *zap.Logger

	bells map[string]Bell // by repository in lower case
}

// poll is what the poll of one repository remembers.
type poll struct {
	*Polls
	repo    string
	bell    Bell
	setup   *inforce.Setup // at the last look
	whole   bool           // everything that carries our labels is due
	looked  time.Time      // when it was listed
	quiet   bool           // nobody has said anything new since the last look at comments
	heard   time.Time      // when that was
	rang    bool           // the bell asked for this look
	lookups lookups
}

// Add returns the poll of a repository: it runs until ctx ends, or until nothing is to be seen there any more.
func (p *Polls) Add(repo string) (run func(context.Context) error) {
	if p.bells == nil {
		p.bells = map[string]Bell{}
	}
	one := &poll{
		Polls: p, repo: repo, bell: NewBell(), whole: true, setup: p.Config.Load(),
		lookups: lookups{waited: map[string]bool{}},
	}
	p.bells[strings.ToLower(repo)] = one.bell
	return one.run
}

// Ring has a repository looked at soon.
func (p *Polls) Ring(repo string) {
	if b, ok := p.bells[strings.ToLower(repo)]; ok {
		b.Ring()
	}
}

// Wake has what a webhook is about looked at soon, and reports whether it is anything of ours.
func (p *Polls) Wake(n github.Notice) bool {
	poll, ours := p.bells[strings.ToLower(n.Repo)]
	switch {
	case !ours:
		return false
	case n.Issue > 0: // GitHub's lists say what changed
		poll.Ring()
	case p.Reviews.turns.wakeChecks(n.Repo, n.SHA):
		p.Reviews.Bell.Ring()
	default:
		return false
	}
	return true
}

// run looks every github.poll_seconds, and when the bell rings. A limit is waited for; other failures are logged, and
// the next look comes in its time.
func (p *poll) run(ctx context.Context) error {
	for ctx.Err() == nil {
		at, err := loop.Look(ctx, p.Owner, func(d *fsm.Driver) place { return placeOf(d.Machine(), p.repo) })
		if err != nil && ctx.Err() == nil {
			return err
		}
		if at.over {
			p.Unusable.Delete(pollsOf(p.repo))
			p.sayWhatWaits(0)
			p.Log.Info("a repository is not polled any more: it is not in github.repositories, and its last "+
				"task is over", zap.String("repo", p.repo))
			return nil
		}
		p.isWholeDue(ctx)
		err = p.look(ctx, at)
		most := p.after(ctx, err)
		if p.rang && err == nil {
			most = min(most, SecondLook)
		}
		p.rang = p.bell.Await(ctx, most, err == nil)
	}
	return nil
}

// place is where the poll of a repository goes on. The cursor is the machine's: it stays where it was if a view could
// not be decided about yet.
type place struct {
	cursor string
	over   bool // the repository is not configured, and has no task
	tasks  bool
}

func placeOf(m *fsm.Machine, repo string) place {
	ofRepo := func(t *fsm.Task) bool { return strings.EqualFold(t.Key.Repo(), repo) }
	tasks := slices.ContainsFunc(m.Tasks(), ofRepo)
	return place{m.Cursor(repo), !m.Covers(repo) && !tasks, tasks}
}

// isWholeDue finds out whether the cursor may have passed something that matters now.
func (p *poll) isWholeDue(ctx context.Context) {
	if now := p.Config.Load(); now != p.setup { // priorities and caps are read off the labels
		p.setup, p.whole = now, true
	}
	p.whole = p.Refusals.Lapsed(p.repo) || p.whole || time.Since(p.looked) >= p.WholeEvery
	if !slices.Contains(p.setup.GitHub.Repositories, p.repo) {
		return
	}
	_, was := p.Unusable.Load(p.repo)
	// what could not be done at the start; see Offers
	if err := p.Open(ctx, p.repo); err != nil && ctx.Err() == nil {
		p.Unusable.Store(p.repo, err.Error())
		p.Log.Warn("a repository cannot be used: nothing new is begun there", zap.String("repo", p.repo),
			zap.Error(err))
	}
	if _, is := p.Unusable.Load(p.repo); was && !is {
		p.whole = true
	}
}

// look takes one look at the repository.
func (p *poll) look(ctx context.Context, at place) error {
	p.lookups.left = LookupsPerPoll
	later, same, err := p.list(ctx, at.cursor, true)
	// A new comment changes its issue. After each change there are two looks, because GitHub's lists may lag behind
	// each other.
	if p.quiet = p.quiet && same && !p.rang && !p.whole; err == nil &&
		(!p.quiet || at.tasks && time.Since(p.heard) >= p.CommentsEvery) {
		var over bool
		over, err = p.Comments.Read(ctx, p.repo)
		p.quiet, p.heard = over && same && err == nil, time.Now()
	}
	if err == nil && p.whole && at.cursor != "" {
		var more int
		more, _, err = p.list(ctx, "", false) // what carries our labels now, whenever it changed
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

// list asks for what changed since the cursor; from "" on, for everything that carries our labels. Only if it advances
// does the machine's cursor move: a look at labels alone misses what lost one. It returns how many issues wait for
// lookups, and whether GitHub says that all is the same as when it was last asked.
func (p *poll) list(ctx context.Context, cursor string, advance bool) (later int, same bool, err error) {
	asked := p.Owner.Clock.Now()
	page, err := p.GitHub.Poll(ctx, p.repo, cursor)
	if err != nil {
		return 0, false, err
	}
	if !advance {
		page.Cursor = ""
	}
	p.Reviews.Wake(ctx, p.repo, page.PullRequests)
	seen, later := p.seen(ctx, asked, page)
	p.Owner.Send(ctx, seen, nil)
	return later, page.Same, nil
}

// seen is what a list shows the machine, and how many issues of it wait because no lookups were left.
func (p *poll) seen(ctx context.Context, asked time.Time, page github.Page) (seen fsm.IssuesSeen, later int) {
	seen = fsm.IssuesSeen{Repo: p.repo, Cursor: page.Cursor, AskedAt: asked}
	for _, key := range page.Closed { // an issue may depend on it
		seen.Issues = append(seen.Issues, fsm.IssueView{Key: fsm.IssueKey(key)})
	}
	slices.SortStableFunc(page.Issues, p.lookups.first)
	for _, i := range page.Issues {
		if i.State != "open" { // the machine decides about a delivery only when that has ended
			p.Closed(fsm.IssueKey(i.Key))
		}
		if p.Refusals.Hold(i) {
			continue
		}
		v, err := p.Offers.View(ctx, i, &p.lookups.left)
		delete(p.lookups.waited, i.Key)
		if errors.Is(err, github.ErrLater) {
			p.lookups.waited[i.Key] = true
			later++
			seen.Cursor = ""
			continue
		}
		if err != nil { // the others go on; the cursor stays, so that this one is seen again
			p.Log.Warn("an issue is left for the next poll", zap.String("issue", i.Key), zap.Error(err))
			seen.Cursor = ""
			continue
		}
		seen.Issues = append(seen.Issues, v)
	}
	return seen, later
}

// sayWhatWaits says how many issues wait because it is not known yet what they depend on.
func (p *poll) sayWhatWaits(later int) {
	key := "what issues depend on in " + p.repo
	if later == 0 {
		p.Unusable.Delete(key)
		return
	}
	why := fmt.Sprintf("%d issues of %s wait until GitHub has said what they depend on: it is asked about %d at a "+
		"time, and while more than half of the hour's requests are left", later, p.repo, LookupsPerPoll)
	if _, said := p.Unusable.Swap(key, why); !said {
		p.Log.Info("issues wait until GitHub has said what they depend on", zap.String("repo", p.repo),
			zap.Int("issues", later))
	}
}

func pollsOf(repo string) string { return "polls of " + repo } // among what is unusable

// after returns how long to wait for the next look, and logs why if that is not the usual time.
func (p *poll) after(ctx context.Context, err error) time.Duration {
	key, usual := pollsOf(p.repo), p.Config.Load().GitHub.Poll
	switch limit, ok := errors.AsType[*github.Error](err); {
	case ctx.Err() != nil:
	case err == nil:
		p.Unusable.Delete(key)
		p.Record.Worked(p.repo)
	case ok && limit.Kind == github.KindRateLimited:
		p.Log.Info("poll waits for a limit", zap.String("reason", limit.Message), zap.Time("until", limit.Until))
		wait := max(time.Until(limit.Until), time.Second)
		p.Record.Failed(CallerPoll, p.repo, err, wait)
		return wait
	default:
		p.Record.Failed(CallerPoll, p.repo, err, usual)
		if _, said := p.Unusable.Load(p.repo); !said { // why, and what to do
			p.Unusable.Store(key, fmt.Sprintf("%s cannot be read, which is tried again every %s: %v", p.repo, usual,
				err))
		}
		p.Log.Warn("poll failed", zap.String("repo", p.repo), zap.Error(err))
	}
	return usual
}
