package workspace

import (
	"errors"
	"math"
	"testing"
	"time"
)

const day = 24 * time.Hour

func TestSyncPolicy(t *testing.T) {
	p := SyncPolicy{MaxCommits: 20, MaxBehind: day}
	for _, c := range []struct {
		policy  SyncPolicy
		commits int
		behind  time.Duration
		want    string
	}{
		{p, 0, 0, ""},
		{p, 20, day, ""},
		{p, 21, 0, BehindMain},
		{p, 1, day + 1, BehindMain},
		{p, math.MaxInt, math.MaxInt64, BehindMain},
		{SyncPolicy{}, 0, 0, ""},
		{SyncPolicy{}, 1, 0, BehindMain},
	} {
		if got := c.policy.Reason(c.commits, c.behind); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// changeAt commits a file to main with the given committer date.
func (o origin) changeAt(t testing.TB, at time.Time, name string) string {
	t.Helper()
	t.Setenv("GIT_COMMITTER_DATE", at.UTC().Format(time.RFC3339))
	return o.change(t, map[string]string{name: name + "\n"})
}

func TestDrift(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	q := Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"}
	if _, err := w.Drift(t.Context(), q); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("without a checkout: %v", err)
	}
	c := checkout(t, w, o, nonceB)
	drift := func(commits int, head string, least, most time.Duration) {
		t.Helper()
		d, err := w.Drift(t.Context(), q)
		if err != nil || d.HeadSHA != head || d.Commits != commits || d.Behind < least || d.Behind > most {
			t.Errorf("%+v, %v; want %d commits to %s, %v to %v", d, err, commits, head, least, most)
		}
	}
	drift(0, c.BaseSHA, 0, 0)
	drift(1, o.changeAt(t, time.Now().Add(day), "tomorrow.txt"), 0, 0)
	sh(t, o.clone, "push", "-q", "--force", "origin", c.BaseSHA+":main")
	sh(t, o.clone, "reset", "-q", "--hard", c.BaseSHA)

	// The date of the merge counts rather than the dates of the older merged commits.
	sh(t, o.clone, "checkout", "-q", "-b", "side")
	put(t, o.clone, "side.txt", "x")
	t.Setenv("GIT_COMMITTER_DATE", time.Now().Add(-30*day).UTC().Format(time.RFC3339))
	sh(t, o.clone, "add", "-A")
	sh(t, o.clone, "commit", "-q", "-m", "side")
	sh(t, o.clone, "checkout", "-q", "main")
	t.Setenv("GIT_COMMITTER_DATE", time.Now().Add(-3*day).UTC().Format(time.RFC3339))
	sh(t, o.clone, "merge", "-q", "--no-ff", "-m", "merge", "side")
	drift(3, o.changeAt(t, time.Now().Add(-day), "b.txt"), 3*day-time.Minute, 3*day+time.Hour)

	// The branch was reset to an older commit, so the checkout has all of its commits.
	sh(t, o.clone, "push", "-q", "--force", "origin", c.BaseSHA+":main")
	if _, err := w.Sync(t.Context(), q, SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	drift(0, c.BaseSHA, 0, 0)
}

// TestDriftDoesNotWait: a worker may be running, and another operation of the task may be under way.
func TestDriftDoesNotWait(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	checkout(t, w, o, nonceB)
	task, err := w.tasks.lock(t.Context(), "test", nonceB)
	if err != nil {
		t.Fatal(err)
	}
	defer task.lock.unlock()
	o.change(t, map[string]string{"b.txt": "x"})
	if d, err := w.Drift(t.Context(), Request{
		Nonce: nonceB, Repo: repo, RemoteURL: o.bare,
		BaseBranch: "main",
	}); err != nil || d.Commits != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestDriftOfSomethingElse(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	checkout(t, w, o, nonceB)
	q := Request{Nonce: nonceB, Repo: "acme/other", RemoteURL: o.bare, BaseBranch: "main"}
	_, err := w.Drift(t.Context(), q)
	wantKind(t, err, Permanent, "nonce belongs to")
	_, err = w.Sync(t.Context(), q, SyncOptions{})
	wantKind(t, err, Permanent, "nonce belongs to")
	q.Repo, q.BaseBranch = repo, "other"
	_, err = w.Sync(t.Context(), q, SyncOptions{})
	wantKind(t, err, Permanent, "nonce belongs to")
}
