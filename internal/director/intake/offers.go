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
	"retake/internal/github/api"
	"retake/internal/github/tracker"
)

// Offers converts issues for the machine, and decides whether an issue asks for work. Set the exported fields before
// the first use.
type Offers struct {
	GitHub   offerClient
	Config   *inforce.Current
	Unusable *sync.Map // repositories where no new work begins, with the reason
	Log      *zap.Logger

	said      sync.Map // open issues already logged as ignored
	explained hourly   // limits the comments that explain why an issue is ignored
}

// offerClient is the part of the GitHub client that Offers needs.
type offerClient interface {
	OfferedByUntrusted(ctx context.Context, i tracker.Issue) (why string, err error)
	Blockers(ctx context.Context, i tracker.Issue, left *int) (keys []string, err error)
	Disapprove(ctx context.Context, key, why string) error
}

// LookupsPerPoll limits the dependency lookups in one poll. The remaining issues wait for later polls.
const LookupsPerPoll = 200

// lookups counts the dependency lookups for one repository.
type lookups struct {
	left   int             // lookups that remain in the current poll
	waited map[string]bool // issues that the last poll did not look up
}

// first compares two issues for sorting. Issues that the last poll did not look up come first. Otherwise, with more
// issues than lookups, every poll would look up the same issues.
func (l *lookups) first(a, b tracker.Issue) int {
	switch {
	case l.waited[a.Key] == l.waited[b.Key]:
		return 0
	case l.waited[a.Key]:
		return -1
	}
	return 1
}

// View converts an issue. An eligible issue gets its position in the queue. If only people without write access have
// offered the issue, View hides its task label from the machine. left counts the remaining dependency lookups.
func (o *Offers) View(ctx context.Context, i tracker.Issue, left *int) (fsm.IssueView, error) {
	v := o.IssueView(i)
	if !v.Open {
		o.Closed(i.Key)
	}
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

// Closed removes the record of an issue that is no longer open.
func (o *Offers) Closed(key string) { o.said.Delete(key) }

// whyLeftAlone returns why an issue with the task label must be ignored because of its author or the person who
// labelled it, or "" if Retake may work on it.
func (o *Offers) whyLeftAlone(ctx context.Context, i tracker.Issue) (string, error) {
	if o.Config.Load().GitHub.IssueAuthors == config.AuthorsTrusted && !i.Trusted {
		return i.Author + notTrusted, nil
	}
	return o.GitHub.OfferedByUntrusted(ctx, i)
}

// notTrusted is the suffix of a reason that adding a label cannot fix, even if a trusted person adds it.
const notTrusted = ", the author, is not in github.trusted_authors (github.issue_authors)"

// explainedPerHour limits the comments about ignored issues, because untrusted authors may open many issues.
const explainedPerHour = 20

// sayLeftAlone logs an ignored issue once. If a person can fix the problem on the issue itself, it also comments there.
func (o *Offers) sayLeftAlone(ctx context.Context, i tracker.Issue, why string) {
	if _, told := o.said.LoadOrStore(i.Key, true); told {
		return
	}
	o.Log.Warn("ignored an issue not approved by anyone with write access", zap.String("issue", i.Key),
		zap.String("by", i.Author), zap.String("reason", why))
	if strings.HasSuffix(why, notTrusted) || !o.explained.take(time.Now(), explainedPerHour) {
		return
	}
	if err := o.GitHub.Disapprove(ctx, i.Key, why); err != nil && !errors.Is(err, api.ErrWritesDisabled) {
		o.Log.Warn("could not comment on ignored issue", zap.String("issue", i.Key), zap.Error(err))
	}
}

// hourly limits the number of actions per hour. The zero value is ready to use.
type hourly struct {
	mu   sync.Mutex
	from time.Time
	done int
}

// take counts one action, and reports whether the hour's limit allows it.
func (h *hourly) take(now time.Time, most int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.from) >= time.Hour {
		h.from, h.done = now, 0
	}
	h.done++
	return h.done <= most
}

// labelStanding returns an issue's position in the queue according to its labels.
func (o *Offers) labelStanding(i tracker.Issue) (stand fsm.Standing) {
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

// AsksForWork reports whether an issue is eligible for a claim now.
func (o *Offers) AsksForWork(i tracker.Issue) bool {
	names := o.Config.Load().GitHub.Labels
	return i.State == "open" && i.Has(names.Task) && !i.Has(names.Claimed) && !i.Has(names.Blocked)
}

// IssueView converts any issue for the machine, without its position in the queue.
func (o *Offers) IssueView(i tracker.Issue) fsm.IssueView {
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
