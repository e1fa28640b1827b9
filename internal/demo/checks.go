package demo

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// attemptOne matches the line with which the scripted agent marks its unfinished work in the first attempt.
var attemptOne = regexp.MustCompile(`(?m)^// Started in attempt [a-z2-7]{8}-1\.$`)

// check is a property that must hold for the whole run, with the violations found.
type check struct {
	what  string
	wrong []string
}

// checks verifies the properties of the whole run, from the records of the GitHub stand-in and the container engine.
func (s *world) checks(ctx context.Context, all []testbed.Event, gap error, slowness float64) []check {
	engine := check{"every attempt has one container, and an issue never runs two at once", duplicateContainers(all)}
	if gap != nil {
		engine.wrong = append(engine.wrong, gap.Error())
	}
	gone := check{what: "the director has removed every container of its attempts"}
	if left, err := s.host.Workers(ctx); err != nil || len(left) > 0 {
		gone.wrong = []string{fmt.Sprintf("%v (%v)", left, err)}
	}
	issues, events := s.github.Issues(repository), s.github.Events("")
	pushed, err := testbed.Git(s.github.Bare, "log", "--all", "--patch", "--no-color")
	planted := check{
		"no branch, comment or text contains the key that an agent left in its patch",
		leakedKeys(issues, pushed),
	}
	if err != nil {
		planted.wrong = append(planted.wrong, err.Error())
	}
	return []check{
		{"no comment was written twice", duplicateComments(issues, events)},
		{"no label was added or removed twice", duplicateLabels(issues, events, s.lint.failures)},
		{"no issue has two pull requests", duplicatePulls(issues)},
		planted,
		{"issues without the label did not change", touchedOthers(issues, events)},
		{"no request was sent during a pause requested by GitHub", requestsWhileLimited(s.github.Requests(), slowness)},
		engine, gone,
	}
}

// touchedOthers finds changes by the director on issues without its label.
func touchedOthers(issues []githubtest.Issue, events []githubtest.Event) (wrong []string) {
	work := map[string]bool{}
	for pull := range issueOfPull(issues) { // their pull requests may change
		work[pull] = true
	}
	for _, e := range events {
		if e.Event == "labeled" && e.Detail == testbed.LabelTask {
			work[e.Issue] = true
		}
	}
	for _, e := range events {
		if what := e.Issue + ": " + e.Event; e.Actor == testbed.Bot && !work[e.Issue] && !slices.Contains(wrong, what) {
			wrong = append(wrong, what)
		}
	}
	return wrong
}
