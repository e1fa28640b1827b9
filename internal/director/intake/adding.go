package intake

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github/tracker"
	"retake/internal/timeline"
)

// Adder offers issues to Retake at an operator's request, by adding the task label.
type Adder struct {
	Owner    *loop.Owner
	GitHub   addClient
	Offers   *Offers
	Config   *inforce.Current
	Unusable *sync.Map // repositories where no new work begins, with the reason
	// Request sends a command to the machine, and returns when its decision is in the journal.
	Request func(ctx context.Context, v fsm.CommentView) (refused string, decided bool)
	// Task returns the timeline of an issue, if the read model knows it.
	Task func(ctx context.Context, k fsm.IssueKey) (told timeline.Task, known bool, err error)
	Ring func(repo string) // requests an early poll of a repository
	// NotWritten is the answer if the journal does not respond, and TooBusy if the owner does not.
	NotWritten, TooBusy string
	Log                 *zap.Logger
}

// addClient is the part of the GitHub client that Adder needs.
type addClient interface {
	issueReader
	Offer(ctx context.Context, key string) error
}

// Offer adds the task label to an issue, and sends the issue to the machine at once. It first records the request and
// the requester in the journal. It returns the HTTP status of the answer, and the reason if the issue is not offered.
// again allows offering an issue with completed work.
func (s *Adder) Offer(ctx context.Context, key fsm.IssueKey, by, id string,
	again bool,
) (status int, problem string) {
	now, err := loop.Look(ctx, s.Owner, func(d *fsm.Driver) (o offering) {
		if t := d.Machine().Task(key); t != nil {
			o.state = t.State.String()
		}
		_, o.asked = d.Machine().Requested(id)
		return o
	})
	switch {
	case err != nil:
		return http.StatusServiceUnavailable, s.TooBusy
	case now.asked && now.state != "": // a repeated request
		return http.StatusOK, ""
	case !now.asked:
		if status, problem := s.mayOffer(ctx, key, now.state); problem != "" {
			return status, problem
		}
		if problem := s.doneBefore(ctx, key); problem != "" && !again {
			return http.StatusConflict, problem
		}
		asked := fsm.CommentView{Task: key, CommandRef: fsm.CommandRef{Request: id}, By: by, Command: fsm.CommandAdd}
		if _, decided := s.Request(ctx, asked); !decided {
			return http.StatusServiceUnavailable, s.NotWritten
		}
	}
	if err := s.GitHub.Offer(ctx, string(key)); err != nil {
		return http.StatusBadGateway, "cannot add the label: " + err.Error()
	}
	s.Ring(key.Repo())
	return s.showOffered(ctx, key)
}

// showOffered reads an issue that was just offered, and sends it to the machine. If that fails, the next poll finds the
// issue.
func (s *Adder) showOffered(ctx context.Context, key fsm.IssueKey) (status int, problem string) {
	asked := s.Owner.Clock.Now()
	i, err := s.GitHub.Issue(ctx, string(key))
	if err == nil {
		left := LookupsPerPoll
		var v fsm.IssueView
		if v, err = s.Offers.View(ctx, i, &left); err == nil && len(v.Labels) == 0 {
			return http.StatusConflict, "the label was added, but Retake still ignores the issue, because of its " +
				"author and the person who added the label: see github.issue_authors and github.trusted_authors"
		}
		if err == nil {
			s.Owner.Decided(ctx, fsm.IssuesSeen{Repo: key.Repo(), AskedAt: asked, Issues: []fsm.IssueView{v}})
		}
	}
	if err != nil {
		s.Log.Info("issue offered; the next poll will find it", zap.String("issue", string(key)), zap.Error(err))
	}
	return http.StatusOK, ""
}

// offering is the machine's view of an issue that a person is offering.
type offering struct {
	state string // state of the issue's task; empty without a task
	asked bool   // the machine has already recorded the same request
}

// mayOffer returns why an issue cannot be offered, or "".
func (s *Adder) mayOffer(ctx context.Context, key fsm.IssueKey, state string) (status int, problem string) {
	if problem := s.cannotOffer(key, state); problem != "" {
		return http.StatusConflict, problem
	}
	i, err := s.GitHub.Issue(ctx, string(key))
	if why, gone := failure.IssueGone(err); gone {
		return http.StatusNotFound, string(key) + ": " + why
	}
	if err != nil {
		return http.StatusBadGateway, "cannot read " + string(key) + ": " + err.Error()
	}
	return http.StatusConflict, s.notToOffer(i)
}

// doneBefore returns a message if Retake has already completed the issue, so that a person does not repeat the work by
// mistake. Otherwise it returns "".
func (s *Adder) doneBefore(ctx context.Context, key fsm.IssueKey) string {
	told, known, err := s.Task(ctx, key)
	if err != nil || !known || told.State != fsm.Done.String() { // the read model may have dropped old work
		return ""
	}
	return fmt.Sprintf("the work on %s is done: %s. If something is still missing, describe it in a comment, and "+
		"offer the issue again with: director add %s --again", key, cmp.Or(told.Why, "it was delivered"), key)
}

// cannotOffer returns why the configuration, the repository or an existing task rules out an offer, or "" if none does.
func (s *Adder) cannotOffer(key fsm.IssueKey, state string) string {
	why, unusable := s.Unusable.Load(key.Repo())
	repositories := s.Config.Load().GitHub.Repositories
	switch {
	case !slices.Contains(repositories, key.Repo()):
		return key.Repo() + " is not listed in github.repositories (" + strings.Join(repositories, ", ") +
			"): add it there first"
	case !s.Config.Load().GitHub.Writes:
		return "github.writes is false, so Retake does not add labels"
	case unusable:
		return fmt.Sprint(why)
	case state != "":
		return fmt.Sprintf("Retake is already working on %s: it is %s", key, state)
	}
	return ""
}

// notToOffer returns why the issue's state on GitHub forbids an offer, or "".
func (s *Adder) notToOffer(i tracker.Issue) string {
	names := s.Config.Load().GitHub.Labels
	switch {
	case i.IsPullRequest:
		return i.Key + " is a pull request: Retake works only on issues"
	case i.State != "open":
		return i.Key + " is closed: reopen it first"
	case i.Has(names.Claimed), i.Has(names.Blocked):
		return fmt.Sprintf("%s has the label %q: another director may be working on it",
			i.Key, strings.Join(i.Labels, ", "))
	case i.Has(names.Task):
		return i.Key + " is already offered, with the label " + names.Task
	case s.Config.Load().GitHub.IssueAuthors == config.AuthorsTrusted && !i.Trusted:
		return fmt.Sprintf("%s was written by %s, a user not listed in github.trusted_authors (see "+
			"github.issue_authors)",
			i.Key, i.Author)
	}
	return ""
}
