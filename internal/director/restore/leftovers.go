package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/failure"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/safefile"
	"retake/internal/workspace"
)

// keptFile, in the checkout directory, lists the tasks of checkouts that were found with an empty journal. They may be
// the last trace of a lost journal, so directors keep them until a rebuild has used them or a person has removed the
// file.
const keptFile = "checkouts.kept"

// Leftovers removes the checkouts without a task when a session begins.
type Leftovers struct {
	Dir       string      // the checkout directory
	Leads     func() bool // reports whether this process may remove checkouts now
	Workspace *workspace.Workspaces
	Bus       *bus.Bus
	Log       *zap.Logger

	// tasks with checkouts before the journal was read; Sweep removes the checkouts of unknown tasks
	local []string // on this machine
	onBus []string
}

// Look lists the checkouts. Call it before the journal is read, so that Sweep does not remove checkouts that another
// director creates later.
func (l *Leftovers) Look(ctx context.Context) (err error) {
	if l.local, err = l.Workspace.Found(); err != nil {
		return err
	}
	l.onBus, err = l.Bus.Checkouts().Tasks(ctx)
	return failure.OnBus(err)
}

// Sweep removes the checkouts without a task. fresh means that the journal is empty. If Sweep returns an error, it has
// removed no checkouts, because it does not know which ones to keep, or because another director leads.
func (l *Leftovers) Sweep(ctx context.Context, m *fsm.Machine, fresh bool) error {
	if !l.Leads() {
		return loop.ErrLeaseLost
	}
	var tasks []string
	for _, t := range m.Tasks() {
		tasks = append(tasks, t.Nonce)
	}
	kept, err := l.kept(tasks, fresh)
	if err != nil {
		return fmt.Errorf("director: list the kept checkouts: %w", err)
	}
	if len(kept) > 0 {
		l.Log.Warn("found checkouts that are older than the journal: if the journal was lost, stop this director and "+
			"run `director journal rebuild`; to drop the checkouts, remove the file that lists them and restart",
			zap.Strings("tasks", kept), zap.String("file", filepath.Join(l.Dir, keptFile)))
	}
	keep := slices.Concat(tasks, kept)
	for _, nonce := range l.onBus {
		if slices.Contains(keep, nonce) {
			continue
		}
		if err := l.Bus.Checkouts().Drop(ctx, nonce); err != nil {
			l.Log.Warn("could not remove orphaned checkout from the bus", zap.String("task", nonce), zap.Error(err))
		}
	}
	gone, err := l.Workspace.Sweep(ctx, l.local, keep)
	if err != nil {
		l.Log.Warn("could not remove some orphaned checkouts", zap.Error(err))
	}
	if len(gone) > 0 {
		l.Log.Info("removed orphaned checkouts", zap.Strings("tasks", gone))
	}
	return nil
}

// kept returns the checkouts without a task that must be kept. If fresh is set, it returns all of them. Otherwise, it
// returns those listed in keptFile. It updates the file.
func (l *Leftovers) kept(tasks []string, fresh bool) (kept []string, err error) {
	file := filepath.Join(l.Dir, keptFile)
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	claims, err := l.Workspace.Claims()
	if err != nil {
		return nil, err
	}
	named := strings.Fields(string(data))
	there := slices.Clone(l.onBus)
	for _, c := range claims {
		there = append(there, c.Nonce)
	}
	slices.Sort(there)
	for _, nonce := range slices.Compact(there) {
		if !slices.Contains(tasks, nonce) && (slices.Contains(named, nonce) || fresh) {
			kept = append(kept, nonce)
		}
	}
	switch {
	case slices.Equal(kept, named):
		return kept, nil
	case len(kept) == 0:
		return nil, forgetKept(l.Dir)
	}
	return kept, safefile.Write(file, 0o600, []byte(strings.Join(kept, "\n")+"\n"))
}

// forgetKept removes keptFile when no checkout needs it, for example after a rebuild has given all usable checkouts to
// tasks.
func forgetKept(dir string) error {
	if err := os.Remove(filepath.Join(dir, keptFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
