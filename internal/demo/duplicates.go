package demo

import (
	"fmt"
	"regexp"
	"strings"

	"retake/internal/github/githubtest"
)

// duplicateComments looks for comments of the director's with the same marker, and for ones that it has deleted again.
func duplicateComments(issues []githubtest.Issue, events []githubtest.Event) (wrong []string) {
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

// runOf is the director's run in a marker: that two runs write the same is the failure that is looked for.
var runOf = regexp.MustCompile(`"run":"[^"]*",?`)

// duplicateLabels looks for changes of a label that the director made more than once between two comments of a human: only an
// answer begins anew.
func duplicateLabels(events []githubtest.Event) (wrong []string) {
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

// duplicateContainers finds what must never be: an attempt's container that was created twice, or two of one issue that ran together.
func duplicateContainers(all []containerEvent) []string {
	var wrong []string
	created := map[string]int{}
	running := map[string]string{} // task → attempt
	for _, x := range all {
		switch x.action {
		case "create":
			if created[x.attempt]++; created[x.attempt] == 2 {
				wrong = append(wrong, fmt.Sprintf("%s: the container of attempt %s was created twice", x.task, x.attempt))
			}
		case "start":
			if other := running[x.task]; other != "" && other != x.attempt {
				wrong = append(wrong, fmt.Sprintf("%s: attempts %s and %s ran at the same time", x.task, other, x.attempt))
			}
			running[x.task] = x.attempt
		case "die":
			if running[x.task] == x.attempt {
				delete(running, x.task)
			}
		}
	}
	return wrong
}
