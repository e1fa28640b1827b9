package demo

import (
	"fmt"
	"strings"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// duplicateComments finds comments by the director with the same marker, including comments that the director
// deleted.
func duplicateComments(issues []githubtest.Issue, events []githubtest.Event) (wrong []string) {
	for _, i := range issues {
		markers := map[string]bool{}
		for _, c := range i.Comments {
			if c.Author != testbed.Bot {
				continue
			}
			marker := testbed.Marker(c)
			if markers[marker] {
				wrong = append(wrong, i.Key+": "+marker)
			}
			markers[marker] = true
		}
		written := 0
		for _, e := range events {
			if e.Issue == i.Key && e.Actor == testbed.Bot && e.Event == "commented" {
				written++
			}
		}
		if written > len(markers) {
			wrong = append(wrong, fmt.Sprintf("%s: %d comments were written, but only %d are distinct", i.Key, written,
				len(markers)))
		}
	}
	return wrong
}

// duplicateLabels finds label changes that the director made more than once in a round. A new round begins when a
// human answers or merges, or when another attempt follows a failed check. failures returns the commits of a branch
// that failed the check.
func duplicateLabels(issues []githubtest.Issue, events []githubtest.Event,
	failures func(branch string) []string,
) (wrong []string) {
	pulls, own := issueOfPull(issues), ownAnswers(issues)
	mends := map[string]int{} // by issue: number of further attempts that may repair a failure
	for _, i := range issues {
		if of, ok := pulls[i.Key]; ok {
			mends[of] += len(failures(i.Head))
		}
	}
	seen, round, delivered := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, e := range events {
		switch {
		case e.Event == "commented" && (e.Actor == testbed.Person || own[e.Detail]):
			round[e.Issue]++
		case e.Event == "merged":
			round[pulls[e.Issue]]++
		case delivered[e.Issue] && mends[e.Issue] > 0 && (e.Event == "unlabeled" && e.Detail == testbed.LabelReview ||
			e.Event == "labeled" && e.Detail == testbed.LabelClaimed):
			mends[e.Issue]--
			round[e.Issue]++
			delivered[e.Issue] = false
		}
		if e.Actor != testbed.Bot || e.Event != "labeled" && e.Event != "unlabeled" {
			continue
		}
		if e.Event == "labeled" && e.Detail == testbed.LabelReview {
			delivered[e.Issue] = true
		}
		what := fmt.Sprintf("%s: %s %s", e.Issue, e.Event, e.Detail)
		if n := round[e.Issue]; n > 0 {
			what += fmt.Sprintf(" in round %d", n+1)
		}
		if seen[what]++; seen[what] == 2 {
			wrong = append(wrong, what)
		}
	}
	return wrong
}

// ownAnswers returns the ids of the comments that a human wrote with the director's account. The director's own
// comments carry a marker, but these do not.
func ownAnswers(issues []githubtest.Issue) map[string]bool {
	ids := map[string]bool{}
	for _, i := range issues {
		for _, c := range i.Comments {
			if c.Author == testbed.Bot && !strings.HasPrefix(c.Body, "<!-- retake:") {
				ids[fmt.Sprint(c.ID)] = true
			}
		}
	}
	return ids
}

// duplicateContainers finds attempts whose container started twice, and issues with two containers at the same time.
// A container that was created but never started may be created again.
func duplicateContainers(all []testbed.Event) []string {
	var wrong []string
	started := map[string]int{}
	running := map[string]string{} // running attempt of each task
	for _, x := range all {
		switch x.Action {
		case "start":
			if started[x.Attempt]++; started[x.Attempt] == 2 {
				wrong = append(wrong, fmt.Sprintf("%s: the container of attempt %s was started twice", x.Task,
					x.Attempt))
			}
			if other := running[x.Task]; other != "" && other != x.Attempt {
				wrong = append(wrong, fmt.Sprintf("%s: attempts %s and %s ran at the same time", x.Task, other,
					x.Attempt))
			}
			running[x.Task] = x.Attempt
		case "die":
			if running[x.Task] == x.Attempt {
				delete(running, x.Task)
			}
		}
	}
	return wrong
}
