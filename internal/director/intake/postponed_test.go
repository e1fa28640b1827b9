package intake

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/github/tracker"
)

func TestRefusedIssueIsHeldUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPostponed(PostponedFor, nil)
		issue := tracker.Issue{Key: "acme/widgets#1", UpdatedAt: time.Unix(100, 0)}
		p.Note(issue.Key)
		for range 2 {
			if !p.Hold(issue) {
				t.Error("not held after a refusal")
			}
		}
		changed := issue
		changed.UpdatedAt = time.Unix(101, 0)
		if p.Hold(changed) {
			t.Error("held although the issue has changed")
		}
		p.Note(issue.Key)
		time.Sleep(PostponedFor + time.Second)
		if p.Hold(issue) {
			t.Error("held forever")
		}
	})
}

// TestPostponedForgetsNothingWhenFull checks that a full Postponed keeps its issues when another one comes, and does
// not hold that one itself. It uses the room that expired postponements leave.
func TestPostponedForgetsNothingWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPostponed(PostponedFor, nil)
		issue := func(repo string, n int) tracker.Issue {
			return tracker.Issue{Key: fmt.Sprintf("acme/%s#%d", repo, n), UpdatedAt: time.Unix(100, 0)}
		}
		held := func(repo string, from, to int) (n int) {
			for i := from; i <= to; i++ {
				if p.Hold(issue(repo, i)) {
					n++
				}
			}
			return n
		}
		for n := range maxPostponed {
			p.Note(issue("widgets", n+1).Key)
		}
		time.Sleep(PostponedFor / 2)
		p.Note(issue("gadgets", 1).Key)
		if n := held("widgets", 1, maxPostponed); n != maxPostponed {
			t.Errorf("%d of %d are held after one more was added", n, maxPostponed)
		}
		if n := held("gadgets", 1, 1); n != 1 {
			t.Error("the issue without room is offered")
		}
		if n := held("others", 1, 1); n != 0 {
			t.Error("a repository in which nothing was postponed is held")
		}
		if len(p.last) > maxPostponed {
			t.Errorf("%d issues are remembered, want at most %d", len(p.last), maxPostponed)
		}
		time.Sleep(PostponedFor/2 + time.Second)
		p.Note(issue("widgets", maxPostponed+1).Key) // the oldest one has expired
		if n := held("widgets", maxPostponed+1, maxPostponed+1); n != 1 || len(p.last) > maxPostponed {
			t.Errorf("%d held, %d remembered", n, len(p.last))
		}
		if !p.Lapsed("acme/widgets") || p.Lapsed("acme/widgets") {
			t.Error("the poll does not list the issues before its cursor again")
		}
		if held("gadgets", 1, 1) != 1 || p.Lapsed("acme/gadgets") {
			t.Error("the issue without room is offered early")
		}
		time.Sleep(PostponedFor / 2)
		if !p.Lapsed("acme/gadgets") || held("gadgets", 1, 1) != 0 {
			t.Error("the issue is held forever")
		}
	})
}
