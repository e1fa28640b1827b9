package github

import (
	"strings"
	"testing"
	"time"

	"retake/internal/github/ask"
)

// ensured calls EnsureIncident twice. The second call must not write.
func (w *world) ensured(i ask.IncidentIssue) string {
	w.Helper()
	key, err := w.client("retake-bot").People.EnsureIncident(w.Context(), i)
	w.must(err)
	before := len(w.changes())
	if again, err := w.client("retake-bot").People.EnsureIncident(w.Context(), i); err != nil || again != key ||
		len(w.changes()) != before {
		w.Errorf("again: %q, %v, %d writes", again, err, len(w.changes())-before)
	}
	return key
}

func (w *world) wantIncident(key, state, part string) {
	w.Helper()
	i := w.sim.Issue(key)
	if i.State != state || i.Title != outage.Title || !strings.Contains(i.Body, part) || len(i.Labels) > 0 {
		w.Errorf("incident = %+v, want it %s with %q", i, state, part)
	}
}

func TestIncidentIssue(t *testing.T) {
	inWorld(t, func(w *world) {
		now := outage
		over := now
		over.Open, over.Until = false, now.Since.Add(time.Hour)
		if key := w.ensured(over); key != "" {
			w.Errorf("an outage without an issue is shown after its end: %s", key)
		}
		key := w.ensured(now)
		if key != testRepo+"#2" {
			w.Fatalf("incident is %q", key)
		}
		w.wantIncident(key, "open", "acme/widgets#1, acme/gears#12")
		now.Waiting = now.Waiting[:1]
		w.ensured(now)
		w.wantIncident(key, "open", "Waiting issues:** acme/widgets#1\n")
		w.ensured(over)
		w.wantIncident(key, "closed", "**Over.**")
		now.Since = now.Since.Add(24 * time.Hour)
		if again := w.ensured(now); again != key {
			w.Errorf("the next outage is %s, want %s", again, key)
		}
		w.wantIncident(key, "open", "Since 22 November 2026")
		w.sim.SetState(key, "acme", "closed") // a person closes it during the outage
		now.Waiting = outage.Waiting
		w.ensured(now)
		w.wantIncident(key, "closed", "acme/gears#12")
	})
}

func TestIncidentIssueIsFound(t *testing.T) {
	inWorld(t, func(w *world) {
		key := w.ensured(outage)
		now, before := outage, w.searches()
		now.Issue, now.Waiting = key, outage.Waiting[:1]
		w.ensured(now)
		w.wantIncident(key, "open", "Waiting issues:** acme/widgets#1\n")
		if n := w.searches() - before; n != 0 {
			w.Errorf("%d searches for a known issue", n)
		}
		now.Key = "model:other"
		if other := w.ensured(now); other == key {
			w.Error("another outage has the same issue")
		}
		forged := w.sim.CreateIssue(testRepo, "mallory", "x", w.sim.Issue(key).Body)
		if again := w.ensured(outage); again != key {
			w.Errorf("found %s, the forged one is %s", again, forged)
		}
	})
}

// searches counts the requests for lists of issues.
func (w *world) searches() (n int) {
	for _, r := range w.sim.Requests() {
		if r.Method == "GET" && strings.Contains(r.Path, "/issues?") {
			n++
		}
	}
	return n
}
