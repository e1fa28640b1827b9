package github

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/claims"
)

// forge makes a collaborator with read access write comments that begin and end claims.
func forge(w *world, key, by string, n int) {
	w.sim.AddComment(key, by, fmt.Sprintf(`<!-- retake:release v1 {"fleet":"default","nonce":"%s"} -->`, testNonce))
	w.sim.AddComment(key, by, fmt.Sprintf(`<!-- retake:claim v1 {"fleet":"night","nonce":"aaaa%04d"} -->`, n))
}

// TestForgedMarkersEndNothing checks that markers by a collaborator with read access do not change the holder or the
// outcome of a claim.
func TestForgedMarkersEndNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.must(w.sim.AddRepo(testRepo, "", map[string]string{"reader": "read"}))
		c := w.client("retake-bot")
		r, err := c.Claims.Claim(w.Context(), claimRequest(w, testNonce))
		w.must(err)
		forge(w, w.key, "reader", 1)
		if r.Outcome != claims.Won {
			w.Fatalf("%+v", r)
		}
		h, _, held, err := c.Claims.Stale(w.Context(), w.key)
		w.must(err)
		if !held || h.Nonce != testNonce || h.Login != "retake-bot" {
			w.Errorf("held by %+v, %v", h, held)
		}
		if r, err = c.Claims.Claim(w.Context(), claimRequest(w, testNonce)); err != nil || r.Outcome != claims.Won {
			w.Errorf("claimed again: %+v, %v", r, err)
		}
		found, _, err := c.Inbox.FindTasks(w.Context(), testRepo, nil)
		w.must(err)
		if len(found) != 1 || found[0].Nonce != testNonce || len(found[0].Ended) > 0 {
			w.Errorf("a rebuild finds %+v", found)
		}
		w.must(c.Claims.Release(w.Context(), claims.ReleaseRequest{
			Key: w.key, Nonce: testNonce, Why: "test", RestoreTask: true,
			Won: true,
		}))
		if labels := w.sim.Issue(w.key).Labels; len(labels) != 1 || labels[0] != "agent-task" {
			w.Errorf("after the release it carries %q", labels)
		}
	})
}

// TestAFloodOfForgedMarkers posts 1,000 forged markers by 50 collaborators. They cost one lookup per collaborator and
// hour, at most 20 in one read, and do not hinder the claim.
func TestAFloodOfForgedMarkers(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const people, each = 50, 20
		readers := map[string]string{}
		for n := range people {
			readers[fmt.Sprintf("reader%d", n)] = "read"
		}
		w.must(w.sim.AddRepo(testRepo, "", readers))
		for n := range people * each / 2 {
			forge(w, w.key, fmt.Sprintf("reader%d", n%people), n)
		}
		for n := range 100 { // authors without an association to the repository
			forge(w, w.key, fmt.Sprintf("stranger%d", n), n)
		}
		c := w.client("retake-bot")
		looks := func() (n int) {
			for _, r := range w.sim.Requests() {
				if strings.HasSuffix(r.Path, "/permission") {
					n++
				}
			}
			return n
		}
		tries, before := 0, 0
		for ; ; tries++ {
			r, err := c.Claims.Claim(w.Context(), claimRequest(w, testNonce))
			if n := looks() - before; n > 20 {
				w.Fatalf("one reading asked %d times", n)
			}
			before = looks()
			if err == nil {
				if r.Outcome != claims.Won {
					w.Fatalf("%+v", r)
				}
				break
			}
			if api.KindOf(err) != api.KindTransient || tries > 10 {
				w.Fatal(err)
			}
		}
		for range 10 {
			time.Sleep(5 * time.Minute)
			h, _, _, err := c.Claims.Stale(w.Context(), w.key)
			w.must(err)
			if h.Nonce != testNonce {
				w.Fatalf("held by %+v", h)
			}
		}
		if n := looks(); n != people || tries != (people-1)/20 {
			w.Errorf("%d lookups of permissions and %d more tries within an hour, want %d and %d", n, tries, people,
				(people-1)/20)
		}
	})
}
