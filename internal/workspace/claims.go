package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"go.uber.org/zap"

	"retake/internal/worktree"
)

// Claim identifies a claim that has a checkout on this machine.
type Claim struct {
	Nonce, Repo string
	Task        string // issue key; empty in records from older versions
	Attempt     int    // the last attempt that used the checkout, or zero
	Agreement   *Agreement
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
			all = append(all, Claim{nonce, t.rec.Repo, t.rec.Task, t.rec.Attempt, t.rec.Agreement})
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

// Agreement contains the terms of an attempt. It is recorded before the container starts, so a director that finds the
// container running can read it.
type Agreement struct {
	Attempt  int             `json:"attempt"`
	Contract json.RawMessage `json:"contract,omitempty"` // in the caller's format
	// StatePaths are globs for files that are not work, instead of those from LeaveOut.
	StatePaths []string `json:"state_paths,omitempty"`
}

// Agree records an agreement in a task's checkout.
func (w *Workspaces) Agree(ctx context.Context, nonce string, a Agreement) error {
	t, err := w.tasks.open(ctx, "record the terms of "+nonce, nonce)
	if err != nil {
		return err
	}
	defer t.lock.unlock()
	t.rec.Agreement = &a
	return t.save()
}

// Agreed returns the last agreement of a task, or nil if it is unknown. If the checkout is on another machine, Agreed
// reads it from record, the result of Record there.
func (w *Workspaces) Agreed(nonce string, record json.RawMessage) (*Agreement, error) {
	t, err := w.tasks.find("read the terms of "+nonce, nonce)
	if err == nil {
		err = t.load()
	}
	if errors.Is(err, ErrNoCheckout) && record != nil {
		t.rec, err = parseRecord(record, nonce)
	}
	if errors.Is(err, ErrNoCheckout) {
		err = nil
	}
	return t.rec.Agreement, err
}

// statePaths returns the globs for files that are not work.
func (s *snapshots) statePaths(t *task) worktree.Globs {
	if a := t.rec.Agreement; a != nil && len(a.StatePaths) > 0 {
		if globs, err := worktree.Compile(a.StatePaths); err == nil {
			return globs
		}
	}
	return *s.state.Load()
}
