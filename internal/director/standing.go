package director

import (
	"context"
	"slices"
	"strings"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/github"
)

// lookupsPerPoll bounds how much is looked up in one poll of what issues depend on: the rest follows with the next polls, and those issues wait.
const lookupsPerPoll = 200

// lookups are what is looked up in the polls of one repository.
type lookups struct {
	left   int             // in this poll
	waited map[string]bool // issues for which there were none left
}

// first orders issues: those go first that had to wait. There may never be enough lookups for all before what was looked up first is asked for again.
func (l *lookups) first(a, b github.Issue) int {
	switch {
	case l.waited[a.Key] == l.waited[b.Key]:
		return 0
	case l.waited[a.Key]:
		return -1
	}
	return 1
}

// offered is the view of an issue, with its turn if it asks for work. An issue that nobody with rights has offered does not seem to. What it depends on is
// looked up with the lookups that are left.
func (s *session) offered(ctx context.Context, i github.Issue, left *int) (fsm.IssueView, error) {
	v := s.view(i)
	v.Standing = s.labelStanding(i)
	names := s.config.GitHub.Labels
	if !v.Open || !i.Has(names.Task) || i.Has(names.Claimed) || i.Has(names.Blocked) {
		return v, nil
	}
	if _, unusable := s.unusable.Load(fsm.IssueKey(i.Key).Repo()); unusable {
		v.Labels = slices.DeleteFunc(v.Labels, func(l fsm.Label) bool { return l == fsm.LabelTask })
		return v, nil
	}
	untrusted, err := s.isUntrusted(ctx, i)
	if err != nil {
		return v, err
	}
	if untrusted {
		v.Labels = slices.DeleteFunc(v.Labels, func(l fsm.Label) bool { return l == fsm.LabelTask })
		if _, told := s.untrusted.LoadOrStore(i.Key, true); !told {
			why := "an issue is left alone that an untrusted author has written and labelled: somebody else with rights in the repository has to take the label off and put it on again (github.issue_authors)"
			if s.setup().GitHub.IssueAuthors == config.AuthorsTrusted {
				why = "an issue is left alone that an untrusted author has written (github.issue_authors, github.trusted_authors)"
			}
			s.log.Warn(why, zap.String("issue", i.Key), zap.String("by", i.Author))
		}
		return v, nil
	}
	keys, err := s.github.Blockers(ctx, i, left)
	for _, k := range keys {
		v.Standing.After = append(v.Standing.After, fsm.IssueKey(k))
	}
	return v, err
}

// isUntrusted reports whether an issue with the task label is not to be worked on because of who wrote it.
func (s *session) isUntrusted(ctx context.Context, i github.Issue) (bool, error) {
	if s.setup().GitHub.IssueAuthors == config.AuthorsTrusted {
		return !i.Trusted, nil
	}
	return s.github.OfferedByUntrusted(ctx, i)
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

// lowered has the names of labels in lower case, as GitHub compares them.
func lowered(labels map[string]int) map[string]int {
	out := make(map[string]int, len(labels))
	for name, n := range labels {
		out[strings.ToLower(name)] = n
	}
	return out
}
