package director

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/failure"
	"retake/internal/director/intake"
	"retake/internal/director/loop"
	"retake/internal/director/serve"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/story"
)

// offerIssue adds the task label to an issue and shows the issue to the machine at once. Before that, it records
// the request and the requester in the journal.
func (s *session) offerIssue(ctx context.Context, key fsm.IssueKey, by, id string,
	again bool,
) (status int, problem string) {
	now, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) (o offering) {
		if t := d.Machine().Task(key); t != nil {
			o.state = t.State.String()
		}
		_, o.asked = d.Machine().Requested(id)
		return o
	})
	switch {
	case err != nil:
		return http.StatusServiceUnavailable, serve.TooBusy
	case now.asked && now.state != "": // a repetition
		return http.StatusOK, ""
	case !now.asked:
		if status, problem := s.mayOffer(ctx, key, now.state); problem != "" {
			return status, problem
		}
		if problem := s.doneBefore(ctx, key); problem != "" && !again {
			return http.StatusConflict, problem
		}
		asked := fsm.CommentView{Task: key, CommandRef: fsm.CommandRef{Request: id}, By: by, Command: fsm.CommandAdd}
		if _, decided := s.commands.Request(ctx, asked); !decided {
			return http.StatusServiceUnavailable, serve.NotWritten
		}
	}
	if err := s.github.Offer(ctx, string(key)); err != nil {
		return http.StatusBadGateway, "the label could not be put on: " + err.Error()
	}
	s.polls.Ring(key.Repo())
	return s.showOffered(ctx, key)
}

// showOffered shows the machine an issue that was just offered. The next poll adds whatever is still unknown.
func (s *session) showOffered(ctx context.Context, key fsm.IssueKey) (status int, problem string) {
	asked := s.owner.Clock.Now()
	i, err := s.github.Issue(ctx, string(key))
	if err == nil {
		left := intake.LookupsPerPoll
		var v fsm.IssueView
		if v, err = s.offers.View(ctx, i, &left); err == nil && len(v.Labels) == 0 {
			return http.StatusConflict, "the label is on, but the issue is left alone because of who wrote it and " +
				"who has put the label on: see github.issue_authors and github.trusted_authors"
		}
		if err == nil {
			s.owner.Decided(ctx, fsm.IssuesSeen{Repo: key.Repo(), AskedAt: asked, Issues: []fsm.IssueView{v}})
		}
	}
	if err != nil {
		s.log.Info("an issue was offered; the next poll sees it", zap.String("issue", string(key)), zap.Error(err))
	}
	return http.StatusOK, ""
}

// offering is what the machine knows of an issue that a person offers.
type offering struct {
	state string // state of the issue's task; empty without a task
	asked bool   // the same request was made before
}

// mayOffer returns why an issue cannot be offered, or "".
func (s *session) mayOffer(ctx context.Context, key fsm.IssueKey, state string) (status int, problem string) {
	if problem := s.cannotOffer(key, state); problem != "" {
		return http.StatusConflict, problem
	}
	i, err := s.github.Issue(ctx, string(key))
	if why, gone := failure.IssueGone(err); gone {
		return http.StatusNotFound, string(key) + ": " + why
	}
	if err != nil {
		return http.StatusBadGateway, "GitHub does not show " + string(key) + ": " + err.Error()
	}
	return http.StatusConflict, s.notToOffer(i)
}

// doneBefore returns a message if Retake's work on an issue was already accepted, so that it is not repeated by
// mistake. Otherwise it returns "".
func (s *session) doneBefore(ctx context.Context, key fsm.IssueKey) string {
	var told story.Story
	known := false
	err := s.stories.View(ctx, func(b *story.Book, now time.Time) { told, known = b.Story(key, now) })
	if err != nil || !known || told.State != fsm.Done.String() { // what the read model has forgotten happened long ago
		return ""
	}
	return fmt.Sprintf("the work on %s is done: %s. If something is still missing, say in a comment what, and offer "+
		"it once more with: director add %s --again", key, cmp.Or(told.Why, "it was handed in"), key)
}

// cannotOffer returns why the director can offer no issue, or not this one, or "".
func (s *session) cannotOffer(key fsm.IssueKey, state string) string {
	why, unusable := s.unusable.Load(key.Repo())
	switch {
	case !slices.Contains(s.config.GitHub.Repositories, key.Repo()):
		return key.Repo() + " is not among github.repositories (" + strings.Join(s.config.GitHub.Repositories, ", ") +
			"): add it there first"
	case !s.config.GitHub.Writes:
		return "github.writes is false: nothing is written to GitHub, labels included"
	case unusable:
		return fmt.Sprint(why)
	case state != "":
		return fmt.Sprintf("Retake works on %s already: it is %s", key, state)
	}
	return ""
}

// notToOffer returns why the issue's state on GitHub forbids an offer, or "".
func (s *session) notToOffer(i github.Issue) string {
	names := s.config.GitHub.Labels
	switch {
	case i.IsPullRequest:
		return i.Key + " is a pull request: Retake works on issues"
	case i.State != "open":
		return i.Key + " is closed: reopen it first"
	case i.Has(names.Claimed), i.Has(names.Blocked):
		return fmt.Sprintf("%s carries %q: another director may be at work on it", i.Key, strings.Join(i.Labels, ", "))
	case i.Has(names.Task):
		return i.Key + " is offered already: it carries " + names.Task
	case s.setup().GitHub.IssueAuthors == config.AuthorsTrusted && !i.Trusted:
		return fmt.Sprintf("%s was written by %s, who is not among github.trusted_authors (github.issue_authors)",
			i.Key, i.Author)
	}
	return ""
}
