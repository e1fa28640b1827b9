package fsm

import (
	"slices"
	"testing"
)

// While a claim is in progress, polls do not list all issues again. The cursor in the journal stays unchanged, so that
// another process would read the undecided view again.
func TestPollsContinueWhileAClaimIsUnderWay(t *testing.T) {
	const claimed, other = IssueKey("acme/widgets#1"), IssueKey("acme/widgets#2")
	s := newStandings(t, 1, nil)
	poll := func(second int, cursor string, views ...IssueView) (reads []IssueKey) {
		t.Helper()
		s.now = second
		for i := range views {
			views[i].UpdatedAt = at(second)
		}
		_, effects := s.m.Step(Event{At: at(second), Body: IssuesSeen{
			Repo: "acme/widgets", Cursor: cursor, AskedAt: at(second), Issues: views,
		}})
		for _, e := range effects {
			if e.Kind == DoReadIssue {
				reads = append(reads, e.Task)
			}
		}
		if got := s.m.ReadTo("acme/widgets"); cursor != "" && got != cursor {
			t.Fatalf("the poll after %s begins at %q", cursor, got)
		}
		return reads
	}
	poll(1, "c1", s.view(claimed, true, Standing{}), s.view(other, true, Standing{}))
	withdrawn := s.view(claimed, true, Standing{})
	withdrawn.Labels = nil // a person has taken the issue back during the claim
	poll(2, "c2", withdrawn)
	if reads := poll(3, "c3", s.view(other, true, Standing{})); len(reads) > 0 {
		t.Errorf("reads %v during the claim", reads)
	}
	if got := s.m.Cursor("acme/widgets"); got != "c1" {
		t.Errorf("the journal's cursor is %q, which may be after the undecided view", got)
	}
	data, err := s.m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	next := New(testConfig())
	if err := next.Restore(data); err != nil {
		t.Fatal(err)
	}
	if got := next.ReadTo("acme/widgets"); got != "c1" {
		t.Errorf("the next process begins at %q", got)
	}
	task := s.m.Task(claimed)
	mustStep(t, s.m, at(4), EffectEnded{
		Task: claimed, Effect: task.Outbox[0].Effect.ID, Claim: &ClaimResult{Ours: true},
	})
	if reads := poll(5, "c5"); !slices.Equal(reads, []IssueKey{claimed}) {
		t.Errorf("reads %v after the claim, want the issue of the claim", reads)
	}
	poll(6, "", withdrawn)
	if task.Ending.Outcome != OutcomeWithdrawn {
		t.Errorf("the withdrawn task is %s, with outcome %q", task.State, task.Ending.Outcome)
	}
	poll(7, "c7")
	if got := s.m.Cursor("acme/widgets"); got != "c7" {
		t.Errorf("the journal's cursor is %q after everything was decided", got)
	}
}
