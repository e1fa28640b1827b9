package intake

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
)

// Offers says what an issue looks like to the machine, and whether it asks for work. Its exported fields are set before
// its first use.
type Offers struct {
	GitHub   offerClient
	Config   *inforce.Current
	Unusable *sync.Map // repositories in which nothing new is begun, and why
	Log      *zap.Logger

	said      sync.Map // issues of which the log says that they are left alone
	explained hourly   // issues that say so themselves
}

// offerClient is what Offers needs of GitHub.
type offerClient interface {
	OfferedByUntrusted(ctx context.Context, i github.Issue) (why string, err error)
	Blockers(ctx context.Context, i github.Issue, left *int) (keys []string, err error)
	Disapprove(ctx context.Context, key, why string) error
}

// LookupsPerPoll bounds how much is looked up in one poll of what issues depend on: the rest follows with the
// next polls, and those issues wait.
const LookupsPerPoll = 200

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

// View is the view of an issue, with its turn if it asks for work. An issue that nobody with rights has
// offered does not seem to. What it depends on is looked up with the lookups that are left.
func (o *Offers) View(ctx context.Context, i github.Issue, left *int) (fsm.IssueView, error) {
	v := o.IssueView(i)
	v.Standing = o.labelStanding(i)
	if !o.AsksForWork(i) {
		return v, nil
	}
	if _, unusable := o.Unusable.Load(fsm.IssueKey(i.Key).Repo()); unusable {
		v.Labels = slices.DeleteFunc(v.Labels, func(l fsm.Label) bool { return l == fsm.LabelTask })
		return v, nil
	}
	why, err := o.whyLeftAlone(ctx, i)
	if err != nil {
		return v, err
	}
	if why != "" {
		v.Labels = slices.DeleteFunc(v.Labels, func(l fsm.Label) bool { return l == fsm.LabelTask })
		o.sayLeftAlone(ctx, i, why)
		return v, nil
	}
	keys, err := o.GitHub.Blockers(ctx, i, left)
	for _, k := range keys {
		v.Standing.After = append(v.Standing.After, fsm.IssueKey(k))
	}
	return v, err
}

// whyLeftAlone says why an issue with the task label is not to be worked on because of who wrote and who
// labelled it; empty: it may be.
func (o *Offers) whyLeftAlone(ctx context.Context, i github.Issue) (string, error) {
	if o.Config.Load().GitHub.IssueAuthors == config.AuthorsTrusted && !i.Trusted {
		return i.Author + notTrusted, nil
	}
	return o.GitHub.OfferedByUntrusted(ctx, i)
}

// notTrusted ends the reason of an issue that nobody's label helps.
const notTrusted = ", who has written it, is not among github.trusted_authors (github.issue_authors)"

// explainedPerHour bounds the comments that say why an issue is left alone: strangers may open many.
const explainedPerHour = 20

// sayLeftAlone says it once: in the log, and on the issue if a person can do something about it there.
func (o *Offers) sayLeftAlone(ctx context.Context, i github.Issue, why string) {
	if _, told := o.said.LoadOrStore(i.Key, true); told {
		return
	}
	o.Log.Warn("an issue is left alone: nobody with rights has approved it", zap.String("issue", i.Key),
		zap.String("by", i.Author), zap.String("reason", why))
	if strings.HasSuffix(why, notTrusted) || !o.explained.take(time.Now(), explainedPerHour) {
		return
	}
	if err := o.GitHub.Disapprove(ctx, i.Key, why); err != nil && !errors.Is(err, github.ErrWritesDisabled) {
		o.Log.Warn("an issue does not say why it is left alone", zap.String("issue", i.Key), zap.Error(err))
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
func (o *Offers) labelStanding(i github.Issue) (stand fsm.Standing) {
	found, gh := false, o.Config.Load().GitHub
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

// AsksForWork reports whether an issue would be claimed now.
func (o *Offers) AsksForWork(i github.Issue) bool {
	names := o.Config.Load().GitHub.Labels
	return i.State == "open" && i.Has(names.Task) && !i.Has(names.Claimed) && !i.Has(names.Blocked)
}

// IssueView is what the machine needs to know of any issue, without its turn.
func (o *Offers) IssueView(i github.Issue) fsm.IssueView {
	v := fsm.IssueView{
		Key: fsm.IssueKey(i.Key), Title: i.Title, URL: i.URL, Open: i.State == "open",
		UpdatedAt: i.UpdatedAt, Nonce: loop.NewNonce(),
	}
	names := o.Config.Load().GitHub.Labels
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
