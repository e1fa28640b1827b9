package github

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/githubtest"
	"retake/internal/github/inbox"
	"retake/internal/github/tracker"
)

// TestBlockers checks that dependencies are found in every notation. Closed or invisible issues do not block, and an
// issue without dependencies does not cost a request.
func TestBlockers(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		create := func(title, body string) string {
			return w.sim.CreateIssue(testRepo, "acme", title, body,
				"agent-task")
		}
		first, second, third, fourth := create("1", ""), create("2", ""), create("3", ""), create("4", "")
		w.sim.Close(fourth, "acme")
		_, n := number(second)
		_, m := number(fourth)
		late := create("late", "Blocked by #"+n+" and #"+m+", depends on acme/nowhere#1.")
		w.sim.Block(late, first)
		w.sim.AddSubIssue(late, third)
		blockers := func() []string {
			w.Helper()
			i, err := c.Issues.Issue(w.Context(), late)
			if err != nil {
				w.Fatal(err)
			}
			left := 10
			keys, err := c.Inbox.Blockers(w.Context(), i, &left)
			if err != nil {
				w.Fatal(err)
			}
			return keys
		}
		cursor := api.Format(time.Now())
		if got := blockers(); !slices.Equal(got, []string{first, second, third}) {
			w.Errorf("got %v, want %v, %v and %v", got, first, second, third)
		}
		for _, k := range []string{first, second, third} {
			w.sim.Close(k, "acme")
		}
		if _, err := c.Inbox.Poll(w.Context(), testRepo, cursor); err != nil { // the poll shows that they are closed
			w.Fatal(err)
		}
		if got := blockers(); len(got) != 0 {
			w.Errorf("got %v when all are closed", got)
		}
		i, err := c.Issues.Issue(w.Context(), w.key)
		before, none := len(w.sim.Requests()), 0
		if keys, again := c.Inbox.Blockers(w.Context(), i, &none); err != nil || again != nil || len(keys) > 0 ||
			len(w.sim.Requests()) != before {
			w.Errorf("an issue without dependencies: %v, %v, %v, %d requests", keys, err, again,
				len(w.sim.Requests())-before)
		}
		w.inject(githubtest.Fault{Status: http.StatusBadGateway}.On("GET", "/issues/"+n+"$"))
		w.sim.SetState(second, "acme", "open")
		time.Sleep((30 * time.Minute))
		if i, err = c.Issues.Issue(w.Context(), late); err != nil {
			w.Fatal(err)
		}
		left := 10
		if _, err := c.Inbox.Blockers(w.Context(), i, &left); api.KindOf(err) != api.KindTransient {
			w.Errorf("got %v while GitHub fails, want transient: it may be open", err)
		}
	})
}

// TestLookupsAreBounded checks that the number of lookups stays within the permitted requests, even for many issues
// with many references. Because results are cached, repeated calls eventually find all dependencies.
func TestLookupsAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		const issues, references = 30, 20
		var keys []string
		for range issues {
			text := "Blocked by"
			for range references {
				_, n := number(w.sim.CreateIssue(testRepo, "acme", "Before", ""))
				text += " #" + n
			}
			keys = append(keys, w.sim.CreateIssue(testRepo, "acme", "After", text, "agent-task"))
		}
		var all []tracker.Issue
		for _, key := range keys {
			i, err := c.Issues.Issue(w.Context(), key)
			if err != nil {
				w.Fatal(err)
			}
			all = append(all, i)
		}
		for round, known := 0, 0; known < issues; round++ {
			const atOnce = 70
			left, before := atOnce, len(w.sim.Requests())
			known = 0
			for _, i := range all {
				switch blockers, err := c.Inbox.Blockers(w.Context(), i, &left); {
				case err == nil && len(blockers) == references:
					known++
				case !errors.Is(err, inbox.ErrLater):
					w.Fatalf("%s: %v, %v", i.Key, blockers, err)
				}
			}
			asked := len(w.sim.Requests()) - before
			if total := issues * references; asked != min(atOnce, total-round*atOnce) {
				w.Errorf("round %d asks for %d of %d", round, asked, total)
			}
			if round > 0 && known < round*atOnce/references {
				w.Errorf("round %d knows %d issues, so the lookups are not in order", round, known)
			}
		}
	})
}

// TestPollNamesClosedPullRequests checks that a poll lists closed pull requests, because an issue may depend on them.
func TestPollNamesClosedPullRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		pull := w.sim.CreatePull(testRepo, "acme", "First", "", "topic", "main", false)
		_, n := number(pull)
		late := w.sim.CreateIssue(testRepo, "acme", "Then", "Blocked by #"+n, "agent-task")
		page, err := c.Inbox.Poll(w.Context(), testRepo, "")
		if err != nil {
			w.Fatal(err)
		}
		i, err := c.Issues.Issue(w.Context(), late)
		left := 1
		if keys, again := c.Inbox.Blockers(w.Context(), i, &left); err != nil || again != nil ||
			!slices.Equal(keys, []string{pull}) {
			w.Fatalf("got %v, %v, %v, want %s", keys, err, again, pull)
		}
		w.sim.Close(pull, "acme")
		if page, err = c.Inbox.Poll(w.Context(), testRepo, page.Cursor); err != nil ||
			!slices.Equal(page.Closed, []string{pull}) {
			w.Errorf("closed are %v, %v; want %s", page.Closed, err, pull)
		}
		if keys, err := c.Inbox.Blockers(w.Context(), i, &left); err != nil || len(keys) > 0 {
			w.Errorf("got %v, %v after it was closed", keys, err)
		}
	})
}

func number(key string) (repo, n string) {
	repo, n, _ = strings.Cut(key, "#")
	return repo, n
}

func TestHasBranch(t *testing.T) {
	sim := githubtest.New(githubtest.Options{DataDir: t.TempDir()})
	sim.AddUser("retake-bot", "token-of-retake-bot")
	if err := sim.AddRepo(testRepo, t.TempDir(), map[string]string{"retake-bot": "write"}); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, sim: sim}
	c := w.client("retake-bot")
	if err := c.HasBranch(t.Context(), testRepo, "main"); err != nil {
		t.Error(err)
	}
	if err := c.HasBranch(t.Context(), testRepo, "develop"); api.KindOf(err) != api.KindPermanent ||
		!strings.Contains(err.Error(), "github.base_branch") || !strings.Contains(err.Error(), "main") {
		t.Errorf("got %v, want what to change", err)
	}
	if err := c.HasBranch(t.Context(), "acme/nowhere", "main"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("got %v for a repository that is not there", err)
	}
}

// TestLookupsLeaveHalfOfTheHour checks that lookups stop for the rest of the hour when half of its requests are used.
// In the meantime, the client uses cached results of any age.
func TestLookupsLeaveHalfOfTheHour(t *testing.T) {
	inWorld(t, func(w *world) {
		remaining, reset := "4000", time.Now().Add(time.Hour)
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil {
					for name, value := range map[string]string{
						"Limit": "5000", "Remaining": remaining,
						"Reset": strconv.FormatInt(reset.Unix(), 10), "Resource": "core",
					} {
						resp.Header.Set("X-Ratelimit-"+name, value)
					}
				}
				return resp, err
			})
		}))
		var issues []tracker.Issue
		for range 2 {
			_, on := number(w.sim.CreateIssue(testRepo, "acme", "first", ""))
			key := w.sim.CreateIssue(testRepo, "acme", "later", "Blocked by #"+on, "agent-task")
			i, err := c.Issues.Issue(w.Context(), key)
			w.must(err)
			issues = append(issues, i)
		}
		blockers := func(i tracker.Issue) (n, asked int, err error) {
			before, left := len(w.sim.Requests()), 10
			keys, err := c.Inbox.Blockers(w.Context(), i, &left)
			return len(keys), len(w.sim.Requests()) - before, err
		}
		remaining = "2500"
		if n, asked, err := blockers(issues[0]); n != 1 || asked != 1 || err != nil {
			w.Errorf("with more than half: %d after %d requests, %v", n, asked, err)
		}
		if _, asked, err := blockers(issues[1]); asked != 0 || !errors.Is(err, inbox.ErrLater) {
			w.Errorf("with half: %d requests, %v", asked, err)
		}
		time.Sleep((30 * time.Minute) + time.Minute)
		if n, asked, err := blockers(issues[0]); n != 1 || asked != 0 || err != nil {
			w.Errorf("%d known after %d requests, %v", n, asked, err)
		}
		time.Sleep(time.Until(reset))
		remaining, reset = "5000", time.Now().Add(time.Hour)
		if n, asked, err := blockers(issues[1]); n != 1 || asked != 1 || err != nil {
			w.Errorf("in the next hour: %d after %d requests, %v", n, asked, err)
		}
	})
}
