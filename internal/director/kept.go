package director

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

	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/safefile"
)

// keptFile lies beside the checkouts. It names those that an empty journal did not know, one per line. They may be
// all that is left of a lost journal. No session of any director removes them until a rebuild has used them or a
// person has removed the file.
const keptFile = "checkouts.kept"

func (d *daemon) keptPath() string { return filepath.Join(d.sharedDir(), keptFile) }

// sweep removes the checkouts that no task needs. After an error it has removed nothing, because it is unknown
// which ones must stay, or because another director leads.
func (s *session) sweep(ctx context.Context, m *fsm.Machine) error {
	if !s.term.Load().leads() {
		return loop.ErrLeaseLost
	}
	var tasks []string
	for _, t := range m.Tasks() {
		tasks = append(tasks, t.Nonce)
	}
	kept, err := s.kept(tasks)
	if err != nil {
		return fmt.Errorf("director: which checkouts are kept: %w", err)
	}
	if len(kept) > 0 {
		s.log.Warn("checkouts are there from before the journal began: if that was lost, stop this director and run "+
			"`director journal rebuild`; "+
			"if nobody needs them, remove the file that names them, and the next start removes them",
			zap.Strings("tasks", kept), zap.String("file", s.keptPath()))
	}
	keep := slices.Concat(tasks, kept)
	for _, nonce := range s.sent {
		if slices.Contains(keep, nonce) {
			continue
		}
		if err := s.bus.DropCheckout(ctx, nonce); err != nil {
			s.log.Warn("what was sent of a checkout that no task needs is left on the bus", zap.String("task", nonce),
				zap.Error(err))
		}
	}
	gone, err := s.workspace.Sweep(ctx, s.checkouts, keep)
	if err != nil {
		s.log.Warn("orphaned checkouts are left", zap.Error(err))
	}
	if len(gone) > 0 {
		s.log.Info("removed orphaned checkouts", zap.Strings("tasks", gone))
	}
	return nil
}

// kept returns the checkouts that stay although no task needs them. It records them while the journal is empty.
func (s *session) kept(tasks []string) (kept []string, err error) {
	data, err := os.ReadFile(s.keptPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	claims, err := s.workspace.Claims()
	if err != nil {
		return nil, err
	}
	named := strings.Fields(string(data))
	there := slices.Clone(s.sent) // on the bus and on this machine
	for _, c := range claims {
		there = append(there, c.Nonce)
	}
	slices.Sort(there)
	for _, nonce := range slices.Compact(there) {
		if !slices.Contains(tasks, nonce) && (slices.Contains(named, nonce) || s.owner.Driver().Last() == 0) {
			kept = append(kept, nonce)
		}
	}
	switch {
	case slices.Equal(kept, named):
		return kept, nil
	case len(kept) == 0:
		return nil, s.keptNoMore()
	}
	return kept, safefile.Write(s.keptPath(), 0o600, []byte(strings.Join(kept, "\n")+"\n"))
}

// keptNoMore removes keptFile after a rebuild. By then tasks own all usable checkouts.
func (d *daemon) keptNoMore() error {
	if err := os.Remove(d.keptPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
