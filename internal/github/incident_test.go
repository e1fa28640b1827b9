package github

import (
	"strings"
	"testing"
	"time"

	"retake/internal/github/ask"
)

func TestIncidentIssue(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.Context()
		ensure := func(i ask.IncidentIssue) string {
			w.Helper()
			key, err := w.client("retake-bot").People.EnsureIncident(ctx, i)
			w.must(err)
			before := len(w.changes())
			if again, err := w.client("retake-bot").People.EnsureIncident(ctx, i); err != nil || again != key ||
				len(w.changes()) != before {
				w.Errorf("again: %q, %v, %d writes", again, err, len(w.changes())-before)
			}
			return key
		}
		now := outage
		over := now
		over.Open, over.Until = false, now.Since.Add(time.Hour)
		if key := ensure(over); key != "" {
			w.Errorf("an outage that nobody has seen is shown when it is over: %s", key)
		}
		key := ensure(now)
		if key != testRepo+"#2" {
			w.Fatalf("incident is %q", key)
		}
		shown := func(state, part string) {
			w.Helper()
			i := w.sim.Issue(key)
			if i.State != state || i.Title != now.Title || !strings.Contains(i.Body, part) || len(i.Labels) > 0 {
				w.Errorf("incident = %+v, want it %s with %q", i, state, part)
			}
		}
		shown("open", "acme/widgets#1, acme/gears#12")
		now.Waiting = now.Waiting[:1]
		ensure(now)
		shown("open", "wait for it:** acme/widgets#1\n")
		ensure(over)
		shown("closed", "**Over.**")
		now.Since = now.Since.Add(24 * time.Hour)
		if again := ensure(now); again != key {
			w.Errorf("the next outage is %s, want %s", again, key)
		}
		shown("open", "Since 22 November 2026")
		w.sim.SetState(key, "acme", "closed") // a person has seen enough of it
		now.Waiting = outage.Waiting
		ensure(now)
		shown("closed", "acme/gears#12")
		searches := func() (n int) {
			for _, r := range w.sim.Requests() {
				if r.Method == "GET" && strings.Contains(r.Path, "/issues?") {
					n++
				}
			}
			return n
		}
		before := searches()
		now.Issue, now.Waiting = key, outage.Waiting[:1] // who knows the issue searches for nothing
		ensure(now)
		shown("closed", "wait for it:** acme/widgets#1\n")
		if n := searches() - before; n != 0 {
			w.Errorf("%d searches for an issue that is known", n)
		}
		now.Key = "model:other"
		if other := ensure(now); other == key {
			w.Error("another outage has the same issue")
		}
		forged := w.sim.CreateIssue(testRepo, "mallory", "x", w.sim.Issue(key).Body)
		if again := ensure(outage); again != key {
			w.Errorf("found %s, the forged one is %s", again, forged)
		}
	})
}
