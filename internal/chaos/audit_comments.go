package chaos

import (
	"fmt"
	"strconv"
	"strings"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// auditComments finds markers that occur in more than one of the director's comments, and comments that the director
// deleted. Comments of abandoned claims are exempt.
func (w auditor) auditComments(t *table, all []githubtest.Issue, events []githubtest.Event) {
	for _, i := range all {
		markers, present, written := map[string]bool{}, 0, 0
		for _, c := range i.Comments {
			if c.Author == testbed.Bot {
				markers[testbed.Marker(c)] = true
				present++
			}
		}
		deleted := 0 // comments that people deleted
		for _, e := range events {
			if e.Issue == i.Key && e.Actor == testbed.Bot && e.Event == "commented" {
				written++
			}
			if e.Issue == i.Key && e.Actor != testbed.Bot && e.Event == "comment_deleted" {
				deleted++
			}
		}
		given := w.givenUp(i, events)
		t.more("claims abandoned", given)
		t.more("comments expected", len(markers))
		t.more("comments present", present)
		if n := max(present, written-deleted-given) - len(markers); n > 0 {
			t.bad("comments extra", fmt.Sprintf("%s: %d written, %d different", i.Key, written, len(markers)))
		}
	}
}

// givenUp counts the claims that the director abandoned because a person closed the issue or removed a label during the
// claim. The director deletes the comment of such a claim. Each action by a person excuses one deleted comment.
func (w auditor) givenUp(i githubtest.Issue, events []githubtest.Event) (n int) {
	gone, times := map[string]githubtest.Comment{}, map[string]int{}
	for _, c := range w.github.Deleted(i.Key) {
		gone[strconv.FormatInt(c.ID, 10)] = c
		times[testbed.Marker(c)]++
	}
	for _, c := range i.Comments {
		times[testbed.Marker(c)]++
	}
	acted := false
	for _, e := range events {
		switch c := gone[e.Detail]; {
		case e.Issue != i.Key:
		case e.Actor != testbed.Bot && (e.Event == "closed" || e.Event == "unlabeled"):
			acted = true
		case acted && e.Actor == testbed.Bot && e.Event == "comment_deleted" && c.Author == testbed.Bot &&
			strings.HasPrefix(c.Body, testbed.MarkClaim) && times[testbed.Marker(c)] == 1:
			n, acted = n+1, false
		}
	}
	return n
}
