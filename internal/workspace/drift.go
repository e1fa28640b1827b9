package workspace

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Drift measures how far a checkout's base is behind the remote's base branch.
type Drift struct {
	HeadSHA string // current commit of the base branch
	Commits int    // commits on the branch that are missing from the base
	// Behind is the age of the oldest of those commits on the branch's first-parent line, according to its committer
	// date. It is zero if Commits is zero or that date is in the future.
	Behind time.Duration
}

// SyncPolicy limits how far a checkout may drift.
type SyncPolicy struct {
	MaxCommits int
	MaxBehind  time.Duration
}

// BehindMain is the reason for syncing a checkout that has drifted too far.
const BehindMain = "behind_main"

// Reason returns why the drift requires a Sync, or "". A value that equals its limit does not require a Sync.
func (p SyncPolicy) Reason(commits int, behind time.Duration) string {
	if commits > p.MaxCommits || behind > p.MaxBehind {
		return BehindMain
	}
	return ""
}

// Drift fetches the base branch and measures the drift. It does not read the checkout or wait for other operations on
// the task, so a worker may be running in the checkout.
func (w *Workspaces) Drift(ctx context.Context, q Request) (Drift, error) {
	op := "drift " + q.Nonce
	r, err := q.check(op)
	if err != nil {
		return Drift{}, err
	}
	return mended(ctx, w.repairs, op, q.Nonce, func() (Drift, error) { return w.driftOnce(ctx, op, q, r) })
}

func (w *Workspaces) driftOnce(ctx context.Context, op string, q Request, r remote) (Drift, error) {
	t := w.tasks.at(op, q.Nonce)
	err := t.load()
	if err == nil {
		err = t.rec.belongs(op, q)
	}
	if err != nil {
		return Drift{}, err
	}
	head, err := w.mirrors.head(ctx, q.Repo, q.BaseBranch, r)
	if err != nil {
		return Drift{}, err
	}
	d := Drift{HeadSHA: head}
	if head == t.rec.BaseSHA {
		return d, nil
	}
	mirror, missing := w.mirrors.at(op, q.Repo, nil), t.rec.BaseSHA+".."+head
	commits, err := mirror.ask(ctx, "rev-list", "--count", missing)
	if err != nil {
		return Drift{}, err
	}
	if d.Commits, err = strconv.Atoi(commits); err != nil {
		return Drift{}, refuse(op, "", "git printed an invalid number of commits: %.40q", commits)
	}
	dates, err := mirror.ask(ctx, "log", "--first-parent", "--format=%ct", missing)
	if err != nil {
		return Drift{}, err
	}
	if d.Commits > 0 {
		d.Behind = max(0, time.Since(unixTime(dates[strings.LastIndexByte(dates, '\n')+1:])))
	}
	return d, nil
}

// unixTime parses a date printed by git. Committers can claim any date, so a date that is unreadable or before 1970
// becomes the first second of 1970.
func unixTime(text string) time.Time {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 1 {
		seconds = 1
	}
	return time.Unix(seconds, 0).UTC()
}
