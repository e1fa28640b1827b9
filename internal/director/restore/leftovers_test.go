package restore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/zap"

	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/workspace"
)

// A process that has lost its lease does not remove checkouts. Checkouts created after the listing are never removed.
func TestOnlyTheLeaderRemovesLeftovers(t *testing.T) {
	dir := t.TempDir()
	work, err := workspace.Open(workspace.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, nonce := range []string{"orphan22", "another2"} { // another director has created the second one since
		if err := os.MkdirAll(filepath.Join(dir, "tasks", nonce), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	leads := false
	l := &Leftovers{
		Dir: dir, Workspace: work, Log: zap.NewNop(), Leads: func() bool { return leads },
		local: []string{"orphan22"},
	}
	if err := l.Sweep(t.Context(), fsm.New(fsm.Config{}), false); !errors.Is(err, loop.ErrLeaseLost) {
		t.Errorf("without the lease: %v", err)
	}
	if left, err := work.Found(); err != nil || len(left) != 2 {
		t.Errorf("without the lease: left %v, %v", left, err)
	}
	leads = true
	if err := l.Sweep(t.Context(), fsm.New(fsm.Config{}), false); err != nil {
		t.Error(err)
	}
	if left, err := work.Found(); err != nil || !slices.Equal(left, []string{"another2"}) {
		t.Errorf("left: %v, %v", left, err)
	}
}
