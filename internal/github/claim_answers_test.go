package github

import (
	"testing"
)

// TestClaimOfAnAnsweredQuestion: a claim follows as many answers as it says. A director that was replaced, and
// repeats its claim late, must not take away the question that its successor has asked since.
func TestClaimOfAnAnsweredQuestion(t *testing.T) {
	for name, tc := range map[string]struct {
		block   string // of the latest question
		answers int    // that the claim follows
		want    Outcome
	}{
		"the answer to the first question":              {testNonce + "-1", 1, Won},
		"no answer to the first question":               {testNonce + "-1", 0, NotEligible},
		"the second question, its answer":               {testNonce + "-1.1", 2, Won},
		"the second question, the answer to the first":  {testNonce + "-1.1", 1, NotEligible},
		"a question of a later attempt, an old answer":  {testNonce + "-7.12", 3, NotEligible},
		"a question of a later attempt, a newer answer": {testNonce + "-7.12", 13, Won},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t, ctx, c := w.T, w.Context(), w.client("retake-bot")
				w.claimed(c)
				w.must(c.Escalate(ctx, Escalation{
					Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-1",
					Block: tc.block, Reason: "needs_human",
				}))
				before := len(w.changes())
				req := claimRequest(w, testNonce)
				req.Unblock, req.Answers = true, tc.answers
				got, err := w.client("retake-bot").Claim(ctx, req)
				w.must(err)
				if got.Outcome != tc.want {
					t.Errorf("claim = %+v, want %s", got, tc.want)
				}
				if tc.want == Won {
					w.wantLabels("agent-claimed")
					return
				}
				w.wantLabels("agent-blocked")
				if n := len(w.changes()) - before; n > 0 || got.Why == "" {
					t.Errorf("%d writes, why %q", n, got.Why)
				}
				if len(w.marked(markClaim)) != 1 {
					t.Error("the claim comment is gone")
				}
			})
		})
	}
}

// TestClaimTakesItsOwnIssueBackFromReview: nobody else may, and not without being told to.
func TestClaimTakesItsOwnIssueBackFromReview(t *testing.T) {
	inWorld(t, func(w *world) {
		t, ctx, c := w.T, w.Context(), w.client("retake-bot")
		w.claimed(c)
		_, err := c.Deliver(ctx, DeliverRequest{
			Key: w.key, Nonce: testNonce, Branch: "retake/1-a1", Base: "main",
			PullRequest: true, Watch: true,
		})
		w.must(err)
		w.wantLabels("agent-review")
		if got, err := c.Claim(ctx, claimRequest(w, testNonce)); err != nil || got.Outcome != NotEligible {
			t.Errorf("claim of what is in review = %+v, %v", got, err)
		}
		other := claimRequest(w, "aaaabbbb")
		other.Unblock = true
		if got, err := w.client("other-bot").Claim(ctx, other); err != nil || got.Outcome != Lost {
			t.Errorf("somebody else's claim = %+v, %v", got, err)
		}
		w.wantLabels("agent-review")
		own := claimRequest(w, testNonce)
		own.Unblock = true
		got, err := w.client("retake-bot").Claim(ctx, own)
		w.must(err)
		if got.Outcome != Won || len(w.marked(markClaim)) != 1 {
			t.Errorf("claim = %+v, comments %d", got, len(w.marked(markClaim)))
		}
		w.wantLabels("agent-claimed")
	})
}
