package workspace

import (
	"context"
	"errors"
	"maps"
	"slices"

	"go.uber.org/zap"
)

// Claim is a claim that has a checkout.
type Claim struct {
	Nonce, Repo string
	Task        string // issue key; empty in the record of an older version
	Attempt     int    // the last one that the checkout was made ready for; 0: not known
}

// Claims lists the claims that have a checkout, by nonce. One whose record cannot be read has none that could be used.
func (w *Workspaces) Claims() (all []Claim, err error) {
	nonces, err := w.nonces()
	if err != nil {
		return nil, system("list checkouts", err)
	}
	for _, nonce := range nonces {
		switch rec, err := w.task("list checkouts", nonce, nil).load(); {
		case err == nil:
			all = append(all, Claim{nonce, rec.Repo, rec.Task, rec.Attempt})
		case !errors.Is(err, ErrNoCheckout):
			w.log.Warn("a checkout cannot be used", zap.String("task", nonce), zap.Error(err))
		}
	}
	return all, nil
}

// Pushed is what was pushed last from a checkout, or may have been, by branch: the commit. Without a checkout
// it is empty.
func (w *Workspaces) Pushed(nonce string) (map[string]string, error) {
	rec, err := w.task("list pushes", nonce, nil).load()
	if err != nil && !errors.Is(err, ErrNoCheckout) {
		return nil, err
	}
	last := map[string]string{}
	for branch, commits := range rec.Pushed {
		last[branch] = commits[len(commits)-1]
	}
	return last, nil
}

// Branches lists the branches below a folder of a remote, "retake" for "retake/21-a1", sorted.
func (w *Workspaces) Branches(ctx context.Context, remoteURL, folder string) ([]string, error) {
	op := "list branches"
	r, err := parseRemote(op, remoteURL)
	if err != nil {
		return nil, err
	}
	config, secrets, err := w.credentials(ctx, op, r)
	if err != nil {
		return nil, err
	}
	heads, err := w.git.run(ctx, call{
		op: op, dir: "/", config: config, secrets: secrets, remote: true,
		args: []string{"ls-remote", "--quiet", "--heads", "--", r.url, "refs/heads/" + folder + "/*"},
	})
	return slices.Sorted(maps.Keys(parseHeads(heads))), err
}
