package intake

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github/api"
	"retake/internal/github/deliver"
)

// Reviews polls the pull requests of tasks. Create it with NewReviews.
type Reviews struct {
	ReviewSources
	Wake  loop.Wake // signalled when a pull request has changed
	turns *reviewTurns
}

// ReviewSources are the dependencies of Reviews.
type ReviewSources struct {
	Owner  *loop.Owner
	GitHub interface {
		PullRequest(ctx context.Context, key string, number int) (deliver.PullRequest, error)
		Refresh(ctx context.Context, key string, last deliver.PullRequest) (deliver.PullRequest, error)
		BranchHead(ctx context.Context, repo, branch string) (sha string, err error)
	}
	Config *inforce.Current
	Record Record
	Log    *zap.Logger
}

// Record records the outcome of reads from GitHub in the audit.
type Record interface {
	Worked(what string)
	Failed(caller, what string, err error, again time.Duration)
}

// Names of the callers of Record.Failed.
const (
	CallerPoll   = "poll"
	CallerReview = "review"
)

// NewReviews returns a Reviews that has not polled yet.
func NewReviews(of ReviewSources) *Reviews {
	return &Reviews{ReviewSources: of, Wake: loop.NewWake(), turns: newReviewTurns()}
}

// Counts returns the number of polls, and the number of polls without a change.
func (r *Reviews) Counts() (looks, idle int) { return r.turns.counts() }

// reviewedTask is a task with a pull request.
type reviewedTask struct {
	key    fsm.IssueKey
	number int
}

// Run polls the pull requests of tasks without a running attempt, until ctx is done.
func (r *Reviews) Run(ctx context.Context) error {
	for wait, mayWake := r.Config.Load().GitHub.Poll, true; ; {
		r.Wake.Await(ctx, wait, mayWake)
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		tasks, err := loop.Look(ctx, r.Owner, func(d *fsm.Driver) []reviewedTask { return reviewed(d.Machine()) })
		if err != nil && ctx.Err() == nil {
			return err
		}
		wait, mayWake = r.lookAtAll(ctx, r.turns.keep(tasks, time.Now()))
	}
}

// lookAtAll polls the due pull requests. It stops at the first failure, because the other reads would probably fail as
// well. It returns the pause before the next round. mayWake is false during a rate limit, because a wake must not
// shorten that pause.
func (r *Reviews) lookAtAll(ctx context.Context, due []reviewedTask) (pause time.Duration, mayWake bool) {
	poll, tips := r.Config.Load().GitHub.Poll, map[string]string{}
	for _, t := range due {
		err := r.lookAgain(ctx, t, tips)
		if err == nil {
			r.Record.Worked(string(t.key))
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if limit, ok := errors.AsType[*api.Error](err); ok && limit.Kind == api.KindRateLimited {
			return max(poll, time.Until(limit.Until)), false // the issue poll logs this limit
		}
		r.turns.missed(t.key, time.Now(), poll)
		r.Record.Failed(CallerReview, string(t.key), err, poll)
		r.Log.Warn("could not read pull request", zap.String("issue", string(t.key)), zap.Int("pull_request", t.number),
			zap.Error(err))
		break
	}
	return poll, true
}

func reviewed(m *fsm.Machine) (tasks []reviewedTask) {
	for _, t := range m.Tasks() {
		if t.Work.PullRequest > 0 && !t.State.Info().Live && !t.State.Info().Final {
			tasks = append(tasks, reviewedTask{t.Key, t.Work.PullRequest})
		}
	}
	return tasks
}

// lookAgain polls a pull request. tips caches each repository's base branch head for one round.
func (r *Reviews) lookAgain(ctx context.Context, t reviewedTask, tips map[string]string) error {
	repo := t.key.Repo()
	tip, known := tips[repo]
	if !known {
		var err error
		if tip, err = r.GitHub.BranchHead(ctx, repo, r.Config.Load().For(repo).GitHub.BaseBranch); err != nil {
			return err
		}
		tips[repo] = tip
	}
	if last, ok := r.turns.settled(t.key, tip, time.Now()); ok {
		asked := r.Owner.Clock.Now()
		pr, err := r.GitHub.Refresh(ctx, string(t.key), last)
		if err == nil {
			r.send(ctx, t.key, pr, asked, false)
		}
		return err
	}
	err := r.Look(ctx, t.key, t.number, false)
	if err == nil {
		r.turns.noteFull(t.key, tip, time.Now())
	}
	return err
}

// Look reads a pull request and sends its state to the machine.
func (r *Reviews) Look(ctx context.Context, task fsm.IssueKey, number int, issueClosed bool) error {
	asked := r.Owner.Clock.Now()
	pr, err := r.GitHub.PullRequest(ctx, string(task), number)
	if err != nil {
		return err
	}
	r.send(ctx, task, pr, asked, issueClosed)
	return nil
}

// send passes the state of a pull request to the machine.
func (r *Reviews) send(ctx context.Context, task fsm.IssueKey, pr deliver.PullRequest, asked time.Time,
	issueClosed bool,
) {
	r.turns.note(task, pr, time.Now(), r.Config.Load().GitHub.Poll)
	seen := fsm.ReviewSeen{
		Task: task, AskedAt: asked, Number: pr.Number, State: pr.State, By: pr.By, Head: pr.Head,
		IssueClosed: issueClosed,
		Conflict:    pr.Conflict, Settled: pr.Settled,
	}
	for _, f := range pr.Failing {
		seen.Failing = append(seen.Failing, fsm.FailedCheck(f))
	}
	for _, c := range pr.Changes {
		seen.Changes = append(seen.Changes, fsm.Change{ID: c.ID, Hint: fsm.Hint{From: c.By, At: c.At, Text: c.Text}})
	}
	r.Owner.Send(ctx, seen, nil)
}

// WakeFor makes Run poll the changed pull requests of a repository soon.
func (r *Reviews) WakeFor(ctx context.Context, repo string, changed map[int]time.Time) {
	if len(changed) == 0 {
		return
	}
	known, err := loop.Look(ctx, r.Owner, func(d *fsm.Driver) repoTasks { return tasksOf(d.Machine(), repo) })
	if err != nil {
		return // the session is ending
	}
	for n, at := range changed {
		if task, ok := known.pulls[n]; ok && r.turns.wake(task, at) {
			r.Wake.Signal()
		}
	}
}

// Read polls the pull request of an effect's task after the issue was closed.
func (r *Reviews) Read(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, r.Config.PollPause, func() error {
		number, err := loop.Look(ctx, r.Owner, func(d *fsm.Driver) int {
			if t := d.Machine().Task(e.Task); t != nil {
				return t.Work.PullRequest
			}
			return 0
		})
		if err != nil || number == 0 { // the session or the task is over
			return err
		}
		return r.Look(ctx, e.Task, number, true)
	})
}
