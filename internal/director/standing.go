package director

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/github"
)

// lookupsPerPoll bounds how much is looked up in one poll of what issues depend on: the rest follows with the
// next polls, and those issues wait.
const lookupsPerPoll = 200

// lookups are what is looked up in the polls of one repository.
type lookups struct {
	left   int             // in this poll
	waited map[string]bool // issues for which there were none left
}

// first orders issues: those go first that had to wait. There may never be enough lookups for all before what
// was looked up first is asked for again.
func (l *lookups) first(a, b github.Issue) int {
	switch {
	case l.waited[a.Key] == l.waited[b.Key]:
		return 0
	case l.waited[a.Key]:
		return -1
	}
	return 1
}

// offered is the view of an issue, with its turn if it asks for work. An issue that nobody with rights has
// offered does not seem to. What it depends on is looked up with the lookups that are left.
func (s *session) offered(ctx context.Context, i github.Issue, left *int) (fsm.IssueView, error) {
	v := s.view(i)
	v.Standing = s.labelStanding(i)
	if !s.asksForWork(i) {
		return v, nil
	}
	if _, unusable := s.unusable.Load(fsm.IssueKey(i.Key).Repo()); unusable {
		v.Labels = slices.DeleteFunc(v.Labels, func(l fsm.Label) bool { return l == fsm.LabelTask })
		return v, nil
	}
	why, err := s.whyLeftAlone(ctx, i)
	if err != nil {
		return v, err
	}
	if why != "" {
		v.Labels = slices.DeleteFunc(v.Labels, func(l fsm.Label) bool { return l == fsm.LabelTask })
		s.sayLeftAlone(ctx, i, why)
		return v, nil
	}
	keys, err := s.github.Blockers(ctx, i, left)
	for _, k := range keys {
		v.Standing.After = append(v.Standing.After, fsm.IssueKey(k))
	}
	return v, err
}

// whyLeftAlone says why an issue with the task label is not to be worked on because of who wrote and who
// labelled it; empty: it may be.
func (s *session) whyLeftAlone(ctx context.Context, i github.Issue) (string, error) {
	if s.setup().GitHub.IssueAuthors == config.AuthorsTrusted && !i.Trusted {
		return i.Author + notTrusted, nil
	}
	return s.github.OfferedByUntrusted(ctx, i)
}

// notTrusted ends the reason of an issue that nobody's label helps.
const notTrusted = ", who has written it, is not among github.trusted_authors (github.issue_authors)"

// explainedPerHour bounds the comments that say why an issue is left alone: strangers may open many.
const explainedPerHour = 20

// sayLeftAlone says it once: in the log, and on the issue if a person can do something about it there.
func (s *session) sayLeftAlone(ctx context.Context, i github.Issue, why string) {
	if _, told := s.untrusted.LoadOrStore(i.Key, true); told {
		return
	}
	s.log.Warn("an issue is left alone: nobody with rights has approved it", zap.String("issue", i.Key),
		zap.String("by", i.Author), zap.String("reason", why))
	if strings.HasSuffix(why, notTrusted) || !s.explained.take(time.Now(), explainedPerHour) {
		return
	}
	if err := s.github.Disapprove(ctx, i.Key, why); err != nil && !errors.Is(err, github.ErrWritesDisabled) {
		s.log.Warn("an issue does not say why it is left alone", zap.String("issue", i.Key), zap.Error(err))
	}
}

// sayEdited says once that an issue was edited after it was approved: in the log, and on the issue.
func (s *session) sayEdited(ctx context.Context, key string, a github.Approval) {
	if _, told := s.untrusted.LoadOrStore(key+" "+a.At.String(), true); told {
		return
	}
	s.log.Warn("the issue was edited after it was approved, by people without write access: agents get it without "+
		"that, until the label is put on anew",
		zap.String("issue", key), zap.Strings("by", a.Without), zap.String("approved_by", a.By),
		zap.Time("approved_at", a.At))
	if err := s.github.SayEdited(ctx, key, a); err != nil {
		s.log.Warn("the issue does not say that it was edited", zap.String("issue", key), zap.Error(err))
	}
}

// hourly counts what is done within an hour. Its zero value has counted nothing.
type hourly struct {
	mu   sync.Mutex
	from time.Time
	done int
}

// take counts one more, and reports whether there was one left.
func (h *hourly) take(now time.Time, most int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.from) >= time.Hour {
		h.from, h.done = now, 0
	}
	h.done++
	return h.done <= most
}

// labelStanding is what an issue's labels say about its turn.
func (s *session) labelStanding(i github.Issue) (stand fsm.Standing) {
	found, gh := false, s.setup().GitHub
	for _, l := range i.Labels {
		l = strings.ToLower(l)
		if _, capped := gh.LabelCaps[l]; capped {
			stand.Capped = append(stand.Capped, l)
		}
		if p, ranked := gh.Priorities[l]; ranked && (!found || p > stand.Priority) {
			stand.Priority, found = p, true
		}
	}
	slices.Sort(stand.Capped)
	return stand
}
