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
		// The machine says where to go on: a view that it could not decide about yet keeps the cursor where it was.
		var cursor string
		err := s.owner.read(ctx, func(m *fsm.Machine) { cursor = m.Cursor(repo) })
		if err != nil && ctx.Err() == nil {
			return err
		}
		whole = s.refusals.lapsed(repo) || whole
		err = s.pollOnce(ctx, repo, cursor, true)
		if err == nil {
			s.lookAgain(ctx, repo)
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

// lookAgain does what a limit at the start has put off. Whatever else is wrong is told, and tried again with the next poll.
func (s *session) lookAgain(ctx context.Context, repo string) {
	if err := s.openRepository(ctx, repo); err != nil && ctx.Err() == nil {
		s.log.Warn("labels not checked", zap.String("repo", repo), zap.Error(err))
	}
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
		s.owner.tell(ctx, s.seen(repo, asked, page), nil)
	}
	return err
}

// afterPoll returns how long to wait for the next poll, and says why if that is not the usual time.
func (s *session) afterPoll(ctx context.Context, repo string, err error) time.Duration {
	var limit *github.Error
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.As(err, &limit) && limit.Kind == github.KindRateLimited:
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
		if !s.refusals.hold(i) {
			seen.Issues = append(seen.Issues, s.view(i))
		}
	}
	return seen
}

// newNonce names a claim for ever: 40 random bits.
func newNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// refusals are issues that could not be claimed. They are not offered again before something changed on them, or some
// time has passed: an issue that looks eligible and is not must not be tried at every poll.
type refusals struct {
	mu   sync.Mutex
	last map[string]refusal
}

type refusal struct {
	until   time.Time
	updated time.Time // the issue's, at the first poll after the refusal
}

// The bounds of refusals: how long one holds, and how many there are.
const (
	refusedFor  = 10 * time.Minute
	maxRefusals = 1000
)

func newRefusals() *refusals { return &refusals{last: map[string]refusal{}} }

// note keeps a refusal; an error that time heals is none.
func (r *refusals) note(key string, err error) {
	if err != nil && failed(err).Failure.Transient {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) >= maxRefusals {
		clear(r.last)
	}
	r.last[key] = refusal{until: time.Now().Add(refusedFor)}
}

// lapsed says whether a refusal in a repository has run out, and forgets it: the issue may be behind the cursor by now.
func (r *refusals) lapsed(repo string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, now := len(r.last), time.Now()
	maps.DeleteFunc(r.last, func(key string, x refusal) bool {
		return fsm.IssueKey(key).Repo() == repo && now.After(x.until)
	})
	return len(r.last) < before
}

// hold says whether an issue is not to be offered now.
func (r *refusals) hold(i github.Issue) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, ok := r.last[i.Key]
	if !ok {
		return false
	}
	if x.updated.IsZero() {
		x.updated = i.UpdatedAt
		r.last[i.Key] = x
	}
	if time.Now().After(x.until) || !i.UpdatedAt.Equal(x.updated) {
		delete(r.last, i.Key)
		return false
	}
	return true
}
