package workspace

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Drift is how far a checkout's base is behind the remote's base branch.
type Drift struct {
	HeadSHA string // the base branch as it is now
	Commits int    // on the branch and not in the base
	// Behind is how long the branch has been ahead: the age of the oldest of those commits on its first-parent
	// line, by its committer date. 0 when Commits is, and when that date is in the future.
	Behind time.Duration
}

// SyncPolicy is how much drift is left alone.
type SyncPolicy struct {
	MaxCommits int
	MaxBehind  time.Duration
}

// BehindMain is the reason to synchronise a checkout that has drifted too far.
const BehindMain = "behind_main"

// Reason tells why such a drift calls for synchronising, or "". Exactly as much as the policy names is still fine.
func (p SyncPolicy) Reason(commits int, behind time.Duration) string {
	if commits > p.MaxCommits || behind > p.MaxBehind {
		return BehindMain
	}
	return ""
}

// Drift fetches the base branch and measures. It doesn't look into the checkout and waits for no other operation of the
// task, so a worker may be running there.
func (w *Workspaces) Drift(ctx context.Context, q Request) (Drift, error) {
	op := "drift " + q.Nonce
	r, err := q.check(op)
	if err != nil {
		return Drift{}, err
	}
	return mended(ctx, w, op, q.Nonce, func() (Drift, error) { return w.driftOnce(ctx, op, q, r) })
}

func (w *Workspaces) driftOnce(ctx context.Context, op string, q Request, r remote) (Drift, error) {
	rec, err := w.task(op, q.Nonce, nil).load()
	if err == nil {
		err = q.belongs(op, rec)
	}
	if err != nil {
		return Drift{}, err
	}
	head, err := w.fetchBase(ctx, q.Repo, q.BaseBranch, r)
	if err != nil {
		return Drift{}, err
	}
	d := Drift{HeadSHA: head}
	if head == rec.BaseSHA {
		return d, nil
	}
	commits, err := w.ask(ctx, op, w.mirrorDir(q.Repo), nil, "rev-list", "--count", rec.BaseSHA+".."+head)
	if err != nil {
		return Drift{}, err
	}
	if d.Commits, err = strconv.Atoi(commits); err != nil {
		return Drift{}, refuse(op, "", "git counts %.40q commits", commits)
	}
	dates, err := w.ask(ctx, op, w.mirrorDir(q.Repo), nil, "log", "--first-parent", "--format=%ct", rec.BaseSHA+".."+
		head)
	if err != nil {
		return Drift{}, err
	}
	if d.Commits > 0 {
		d.Behind = max(0, time.Since(unixTime(dates[strings.LastIndexByte(dates, '\n')+1:])))
	}
	return d, nil
}

// unixTime reads a date as git prints it. Dates are whatever a committer claimed: those before 1970 and
// unreadable ones are the first second after it.
func unixTime(text string) time.Time {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 1 {
		seconds = 1
	}
	return time.Unix(seconds, 0).UTC()
}
