package director

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
)

// incidentRest is the minimum pause between two updates of an incident's issue, so that each additional canary or
// waiting task does not cost a request.
const incidentRest = time.Minute

// shownIncident is an outage as shown on its issue.
type shownIncident struct {
	issue fsm.IssueKey // empty before the issue exists
	text  github.IncidentIssue
}

// same reports whether both texts look the same to people.
func (i shownIncident) same(j shownIncident) bool {
	return i.text.Open == j.text.Open && i.text.Title == j.text.Title && slices.Equal(i.text.Waiting, j.text.Waiting)
}

// showIncidents maintains one issue for each outage that holds tasks back, until ctx ends. It compares with the
// machine's current state each time, so a failed request loses nothing.
func (s *session) showIncidents(ctx context.Context) error {
	if !s.config.GitHub.Writes {
		return nil
	}
	shown := map[string]shownIncident{} // by key, as last written by this process
	for {
		select {
		case <-time.After(min(incidentRest, max(s.setup().GitHub.Poll, time.Second))):
		case <-ctx.Done():
			return nil
		}
		if !s.setup().Escalation.IncidentIssues {
			continue
		}
		now, err := loop.Look(ctx, s.owner,
			func(d *fsm.Driver) map[string]shownIncident { return s.incidentsToShow(d.Machine()) })
		if err != nil && ctx.Err() == nil {
			return err
		}
		maps.DeleteFunc(shown, func(key string, _ shownIncident) bool { _, known := now[key]; return !known })
		for _, key := range sortedKeys(now) {
			if before, ok := shown[key]; ok && before.same(now[key]) {
				continue
			}
			issue, err := s.github.EnsureIncident(ctx, now[key].text)
			if err != nil {
				if ctx.Err() == nil {
					s.log.Warn("incident not shown", zap.String("incident", key), zap.Error(err))
				}
				continue // the next round tries again
			}
			shown[key] = now[key]
			if !now[key].text.Open {
				issue = ""
			}
			s.owner.Send(ctx, fsm.IncidentShown{Key: key, Issue: fsm.IssueKey(issue)}, nil)
		}
	}
}

// incidentsToShow returns the outages that hold tasks back, and those that are over but still have an open issue.
func (s *session) incidentsToShow(m *fsm.Machine) map[string]shownIncident {
	out := map[string]shownIncident{}
	for _, i := range m.AllIncidents() {
		open := i.Breaker.KeepsBack(m.Now())
		if !open && i.Issue == "" {
			continue
		}
		about, _ := recovery.Describe(i.Reason)
		repo := i.Repo
		if repo == "" {
			repo = s.config.GitHub.Repositories[0]
		}
		text := github.IncidentIssue{
			Repo: repo, Key: i.Key, Issue: string(i.Issue), Title: fmt.Sprintf("Retake waits: %s (%s)", about.Title(),
				resourceOf(i.Key)), Open: open, Since: i.Breaker.Since,
			Body: i.Cause, Check: []string{about.Ask()},
		}
		if !open {
			text.Until = m.Now()
		}
		for _, t := range m.Tasks() {
			if t.Incident == i.Key && t.State == fsm.Backoff {
				text.Waiting = append(text.Waiting, string(t.Key))
			}
		}
		out[i.Key] = shownIncident{i.Issue, text}
	}
	return out
}

// resourceOf returns the resource in an incident's key.
func resourceOf(key string) string {
	resource, _, _ := strings.Cut(key, "/")
	return resource
}
