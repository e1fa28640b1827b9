package director

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/director/intake"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
)

// poll reads one repository every github.poll_seconds, and when the bell rings, until ctx ends. A limit is
// waited for; other failures are logged and the next poll comes in its time.
func (s *session) poll(ctx context.Context, repo string, b intake.Bell) error {
	var looked time.Time // at everything that carries our labels
	var heard time.Time  // what people said
	quiet := false       // nobody has said anything new since
	l := lookups{waited: map[string]bool{}}
	by := s.setup()
	for whole, rang := true, false; ctx.Err() == nil; {
		// The cursor is the machine's: it stays where it was if a view could not be decided about yet.
		type place struct {
			cursor string
			isOver bool
			tasks  bool
		}
		at, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) place {
			m := d.Machine()
			return place{
				m.Cursor(repo), isOver(m, repo),
				slices.ContainsFunc(m.Tasks(), func(t *fsm.Task) bool { return t.Key.Repo() == repo }),
			}
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
		if at.isOver {
			s.unusable.Delete(pollsOf(repo))
			s.sayWhatWaits(repo, 0)
			s.log.Info("a repository is not polled any more: it is not in github.repositories, and its last "+
				"task is over", zap.String("repo", repo))
			return nil
		}
		if now := s.setup(); now != by { // priorities and caps are read off the labels
			by, whole = now, true
		}
		whole = s.refusals.Lapsed(repo) || whole || time.Since(looked) >= s.wholeEvery
		if slices.Contains(s.config.GitHub.Repositories, repo) {
			_, was := s.unusable.Load(repo)
			// what could not be done at the start; see offered
			if err := s.openRepository(ctx, repo); err != nil && ctx.Err() == nil {
				s.unusable.Store(repo, err.Error())
				s.log.Warn("a repository cannot be used: nothing new is begun there", zap.String("repo", repo),
					zap.Error(err))
			}
			if _, is := s.unusable.Load(repo); was && !is {
				whole = true // what was offered meanwhile may be behind the cursor
			}
		}
		l.left = lookupsPerPoll
		later, same, err := s.pollOnce(ctx, repo, at.cursor, true, &l)
		// A new comment changes its issue. After each change there are two looks, because GitHub's lists may
		// lag behind each other.
		if quiet = quiet && same && !rang && !whole; err == nil &&
			(!quiet || at.tasks && time.Since(heard) >= s.commentsEvery) {
			var over bool
			over, err = s.pollComments(ctx, repo)
			quiet, heard = over && same && err == nil, time.Now()
		}
		if err == nil && whole && at.cursor != "" {
			var more int
			more, _, err = s.pollOnce(ctx, repo, "", false, &l) // what carries our labels now, whenever it changed
			later = max(later, more)
		}
		if err == nil {
			s.sayWhatWaits(repo, later)
		}
		if err == nil && whole && later == 0 {
			whole, looked = false, time.Now()
		}
		most := s.afterPoll(ctx, repo, err)
		if rang && err == nil {
			most = min(most, intake.SecondLook)
		}
		rang = b.Await(ctx, most, err == nil)
	}
	return nil
}

// wholeEvery is how often everything is listed that carries our labels, whenever it changed: a claim that no
// task knows changes no more. While nothing else changes either, the lists cost nothing of the hourly limit.
const wholeEvery = time.Hour

// commentsEvery is how often the comments of a repository with a task are asked for although nothing says that
// there are new ones: GitHub's lists may lag behind each other, and nowhere does it promise that an edited
// comment changes its issue.
const commentsEvery = time.Minute

// pollOnce asks for what changed since the cursor; from "" on, for everything that carries our labels. Only if
// it advances does the machine's cursor move: a look at labels alone misses what lost one. It returns how many
// issues were left for later because no lookups were left, and whether GitHub says that all is the same as when
// it was last asked.
func (s *session) pollOnce(ctx context.Context, repo, cursor string, advance bool,
	l *lookups,
) (later int, same bool, err error) {
	asked := s.owner.Clock.Now()
	page, err := s.github.Poll(ctx, repo, cursor)
	if !advance {
		page.Cursor = ""
	}
	if err != nil {
		return 0, false, err
	}
	s.wakeReviews(ctx, repo, page.PullRequests)
	seen, later := s.seen(ctx, repo, asked, page, l)
	s.owner.Send(ctx, seen, nil)
	return later, page.Same, nil
}

// sayWhatWaits says how many issues of a repository wait because it is not known yet what they depend on.
func (s *session) sayWhatWaits(repo string, later int) {
	key := "what issues depend on in " + repo
	if later == 0 {
		s.unusable.Delete(key)
		return
	}
	why := fmt.Sprintf("%d issues of %s wait until GitHub has said what they depend on: it is asked about %d at a "+
		"time, and while more than half of the hour's requests are left", later, repo, lookupsPerPoll)
	if _, said := s.unusable.Swap(key, why); !said {
		s.log.Info("issues wait until GitHub has said what they depend on", zap.String("repo", repo),
			zap.Int("issues", later))
	}
}

func pollsOf(repo string) string { return "polls of " + repo } // among what is unusable

// afterPoll returns how long to wait for the next poll, and logs why if that is not the usual time.
func (s *session) afterPoll(ctx context.Context, repo string, err error) time.Duration {
	key := pollsOf(repo)
	switch limit, ok := errors.AsType[*github.Error](err); {
	case ctx.Err() != nil:
	case err == nil:
		s.unusable.Delete(key)
		s.recorder.pollWorked(repo)
	case ok && limit.Kind == github.KindRateLimited:
		s.log.Info("poll waits for a limit", zap.String("reason", limit.Message), zap.Time("until", limit.Until))
		wait := max(time.Until(limit.Until), time.Second)
		s.recorder.pollFailed(callerPoll, repo, err, wait)
		return wait
	default:
		s.recorder.pollFailed(callerPoll, repo, err, s.setup().GitHub.Poll)
		if _, said := s.unusable.Load(repo); !said { // why, and what to do
			s.unusable.Store(key, fmt.Sprintf("%s cannot be read, which is tried again every %s: %v", repo,
				s.setup().GitHub.Poll, err))
		}
		s.log.Warn("poll failed", zap.String("repo", repo), zap.Error(err))
	}
	return s.setup().GitHub.Poll
}

// seen is what a poll shows the machine, and how many issues of it were left for later because no lookups were left.
func (s *session) seen(ctx context.Context, repo string, asked time.Time, page github.Page,
	l *lookups,
) (seen fsm.IssuesSeen, later int) {
	seen = fsm.IssuesSeen{Repo: repo, Cursor: page.Cursor, AskedAt: asked}
	for _, key := range page.Closed { // an issue may depend on it
		seen.Issues = append(seen.Issues, fsm.IssueView{Key: fsm.IssueKey(key)})
	}
	slices.SortStableFunc(page.Issues, l.first)
	for _, i := range page.Issues {
		if i.State != "open" { // the machine decides about a delivery only when that has ended
			s.withdrawals.End(fsm.IssueKey(i.Key))
		}
		if s.refusals.Hold(i) {
			continue
		}
		v, err := s.offered(ctx, i, &l.left)
		delete(l.waited, i.Key)
		if errors.Is(err, github.ErrLater) {
			l.waited[i.Key] = true
			later++
			seen.Cursor = ""
			continue
		}
		if err != nil { // the others go on; the cursor stays, so that this one is seen again
			s.log.Warn("an issue is left for the next poll", zap.String("issue", i.Key), zap.Error(err))
			seen.Cursor = ""
			continue
		}
		seen.Issues = append(seen.Issues, v)
	}
	return seen, later
}

var nonceForm = regexp.MustCompile(`^[a-z2-7]{8}$`)

// newNonce names a claim for ever: 40 random bits.
func newNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// asksForWork reports whether an issue would be claimed now.
func (d *daemon) asksForWork(i github.Issue) bool {
	names := d.config.GitHub.Labels
	return i.State == "open" && i.Has(names.Task) && !i.Has(names.Claimed) && !i.Has(names.Blocked)
}

// view is what the machine needs to know of an issue.
func (s *session) view(i github.Issue) fsm.IssueView {
	v := fsm.IssueView{
		Key: fsm.IssueKey(i.Key), Title: i.Title, URL: i.URL, Open: i.State == "open",
		UpdatedAt: i.UpdatedAt, Nonce: newNonce(),
	}
	names := s.config.GitHub.Labels
	for _, l := range []struct {
		name string
		role fsm.Label
	}{
		{names.Task, fsm.LabelTask},
		{names.Claimed, fsm.LabelClaimed},
		{names.Blocked, fsm.LabelBlocked},
		{names.Review, fsm.LabelReview},
	} {
		if i.Has(l.name) {
			v.Labels = append(v.Labels, l.role)
		}
	}
	return v
}

// readIssue reads one issue again.
func (s *session) readIssue(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, s.pollPause, func() error {
		asked := s.owner.Clock.Now()
		i, err := s.github.Issue(ctx, string(e.Task))
		switch _, gone := failure.IssueGone(err); {
		case gone:
			s.owner.Send(ctx, s.issueGone(e.Task), nil)
			return nil
		case err == nil:
			left := lookupsPerPoll
			var v fsm.IssueView
			if v, err = s.offered(ctx, i, &left); err == nil {
				s.owner.Send(ctx, fsm.IssuesSeen{Repo: e.Task.Repo(), AskedAt: asked, Issues: []fsm.IssueView{v}}, nil)
			}
		}
		return err
	})
}

// issueGone is the event of an issue that is gone: like one that was closed.
func (s *session) issueGone(k fsm.IssueKey) fsm.IssuesSeen {
	return fsm.IssuesSeen{Repo: k.Repo(), AskedAt: s.owner.Clock.Now(), Issues: []fsm.IssueView{{Key: k}}}
}

// reclaim looks at a claim that no task of ours knows. One of this fleet is from before the journal was lost;
// it is given back once nothing has happened in it for long enough. Another fleet's claim is another director's
// business.
func (s *session) reclaim(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if s.reclaims.Hold(github.Issue{Key: string(e.Task)}) { // every poll shows it, and a look costs requests
		return fsm.EffectEnded{}
	}
	s.reclaims.Note(string(e.Task))
	holder, seen, ok, err := s.github.Stale(ctx, string(e.Task))
	if err == nil && !ok {
		return failure.Or(fsm.EffectEnded{}, s.offerAgain(ctx, e.Task))
	}
	if err != nil || holder.Fleet != s.config.Director.Fleet {
		return failure.Or(fsm.EffectEnded{}, err)
	}
	if back := seen.Add(s.setup().Timeouts.IssueClaimStale); time.Now().Before(back) {
		s.log.Warn("a claim of this fleet that this director does not know: if its journal was lost, `director "+
			"journal rebuild` takes the claim up; otherwise it is given back",
			zap.String("issue", string(e.Task)), zap.String("task", holder.Nonce), zap.Time("until", back))
		return fsm.EffectEnded{}
	}
	err = s.github.Release(ctx, github.ReleaseRequest{
		Key: string(e.Task), Nonce: holder.Nonce, RestoreTask: true, Reclaim: true, LastSeen: seen,
		Why: "nothing happened in the claim of fleet " + holder.Fleet + " since " + seen.UTC().Format(time.RFC3339),
	})
	if errors.Is(err, github.ErrAlive) {
		err = nil
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// soon is how long is waited for a label to count as left behind, instead of looking again with the next list
// of everything.
const soon = 2 * time.Minute

// offerAgain offers an issue again that carries our label and nobody's claim.
func (s *session) offerAgain(ctx context.Context, k fsm.IssueKey) error {
	for {
		freed, due, err := s.github.Free(ctx, string(k), s.setup().Timeouts.IssueClaimStale)
		switch wait := time.Until(due); {
		case errors.Is(err, github.ErrWritesDisabled):
			return nil
		case freed:
			s.log.Warn("a label without a claim was taken off", zap.String("issue", string(k)), zap.Error(err))
			return err
		case err != nil || due.IsZero() || wait > soon:
			return err
		default:
			select {
			case <-time.After(max(wait, time.Second)):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// tidy takes off the labels of ours that people have put beside the one that says what the task does.
func (s *session) tidy(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	err := s.github.KeepLabel(ctx, string(e.Task), s.labelOf(fsm.Label(e.Why)), false)
	if _, gone := failure.IssueGone(err); gone {
		err = nil
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// labelOf is the name of a role's label.
func (s *session) labelOf(role fsm.Label) string {
	names := s.config.GitHub.Labels
	return map[fsm.Label]string{
		fsm.LabelTask: names.Task, fsm.LabelClaimed: names.Claimed, fsm.LabelBlocked: names.Blocked,
		fsm.LabelReview: names.Review,
	}[role]
}

// readAnswers looks for what people did since the question: took the blocked label off, or said something.
func (s *session) readAnswers(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, s.pollPause, func() error {
		u, removed, err := s.github.Unblocked(ctx, string(e.Task))
		if err != nil {
			return err
		}
		said, err := s.github.Answers(ctx, string(e.Task))
		if err != nil {
			return err
		}
		answer := fsm.QuestionAnswered{Task: e.Task, Hints: hints(said)}
		if removed && u.Person {
			answer.By, answer.Command = u.By, "removed the blocked label"
			s.owner.Decided(ctx, answer)
			return nil
		}
		if removed { // the question stands, and GitHub must say so
			s.log.Warn("a bot took the blocked label off, which is no answer; it is put back",
				zap.String("issue", string(e.Task)), zap.String("by", u.By))
			if err := s.github.KeepLabel(ctx, string(e.Task), s.config.GitHub.Labels.Blocked, true); err != nil {
				return err
			}
		}
		if answer.Hints != nil {
			s.owner.Decided(ctx, answer)
		}
		return nil
	})
}

// hints are what people with write access said: text behind a command, and plain comments.
func hints(said []github.Answer) (out []fsm.Hint) {
	for _, a := range said {
		text := a.Text
		if a.Command != github.CommandNone {
			text = a.Rest
		}
		if a.MayWrite && text != "" {
			out = append(out, fsm.Hint{From: a.By, At: a.At, Text: text})
		}
	}
	return out
}
