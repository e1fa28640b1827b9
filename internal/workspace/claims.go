package workspace

import (
	"context"
	"errors"
	"maps"
	"slices"

	"go.uber.org/zap"
)

// Claim identifies a claim that has a checkout on this machine.
type Claim struct {
	Nonce, Repo string
	Task        string // issue key; empty in records from older versions
	Attempt     int    // the last attempt that used the checkout, or zero
}

// Claims lists the claims that have a checkout, sorted by nonce. It logs and omits checkouts with unreadable records.
func (w *Workspaces) Claims() (all []Claim, err error) {
	nonces, err := w.tasks.nonces()
	if err != nil {
		return nil, system("list checkouts", err)
	}
	for _, nonce := range nonces {
		t := w.tasks.at("list checkouts", nonce)
		switch err := t.load(); {
		case err == nil:
			all = append(all, Claim{nonce, t.rec.Repo, t.rec.Task, t.rec.Attempt})
		case !errors.Is(err, ErrNoCheckout):
			w.log.Warn("skipped unusable checkout", zap.String("task", nonce), zap.Error(err))
		}
	}
	return all, nil
}

// Pushed returns the last commit pushed from a checkout to each branch. The push itself may have failed, because the
// record is written first. Without a record, the map is empty.
func (w *Workspaces) Pushed(nonce string) (map[string]string, error) {
	t := w.tasks.at("list pushes", nonce)
	if err := t.load(); err != nil && !errors.Is(err, ErrNoCheckout) {
		return nil, err
	}
	last := map[string]string{}
	for branch, commits := range t.rec.Pushed {
		last[branch] = commits[len(commits)-1]
	}
	return last, nil
}

// Branches returns the sorted names of a remote's branches under a folder, such as "retake" for "retake/21-a1".
func (w *Workspaces) Branches(ctx context.Context, remoteURL, folder string) ([]string, error) {
	op := "list branches"
	r, err := parseRemote(op, remoteURL)
	if err != nil {
		return nil, err
	}
	heads, err := w.mirrors.remotes.heads(ctx, call{op: op, dir: "/"}, r, folder+"/*")
	return slices.Sorted(maps.Keys(heads)), err
}
