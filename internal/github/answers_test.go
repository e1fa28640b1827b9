package github

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/command"
	"retake/internal/github/githubtest"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// blocked claims the issue and asks a question about it.
func (w *world) blocked(c *Client) {
	w.Helper()
	w.claimed(c)
	w.must(c.People.Escalate(w.Context(), ask.Escalation{
		Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-1", Reason: "needs_human", Stage: "CODE",
		Cause: "Which of the two formats?",
	}))
}

func TestWhoseAnswersCount(t *testing.T) {
	inWorld(t, func(w *world) {
		for login, permission := range map[string]string{
			"admin": "admin", "maintainer": "maintain", "writer": "write", "triager": "triage", "reader": "read",
			"helper[bot]": "write",
		} {
			w.sim.SetPermission(testRepo, login, permission)
		}
		c := w.client("retake-bot")
		w.sim.AddComment(w.key, "writer", "/agent retry before the question")
		time.Sleep(time.Second)
		w.blocked(c)
		forged := w.marked(tracker.MarkBlocked)[0].Body
		want := map[string]bool{
			"acme": true, "admin": true, "maintainer": true, "writer": true, "triager": false,
			"reader": false, "mallory": false, "retake-bot": true,
		}
		for login := range want {
			time.Sleep(time.Second)
			w.sim.AddComment(w.key, login, "/agent retry I am "+login)
		}
		w.sim.AddComment(w.key, "helper[bot]", "/agent retry")
		w.sim.AddComment(w.key, "retake-bot", w.marked(tracker.MarkClaim)[0].Body+"\n/agent retry")
		w.sim.AddComment(w.key, "retake-bot", "<!-- retake:news v2 {} -->\n/agent retry") // a marker of a later version
		w.sim.AddComment(w.key, "acme", "<!-- retake:news v2 {} -->\n/agent retry")
		w.sim.AddComment(w.key, "other-bot", strings.Replace(forged, `"fleet":"default"`, `"fleet":"night"`, 1)+
			"\n/agent retry")
		got, err := c.Inbox.Answers(w.Context(), w.key)
		w.must(err)
		if len(got) != len(want) {
			w.Errorf("%d answers, want %d", len(got), len(want))
		}
		for i, a := range got {
			if may, person := want[a.By]; !person || a.MayWrite != may || a.Command != command.Retry ||
				a.Rest != "I am "+a.By || a.Acknowledged {
				w.Errorf("answer %+v, want may write %v", a, may)
			}
			if i > 0 && a.At.Before(got[i-1].At) {
				w.Errorf("answer of %s comes before an older one", a.By)
			}
		}
	})
}

// TestAnswersSinceTheQuestion checks that answers exclude earlier comments and contain the current text of an edited
// comment.
func TestAnswersSinceTheQuestion(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		old := w.sim.AddComment(w.key, "acme", "/agent retry too early")
		if got, err := c.Inbox.Answers(w.Context(), w.key); err != nil || len(got) > 0 {
			w.Errorf("without a question: %+v, %v", got, err)
		}
		time.Sleep(time.Second)
		w.blocked(c)
		asked := time.Now()
		plainID := w.sim.AddComment(w.key, "acme", "Format B, I think.\r\n\r\nSure.") // in the second of the question
		time.Sleep(10 * time.Second)
		w.sim.EditComment(w.key, "acme", old, "/agent resume")
		got, err := c.Inbox.Answers(w.Context(), w.key)
		w.must(err)
		if len(got) != 2 || got[0].CommentID != plainID || got[0].Command != command.None ||
			got[0].Text != "Format B, I think.\n\nSure." ||
			got[1].CommentID != old || got[1].Command != command.Resume ||
			!got[1].At.Equal(asked.Add(10*time.Second).Truncate(time.Second)) {
			w.Errorf("%+v", got)
		}
		// Our acknowledgement turns this text into a plain comment. An edited text is a command until we acknowledge
		// it.
		acknowledged := func(want bool) {
			w.Helper()
			got, err = c.Inbox.Answers(w.Context(), w.key)
			if w.must(err); len(got) != 2 || got[1].CommentID != old || got[1].Acknowledged != want ||
				got[0].Acknowledged {
				w.Errorf("want acknowledged: %v, answers %+v", want, got)
			}
		}
		for _, text := range []string{"/agent retry once more", "/agent resume", "/agent resume"} {
			acknowledged(false)
			w.must(c.People.React(w.Context(), w.key, old, tracker.ReactionUnderstood))
			acknowledged(true)
			time.Sleep(time.Minute)
			w.sim.EditComment(w.key, "acme", old, text)
		}
		w.must(c.People.React(w.Context(), w.key, old, tracker.ReactionUnderstood))
		if n := len(w.sim.Issue(w.key).Comments[0].Reactions); n != 1 {
			w.Errorf("%d reactions, want the newest only", n)
		}
		// The thumbs-up of a person does not acknowledge a command.
		other := w.sim.AddComment(w.key, "acme", "/agent retry again")
		w.must(w.client("mallory").People.React(w.Context(), w.key, other, tracker.ReactionUnderstood))
		got, err = c.Inbox.Answers(w.Context(), w.key)
		w.must(err)
		if len(got) != 3 || got[2].CommentID != other || got[2].Acknowledged {
			w.Errorf("after a person's reaction: %+v", got)
		}
	})
}

func TestPermissionsAreRememberedForMinutes(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.blocked(c)
		w.sim.SetPermission(testRepo, "writer", "write")
		w.sim.AddComment(w.key, "writer", "/agent retry")
		w.sim.AddComment(w.key, "mallory", "/agent retry")
		lookups := func() (n int) {
			for _, r := range w.sim.Requests() {
				if strings.Contains(r.Path, "/collaborators/") {
					n++
				}
			}
			return n
		}
		check := func(writer, mallory bool, asked int) {
			w.Helper()
			got, err := c.Inbox.Answers(w.Context(), w.key)
			w.must(err)
			if len(got) != 2 || got[0].MayWrite != writer || got[1].MayWrite != mallory || lookups() != asked {
				w.Errorf("answers %+v after %d lookups, want %v, %v after %d", got, lookups(), writer, mallory, asked)
			}
		}
		check(true, false, 2)
		w.sim.SetPermission(testRepo, "writer", "")
		w.sim.SetPermission(testRepo, "mallory", "write")
		check(true, false, 2)
		time.Sleep(time.Minute)
		check(true, true, 3)
		time.Sleep((5 * time.Minute) - time.Minute)
		check(false, true, 4)

		w.inject(githubtest.Fault{
			Path: "/collaborators/", Status: 403,
			Body: `{"message":"Must have push access to view collaborator permission."}`,
		})
		time.Sleep(time.Hour)
		if _, err := c.Inbox.Answers(w.Context(), w.key); api.KindOf(err) != api.KindPermanent ||
			!strings.Contains(err.Error(), "give it write access") {
			w.Errorf("error = %v, want permanent with the next step", err)
		}
		if _, err := c.Inbox.Answers(w.Context(), w.key); err != nil {
			w.Errorf("the refusal was remembered: %v", err)
		}
	})
}

// TestAFloodOfComments checks that a flood leaves hourly requests unused and does not hide the owner's answer.
func TestAFloodOfComments(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.blocked(c)
		for i := range 90 {
			w.sim.AddComment(w.key, fmt.Sprint("untrusted", i), "me too")
		}
		w.sim.AddComment(w.key, "acme", "/agent retry")
		before := len(w.sim.Requests())
		got, err := c.Inbox.Answers(w.Context(), w.key)
		w.must(err)
		if n := len(w.sim.Requests()) - before; n > 20+5 {
			w.Errorf("%d requests", n)
		}
		if last := got[len(got)-1]; last.By != "acme" || !last.MayWrite {
			w.Errorf("last answer = %+v", last)
		}
	})
}

func TestReactOnceAndChangeOnesMind(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		id := w.sim.AddComment(w.key, "acme", "/agent rety")
		reactions := func() []string { return w.sim.Issue(w.key).Comments[0].Reactions }
		updated := func() time.Time { i, err := c.Issues.Issue(w.Context(), w.key); w.must(err); return i.UpdatedAt }
		before := updated()
		time.Sleep(time.Minute)
		for _, step := range []struct {
			content string
			writes  int
		}{{tracker.ReactionConfused, 1}, {tracker.ReactionConfused, 0}, {
			tracker.ReactionUnderstood,
			2,
		}, {tracker.ReactionUnderstood, 0}, {"eyes", 1}} {
			n := len(w.changes())
			w.must(w.client("retake-bot").People.React(w.Context(), w.key, id, step.content))
			if got := len(w.changes()) - n; got != step.writes {
				w.Errorf("%s: %d writes, want %d", step.content, got, step.writes)
			}
		}
		if got := reactions(); !slices.Equal(got, []string{"retake-bot +1", "retake-bot eyes"}) {
			w.Errorf("reactions = %q", got)
		}
		if !updated().Equal(before) {
			w.Error("a reaction counts as a change to the issue")
		}
		// Interrupt React while it replaces our reaction, and then react to a deleted comment.
		w.must(w.client("mallory").People.React(w.Context(), w.key, id, tracker.ReactionConfused))
		for stop := range 4 {
			w.must(c.People.React(w.Context(), w.key, id, tracker.ReactionConfused))
			_ = w.client("retake-bot", dying(stop, true)).People.React(w.Context(), w.key, id,
				tracker.ReactionUnderstood)
			w.must(w.client("retake-bot").People.React(w.Context(), w.key, id, tracker.ReactionUnderstood))
			got := reactions()
			slices.Sort(got)
			if !slices.Equal(got, []string{"mallory confused", "retake-bot +1", "retake-bot eyes"}) {
				w.Errorf("stopped at request %d: %q", stop, got)
			}
		}
		w.must(c.People.React(w.Context(), w.key, 99, tracker.ReactionUnderstood))
	})
}

func TestWhoUnblocked(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		if _, ok, err := c.Inbox.Unblocked(w.Context(), w.key); ok || err != nil {
			w.Errorf("never blocked: %v, %v", ok, err)
		}
		w.blocked(c)
		if _, ok, err := c.Inbox.Unblocked(w.Context(), w.key); ok || err != nil {
			w.Errorf("blocked: %v, %v", ok, err)
		}
		w.sim.SetPermission(testRepo, "triager", "triage")
		w.sim.SetPermission(testRepo, "tidy[bot]", "write")
		for login, may := range map[string]bool{"acme": true, "triager": true, "tidy[bot]": false, "retake-bot": true} {
			w.sim.AddLabel(w.key, "acme", "agent-blocked")
			w.sim.RemoveLabel(w.key, login, "agent-blocked")
			at := time.Now().Truncate(time.Second)
			got, ok, err := c.Inbox.Unblocked(w.Context(), w.key)
			if w.must(err); !ok || got.By != login || got.Person != may || !got.At.Equal(at) {
				w.Errorf("%s: %+v, %v", login, got, ok)
			}
		}
	})
}

// TestACommandTakesTheBlockedLabelOff checks that a command unblocks only the claim that it addresses.
func TestACommandTakesTheBlockedLabelOff(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.blocked(c)
		other := claimRequest(w, "aaaabbbb")
		other.Unblock = true
		if got, err := c.Claims.Claim(w.Context(), other); err != nil || got.Outcome != claims.Lost {
			w.Errorf("another claim = %+v, %v", got, err)
		}
		w.wantLabels("agent-blocked")
		again := claimRequest(w, testNonce)
		again.Unblock, again.Answers = true, 1
		if got, err := c.Claims.Claim(w.Context(), again); err != nil || got.Outcome != claims.Won {
			w.Errorf("claim = %+v, %v", got, err)
		}
		w.wantLabels("agent-claimed")
		w.must(c.Claims.Release(w.Context(), claims.ReleaseRequest{Key: w.key, Nonce: testNonce}))
		w.sim.AddLabel(w.key, "acme", "agent-blocked")
		if got, err := c.Claims.Claim(w.Context(), again); err != nil || got.Outcome != claims.NotEligible {
			w.Errorf("a claim that has ended = %+v, %v", got, err)
		}
		w.wantLabels("agent-blocked")
	})
}

func TestStale(t *testing.T) {
	inWorld(t, func(w *world) {
		c, ctx := w.client("retake-bot"), w.Context()
		night := w.client("other-bot", func(o *Options) { o.Fleet = "night" })
		if _, _, ok, err := c.Claims.Stale(ctx, w.key); ok || err != nil {
			w.Errorf("unclaimed: %v, %v", ok, err)
		}
		got, err := night.Claims.Claim(ctx, claimRequest(w, "nightaaa"))
		w.must(err)
		if got.Outcome != claims.Won {
			w.Fatalf("claim = %+v", got)
		}
		time.Sleep(time.Hour)
		w.must(night.Claims.Progress(ctx, w.key, "nightaaa", pages.ProgressView{State: "Running", Attempt: 1}))
		edited := time.Now()
		time.Sleep(6 * time.Hour)
		h, last, ok, err := c.Claims.Stale(ctx, w.key)
		w.must(err)
		if !ok || h.Fleet != "night" || h.Nonce != "nightaaa" || h.Login != "other-bot" ||
			edited.Sub(last).Abs() > 2*time.Second {
			w.Errorf("holder %+v, last edited %s, %v; want %s", h, last, ok, edited)
		}
		reclaim := claims.ReleaseRequest{
			Key: w.key, Nonce: h.Nonce, Why: "no progress for 6h0m0s", RestoreTask: true,
			Reclaim: true, LastSeen: last,
		}

		// The claim makes progress in the meantime, so the reclaim must fail.
		w.must(night.Claims.Progress(ctx, w.key, "nightaaa", pages.ProgressView{State: "Running", Attempt: 2}))
		n := len(w.changes())
		if err := c.Claims.Release(ctx, reclaim); !errors.Is(err, claims.ErrAlive) || len(w.changes()) != n {
			w.Errorf("reclaim of a live claim: %v, %+v", err, w.changes()[n:])
		}
		_, reclaim.LastSeen, _, _ = c.Claims.Stale(ctx, w.key)
		w.must(c.Claims.Release(ctx, reclaim))
		w.wantLabels("agent-task")
		body := w.marked(tracker.MarkRelease)[0].Body
		if _, text, _ := strings.Cut(body, "\n"); !strings.HasPrefix(text,
			"Retake-Reclaim: the claim is stale: no progress for 6h0m0s\n") {
			w.Errorf("comment = %q", body)
		}

		// A third fleet claims. A late reclaim, repeated or by another fleet, does not change that claim.
		w.must(func() error { _, err := c.Claims.Claim(ctx, claimRequest(w, testNonce)); return err }())
		n = len(w.changes())
		for _, login := range []string{"retake-bot", "other-bot"} {
			w.must(w.client(login, func(o *Options) { o.Fleet = "f-" + login }).Claims.Release(ctx, reclaim))
		}
		w.must(c.Claims.Release(ctx, reclaim))
		if len(w.changes()) != n {
			w.Errorf("written again: %+v", w.changes()[n:])
		}
		reclaim.Nonce = "ccccdddd"
		if err := c.Claims.Release(ctx, reclaim); !errors.Is(err, claims.ErrAlive) {
			w.Errorf("reclaim of a claim that does not hold: %v", err)
		}
		w.wantLabels("agent-claimed")
	})
}

// TestTwoReclaimsAtOnce checks that the second release comment, which comes after a third director's claim, does not
// end that claim.
func TestTwoReclaimsAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.Context()
		dead := w.client("other-bot", func(o *Options) { o.Fleet = "dead" })
		_, err := dead.Claims.Claim(ctx, claimRequest(w, "deadaaaa"))
		w.must(err)
		reclaim := claims.ReleaseRequest{Key: w.key, Nonce: "deadaaaa", RestoreTask: true, Reclaim: true}
		first := w.client("retake-bot", func(o *Options) { o.Fleet = "first" })
		late := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/comments") {
					w.must(first.Claims.Release(ctx, reclaim))
					got, err := first.Claims.Claim(ctx, claimRequest(w, "thirdaaa"))
					if w.must(err); got.Outcome != claims.Won {
						w.Errorf("claim between = %+v", got)
					}
				}
				return next.RoundTrip(r)
			})
		}))
		w.must(late.Claims.Release(ctx, reclaim))
		w.wantLabels("agent-claimed")
		if h, _, ok, err := late.Claims.Stale(ctx, w.key); err != nil || !ok || h.Nonce != "thirdaaa" {
			w.Errorf("holder = %+v, %v, %v", h, ok, err)
		}
		if got, err := first.Claims.Claim(ctx, claimRequest(w, "thirdaaa")); err != nil || got.Outcome != claims.Won {
			w.Errorf("the third's claim = %+v, %v", got, err)
		}
	})
}
