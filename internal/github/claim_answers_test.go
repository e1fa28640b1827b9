package github

import (
	"testing"

	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/deliver"
	"retake/internal/github/tracker"
)

// TestClaimOfAnAnsweredQuestion checks that a claim does not remove a question that is newer than its number of
// answers. Otherwise a director that repeats its claim late could remove the question of the director that took over.
func TestClaimOfAnAnsweredQuestion(t *testing.T) {
	for name, tc := range map[string]struct {
		block   string // Escalation.Block of the latest question
		answers int    // Request.Answers of the claim
		want    claims.Outcome
	}{
		"the answer to the first question":              {testNonce + "-1", 1, claims.Won},
		"no answer to the first question":               {testNonce + "-1", 0, claims.NotEligible},
		"the second question, its answer":               {testNonce + "-1.1", 2, claims.Won},
		"the second question, the answer to the first":  {testNonce + "-1.1", 1, claims.NotEligible},
		"a question of a later attempt, an old answer":  {testNonce + "-7.12", 3, claims.NotEligible},
		"a question of a later attempt, a newer answer": {testNonce + "-7.12", 13, claims.Won},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t, ctx, c := w.T, w.Context(), w.client("retake-bot")
				w.claimed(c)
				w.must(c.People.Escalate(ctx, ask.Escalation{
					Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-1",
					Block: tc.block, Reason: "needs_human",
				}))
				before := len(w.changes())
				req := claimRequest(w, testNonce)
				req.Unblock, req.Answers = true, tc.answers
				got, err := w.client("retake-bot").Claims.Claim(ctx, req)
				w.must(err)
				if got.Outcome != tc.want {
					t.Errorf("claim = %+v, want %s", got, tc.want)
				}
				if tc.want == claims.Won {
					w.wantLabels("agent-claimed")
					return
				}
				w.wantLabels("agent-blocked")
				if n := len(w.changes()) - before; n > 0 || got.Why == "" {
					t.Errorf("%d writes, why %q", n, got.Why)
				}
				if len(w.marked(tracker.MarkClaim)) != 1 {
					t.Error("the claim comment is gone")
				}
			})
		})
	}
}

// TestClaimTakesItsOwnIssueBackFromReview checks that a claim can take an issue back from review only if it holds the
// issue, and only with Unblock.
func TestClaimTakesItsOwnIssueBackFromReview(t *testing.T) {
	inWorld(t, func(w *world) {
		t, ctx, c := w.T, w.Context(), w.client("retake-bot")
		w.claimed(c)
		_, err := c.Deliveries.Deliver(ctx, deliver.Request{
			Key: w.key, Nonce: testNonce, Branch: "retake/1-a1", Base: "main",
			PullRequest: true, Watch: true,
		})
		w.must(err)
		w.wantLabels("agent-review")
		if got, err := c.Claims.Claim(ctx, claimRequest(w, testNonce)); err != nil ||
			got.Outcome != claims.NotEligible {
			t.Errorf("claim of work in review = %+v, %v", got, err)
		}
		other := claimRequest(w, "aaaabbbb")
		other.Unblock = true
		if got, err := w.client("other-bot").Claims.Claim(ctx, other); err != nil || got.Outcome != claims.Lost {
			t.Errorf("claim of another account = %+v, %v", got, err)
		}
		w.wantLabels("agent-review")
		own := claimRequest(w, testNonce)
		own.Unblock = true
		got, err := w.client("retake-bot").Claims.Claim(ctx, own)
		w.must(err)
		if got.Outcome != claims.Won || len(w.marked(tracker.MarkClaim)) != 1 {
			t.Errorf("claim = %+v, comments %d", got, len(w.marked(tracker.MarkClaim)))
		}
		w.wantLabels("agent-claimed")
	})
}
