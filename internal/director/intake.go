package director

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/fsm"
	"retake/internal/github"
)

// poll reads one repository every github.poll_seconds, until ctx ends. A limit is waited for; other failures are logged
// and the next poll comes in its time.
func (s *session) poll(ctx context.Context, repo string) error {
	for whole := true; ctx.Err() == nil; {
		// The cursor is the machine's: it stays where it was if a view could not be decided about yet.
		cursor, err := look(ctx, s.owner, func(d *fsm.Driver) string { return d.Machine().Cursor(repo) })
		if err != nil && ctx.Err() == nil {
			return err
		}
		whole = s.refusals.lapsed(repo) || whole
		err = s.pollOnce(ctx, repo, cursor, true)
		if err == nil {
			if err := s.openRepository(ctx, repo); err != nil && ctx.Err() == nil { // what a limit at the start has put off
				s.log.Warn("labels not checked", zap.String("repo", repo), zap.Error(err))
			}
		}
		if err == nil {
			err = s.pollComments(ctx, repo)
		}
		if err == nil && whole && cursor != "" {
			err = s.pollOnce(ctx, repo, "", false) // what carries our labels now, whenever it changed
		}
		whole = whole && err != nil
		select {
		case <-time.After(s.afterPoll(ctx, repo, err)):
		case <-ctx.Done():
		}
	}
	return nil
}

// pollOnce asks for what changed since the cursor; from "" on, for everything that carries our labels. Only if it advances
// does the machine's cursor move: a look at labels alone misses what lost one.
func (s *session) pollOnce(ctx context.Context, repo, cursor string, advance bool) error {
	asked := s.owner.clock.peek()
	page, err := s.github.Poll(ctx, repo, cursor)
	if !advance {
		page.Cursor = ""
	}
	if err == nil {
		s.wakeReviews(ctx, repo, page.PullRequests)
		s.owner.send(ctx, s.seen(repo, asked, page), nil)
	}
	return err
}

// afterPoll returns how long to wait for the next poll, and logs why if that is not the usual time.
func (s *session) afterPoll(ctx context.Context, repo string, err error) time.Duration {
	switch limit, ok := errors.AsType[*github.Error](err); {
	case err == nil || ctx.Err() != nil:
	case ok && limit.Kind == github.KindRateLimited:
		s.log.Info("poll waits for a limit", zap.String("reason", limit.Message), zap.Time("until", limit.Until))
		return max(time.Until(limit.Until), time.Second)
	default:
		s.log.Warn("poll failed", zap.String("repo", repo), zap.Error(err))
	}
	return s.config.GitHub.Poll
}

func (s *session) seen(repo string, asked time.Time, page github.Page) fsm.IssuesSeen {
	seen := fsm.IssuesSeen{Repo: repo, Cursor: page.Cursor, AskedAt: asked}
	for _, i := range page.Issues {
		if i.State != "open" { // the machine decides about a delivery only when that has ended
			s.withdrawals.end(fsm.IssueKey(i.Key))
		}
		if !s.refusals.hold(i) {
			seen.Issues = append(seen.Issues, s.view(i))
		}
	}
	return seen
}

// newNonce names a claim for ever: 40 random bits.
func newNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// postponed are issues that are left alone before something changed on them, or some time has passed: what could not be
// claimed although it looks eligible, and claims that no task knows.
type postponed struct {
	mu   sync.Mutex
	last map[string]postponement
}

type postponement struct {
	until   time.Time
	updated time.Time // the issue's, at the first poll after it was postponed
}

// The bounds: how long one holds, and how many there are.
const (
	postponedFor = 10 * time.Minute
	maxPostponed = 1000
)

func newPostponed() *postponed { return &postponed{last: map[string]postponement{}} }

// note postpones an issue; an error that time heals is no reason to.
func (p *postponed) note(key string, err error) {
	if err != nil && failed(err).Failure.Transient {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.last) >= maxPostponed {
		clear(p.last)
	}
	p.last[key] = postponement{until: time.Now().Add(postponedFor)}
}

// lapsed forgets what was postponed in a repository long enough, and reports whether there were any: the issue may be behind the cursor by now.
func (p *postponed) lapsed(repo string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, now := len(p.last), time.Now()
	maps.DeleteFunc(p.last, func(key string, x postponement) bool {
		return fsm.IssueKey(key).Repo() == repo && now.After(x.until)
	})
	return len(p.last) < before
}

// hold reports whether an issue must not be offered now.
func (p *postponed) hold(i github.Issue) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, ok := p.last[i.Key]
	if !ok {
		return false
	}
	if x.updated.IsZero() {
		x.updated = i.UpdatedAt
		p.last[i.Key] = x
	}
	if time.Now().After(x.until) || !i.UpdatedAt.Equal(x.updated) {
		delete(p.last, i.Key)
		return false
	}
	return true
}

// view is what the machine needs to know of an issue.
func (s *session) view(i github.Issue) fsm.IssueView {
	v := fsm.IssueView{Key: fsm.IssueKey(i.Key), Title: i.Title, URL: i.URL, Open: i.State == "open", UpdatedAt: i.UpdatedAt, Nonce: newNonce()}
	names := s.config.GitHub.Labels
	for _, l := range []struct {
		name string
		role fsm.Label
	}{{names.Task, fsm.LabelTask}, {names.Claimed, fsm.LabelClaimed}, {names.Blocked, fsm.LabelBlocked}, {names.Review, fsm.LabelReview}} {
		if i.Has(l.name) {
			v.Labels = append(v.Labels, l.role)
		}
	}
	return v
}

// readIssue reads one issue again.
func (s *session) readIssue(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return s.retryTransient(ctx, func() error {
		asked := s.owner.clock.peek()
		i, err := s.github.Issue(ctx, string(e.Task))
		switch _, gone := isIssueGone(err); {
		case gone:
			s.owner.send(ctx, s.issueGone(e.Task), nil)
			return nil
		case err == nil:
			s.owner.send(ctx, fsm.IssuesSeen{Repo: e.Task.Repo(), AskedAt: asked, Issues: []fsm.IssueView{s.view(i)}}, nil)
		}
		return err
	})
}

// issueGone is the event of an issue that is gone: like one that was closed.
func (s *session) issueGone(k fsm.IssueKey) fsm.IssuesSeen {
	return fsm.IssuesSeen{Repo: k.Repo(), AskedAt: s.owner.clock.peek(), Issues: []fsm.IssueView{{Key: k}}}
}

// isIssueGone reports whether an error means that the issue was deleted, or transferred to where we do not work.
func isIssueGone(err error) (why string, gone bool) {
	e, ok := errors.AsType[*github.Error](err)
	if !ok || e.Kind != github.KindNotFound {
		return "", false
	}
	if e.MovedTo != "" {
		return "the issue was transferred to " + e.MovedTo, true
	}
	return "the issue is not there any more", true
}

// reclaim looks at a claim that no task of ours knows. One of this fleet is from before the journal was lost; it is given
// back once nothing has happened in it for long enough. Another fleet's claim is another director's business.
func (s *session) reclaim(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if s.reclaims.hold(github.Issue{Key: string(e.Task)}) { // every poll shows it, and a look costs requests
		return fsm.EffectEnded{}
	}
	s.reclaims.note(string(e.Task), nil)
	holder, seen, ok, err := s.github.Stale(ctx, string(e.Task))
	fresh := time.Since(seen) < s.config.Timeouts.IssueClaimStale
	if err != nil || !ok || fresh || holder.Fleet != s.config.Director.Fleet {
		return orFailed(fsm.EffectEnded{}, err)
	}
	err = s.github.Release(ctx, github.ReleaseRequest{
		Key: string(e.Task), Nonce: holder.Nonce, RestoreTask: true, Reclaim: true, LastSeen: seen,
		Why: "nothing happened in the claim of fleet " + holder.Fleet + " since " + seen.UTC().Format(time.RFC3339),
	})
	if errors.Is(err, github.ErrAlive) {
		err = nil
	}
	return orFailed(fsm.EffectEnded{}, err)
}

// tidy takes off the labels of ours that people have put beside the one that says what the task does.
func (s *session) tidy(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	err := s.github.KeepLabel(ctx, string(e.Task), s.labelOf(fsm.Label(e.Why)), false)
	if _, gone := isIssueGone(err); gone {
		err = nil
	}
	return orFailed(fsm.EffectEnded{}, err)
}

// labelOf is the name of a role's label.
func (s *session) labelOf(role fsm.Label) string {
	names := s.config.GitHub.Labels
	return map[fsm.Label]string{
		fsm.LabelTask: names.Task, fsm.LabelClaimed: names.Claimed, fsm.LabelBlocked: names.Blocked, fsm.LabelReview: names.Review,
	}[role]
}

// readAnswers looks for what people did since the question: took the blocked label off, or said something.
func (s *session) readAnswers(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return s.retryTransient(ctx, func() error {
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
			s.decided(ctx, answer)
			return nil
		}
		if removed { // the question stands, and GitHub must say so
			s.log.Warn("a bot took the blocked label off, which is no answer; it is put back", zap.String("issue", string(e.Task)), zap.String("by", u.By))
			if err := s.github.KeepLabel(ctx, string(e.Task), s.config.GitHub.Labels.Blocked, true); err != nil {
				return err
			}
		}
		if answer.Hints != nil {
			s.decided(ctx, answer)
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
