package intake

import (
	"context"
	"slices"
	"sync"
	"testing"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/github/tracker"
)

// TestWhoHasWaitedIsLookedUpFirst checks that issues without a lookup come first in the next poll, so that no issue
// starves.
func TestWhoHasWaitedIsLookedUpFirst(t *testing.T) {
	t.Parallel()
	l := lookups{waited: map[string]bool{"c": true, "d": true}}
	issues := []tracker.Issue{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}}
	slices.SortStableFunc(issues, l.first)
	if got := issues[0].Key + issues[1].Key + issues[2].Key + issues[3].Key; got != "cdab" {
		t.Errorf("the order is %s, want cdab", got)
	}
}

// strangersOffers rejects every offer, and counts the comments that explain this.
type strangersOffers struct {
	offerClient
	explained int
}

func (*strangersOffers) OfferedByUntrusted(context.Context, tracker.Issue) (string, error) {
	return "mallory offered it", nil
}

func (s *strangersOffers) Disapprove(context.Context, string, string) error {
	s.explained++
	return nil
}

// TestIgnoredIssueIsReportedWhileItIsOpen checks that an ignored issue, which each poll lists, is reported once. The
// director forgets it when it closes, because untrusted authors may open many issues.
func TestIgnoredIssueIsReportedWhileItIsOpen(t *testing.T) {
	in, err := inforce.New(config.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var current inforce.Current
	current.Store(in)
	gh := &strangersOffers{}
	o := Offers{GitHub: gh, Config: &current, Unusable: &sync.Map{}, Log: zap.NewNop()}
	issue := tracker.Issue{Key: "acme/widgets#1", State: "open", Labels: []string{in.GitHub.Labels.Task}}
	left := LookupsPerPoll
	for _, state := range []string{"open", "open", "closed"} {
		issue.State = state
		if _, err := o.View(t.Context(), issue, &left); err != nil {
			t.Fatal(err)
		}
	}
	o.said.Range(func(key, _ any) bool { t.Errorf("%v is remembered, although it is closed", key); return true })
	if gh.explained != 1 {
		t.Errorf("explained %d times, want once", gh.explained)
	}
}
