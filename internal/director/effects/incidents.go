package effects

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/ask"
	"retake/internal/recovery"
)

// incidentRest is the minimum pause between two updates of an incident's issue. Without it, each canary and each
// waiting task would cost a request.
const incidentRest = time.Minute

// shownIncident is the content of the issue about an outage.
type shownIncident struct {
	issue   fsm.IssueKey // empty until the issue exists
	problem string       // the problems of a contract, or empty
	text    ask.IncidentIssue
}

// same reports whether i and j give the same issue text.
func (i shownIncident) same(j shownIncident) bool {
	return i.text.Open == j.text.Open && i.text.Title == j.text.Title && i.problem == j.problem &&
		slices.Equal(i.text.Waiting, j.text.Waiting)
}

// Incidents maintains one issue for each outage that holds tasks back.
type Incidents struct {
	Owner      *loop.Owner
	GitHub     *github.Client
	Setup      func() *inforce.Setup
	Repository string // receives the issues about outages that do not concern a single repository
	Log        *zap.Logger
}

// Run updates the issues until ctx is done. Each round compares all issues with the machine's current state, and so
// retries the requests that failed in the previous round.
func (s *Incidents) Run(ctx context.Context) error {
	shown := map[string]shownIncident{} // by key: the text that this process wrote last
	for {
		select {
		case <-time.After(min(incidentRest, max(s.Setup().GitHub.Poll, time.Second))):
		case <-ctx.Done():
			return nil
		}
		if !s.Setup().Escalation.IncidentIssues || !s.Setup().GitHub.Writes {
			continue
		}
		now, err := loop.Look(ctx, s.Owner,
			func(d *fsm.Driver) map[string]shownIncident { return s.incidentsToShow(d.Machine()) })
		if err != nil && ctx.Err() == nil {
			return err
		}
		maps.DeleteFunc(shown, func(key string, _ shownIncident) bool { _, known := now[key]; return !known })
		for _, key := range slices.Sorted(maps.Keys(now)) {
			if before, ok := shown[key]; ok && before.same(now[key]) {
				continue
			}
			issue, err := s.GitHub.People.EnsureIncident(ctx, now[key].text)
			if err != nil {
				if ctx.Err() == nil {
					s.Log.Warn("could not update the incident issue", zap.String("incident", key), zap.Error(err))
				}
				continue // the next round retries
			}
			shown[key] = now[key]
			if !now[key].text.Open {
				issue = ""
			}
			s.Owner.Send(ctx, fsm.IncidentShown{Key: key, Issue: fsm.IssueKey(issue)}, nil)
		}
	}
}

// incidentsToShow returns the outages that hold tasks back, and past outages that still have an open issue.
func (s *Incidents) incidentsToShow(m *fsm.Machine) map[string]shownIncident {
	out := map[string]shownIncident{}
	for _, i := range m.AllIncidents() {
		open := i.Breaker.KeepsBack(m.Now())
		if !open && i.Issue == "" {
			continue
		}
		about, _ := recovery.Describe(i.Reason)
		text := ask.IncidentIssue{
			Repo: cmp.Or(i.Repo, s.Repository), Key: i.Key, Issue: string(i.Issue),
			Title: fmt.Sprintf("Retake is waiting: %s (%s)", about.Title(), resourceOf(i.Key)),
			Open:  open, Since: i.Breaker.Since, Body: i.Cause, Check: []string{about.Ask()},
		}
		if !open {
			text.Until = m.Now()
		}
		for _, t := range m.Tasks() {
			held := i.Breaker.Held && (i.Repo == "" || strings.EqualFold(i.Repo, t.Key.Repo()))
			if t.State == fsm.Backoff && t.Incident == i.Key ||
				held && (t.State == fsm.Backoff || t.State == fsm.Queued) {
				text.Waiting = append(text.Waiting, string(t.Key))
			}
		}
		problem := ""
		switch {
		case i.OfContract():
			problem = i.Cause
			text.Title = "Retake is waiting: this repository's contract has problems"
			text.Check = []string{fsm.MendContract}
			text.Does = "Retake does not claim issues or start attempts in this repository until the contract is valid."
		case i.Breaker.Held:
			if len(text.Waiting) == 0 && i.Issue == "" {
				continue // an outage that delays no task appears only in the director's health
			}
			text.Title = "Retake is waiting: a program that its stages run is missing"
			text.Check = []string{fsm.SupplyPrograms}
			text.Does = "Retake does not claim issues or start attempts until it finds the program."
		}
		out[i.Key] = shownIncident{i.Issue, problem, text}
	}
	return out
}

// resourceOf returns the resource named in an incident's key.
func resourceOf(key string) string {
	resource, _, _ := strings.Cut(key, "/")
	return resource
}
