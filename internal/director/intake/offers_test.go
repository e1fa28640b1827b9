package intake

import (
	"slices"
	"testing"

	"retake/internal/github"
)

// Those for which there was no lookup left are the first of the next poll, so that what is looked up again and
// again does not keep the others waiting.
func TestWhoHasWaitedIsLookedUpFirst(t *testing.T) {
	t.Parallel()
	l := lookups{waited: map[string]bool{"c": true, "d": true}}
	issues := []github.Issue{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}}
	slices.SortStableFunc(issues, l.first)
	if got := issues[0].Key + issues[1].Key + issues[2].Key + issues[3].Key; got != "cdab" {
		t.Errorf("the order is %s, want cdab", got)
	}
}
