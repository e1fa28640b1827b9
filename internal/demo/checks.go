package demo

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"retake/internal/github/githubtest"
)

// attemptOne is the line that the scripted agent leaves in what it begins in the first attempt.
var attemptOne = regexp.MustCompile(`(?m)^// Begun in attempt [a-z2-7]{8}-1\.$`)

// check is something that must hold over the whole run.
type check struct {
	what  string
	wrong []string
}

// checks are made of everything that the stand-in and the engine have recorded.
func (s *site) checks(ctx context.Context, all []life, gap error) []check {
	engine := check{"every attempt has one container, and an issue never two that run", twins(all)}
	if gap != nil {
		engine.wrong = append(engine.wrong, gap.Error())
	}
	gone := check{what: "the director has removed every container of its attempts"}
	if left, err := s.host.workers(ctx); err != nil || len(left) > 0 {
		gone.wrong = []string{fmt.Sprintf("%v (%v)", left, err)}
	}
	return []check{
		{"no comment was written twice", twiceSaid(s.hub.Issues(repository), s.hub.Events(""))},
		{"no label was put on or taken off twice", twiceLabelled(s.hub.Events(""))},
		{"issues without the label were left alone", touched(s.hub.Events(""))},
		{"no request to GitHub while it asked for a pause", impatient(s.hub.Requests())},
		engine, gone,
	}
}

// twiceSaid looks for comments of the director's with the same marker, and for ones that it has deleted again.
func twiceSaid(issues []githubtest.Issue, events []githubtest.Event) (wrong []string) {
	for _, i := range issues {
		markers := map[string]bool{}
		for _, c := range i.Comments {
			if c.Author != bot {
				continue
			}
			marker, _, _ := strings.Cut(c.Body, "\n")
			if marker = runOf.ReplaceAllString(marker, ""); markers[marker] {
				wrong = append(wrong, i.Key+": "+marker)
			}
			markers[marker] = true
		}
		written := 0
		for _, e := range events {
			if e.Issue == i.Key && e.Actor == bot && e.Event == "commented" {
				written++
			}
		}
		if written > len(markers) {
			wrong = append(wrong, fmt.Sprintf("%s: %d comments were written, %d are different", i.Key, written, len(markers)))
		}
	}
	return wrong
}

// runOf is the director's run in a marker: two runs that say the same are the failure that is looked for.
var runOf = regexp.MustCompile(`"run":"[^"]*",?`)

// twiceLabelled looks for changes of a label that the director made more than once between two comments of a human: only an
// answer begins anew.
func twiceLabelled(events []githubtest.Event) (wrong []string) {
	seen, answers := map[string]int{}, map[string]int{}
	for _, e := range events {
		if e.Actor == person && e.Event == "commented" {
			answers[e.Issue]++
		}
		if e.Actor != bot || e.Event != "labeled" && e.Event != "unlabeled" {
			continue
		}
		what := fmt.Sprintf("%s: %s %s", e.Issue, e.Event, e.Detail)
		if n := answers[e.Issue]; n > 0 {
			what += fmt.Sprintf(" after answer %d", n)
		}
		if seen[what]++; seen[what] == 2 {
			wrong = append(wrong, what)
		}
	}
	return wrong
}

// touched looks for traces of the director on issues that are no work for it.
func touched(events []githubtest.Event) (wrong []string) {
	work := map[string]bool{}
	for _, e := range events {
		if e.Event == "labeled" && e.Detail == labelTask {
			work[e.Issue] = true
		}
	}
	for _, e := range events {
		if what := e.Issue + ": " + e.Event; e.Actor == bot && !work[e.Issue] && !slices.Contains(wrong, what) {
			wrong = append(wrong, what)
		}
	}
	return wrong
}
