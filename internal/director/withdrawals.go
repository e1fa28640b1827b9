package director

import (
	"context"
	"errors"
	"strings"
	"sync"

	"retake/internal/fsm"
)

// errWithdrawn is why work on a checkout ends early.
var errWithdrawn = errors.New("director: the task was withdrawn")

// withdrawals end what is under way in the checkouts of tasks that are withdrawn: git can be busy for minutes
// with what nobody wants any more. What begins later is not ended: the machine knew of the withdrawal when it
// asked for it.
type withdrawals struct {
	mu sync.Mutex
	// by the task's key in lower case: GitHub says names as they are spelt today
	ends map[string]map[*context.CancelCauseFunc]bool
}

func newWithdrawals() *withdrawals {
	return &withdrawals{ends: map[string]map[*context.CancelCauseFunc]bool{}}
}

// during returns a context for work on a task's checkout, which ends with the withdrawal, too. The caller calls done.
func (w *withdrawals) during(ctx context.Context, task fsm.IssueKey) (_ context.Context, done func()) {
	k := strings.ToLower(string(task))
	ctx, cancel := context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ends[k] == nil {
		w.ends[k] = map[*context.CancelCauseFunc]bool{}
	}
	w.ends[k][&cancel] = true
	return ctx, func() {
		cancel(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.ends[k], &cancel); len(w.ends[k]) == 0 {
			delete(w.ends, k)
		}
	}
}

// end ends what is under way.
func (w *withdrawals) end(task fsm.IssueKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for cancel := range w.ends[strings.ToLower(string(task))] {
		(*cancel)(errWithdrawn)
	}
}

// isWithdrawn reports whether a context of during has ended with the withdrawal.
func isWithdrawn(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errWithdrawn) }
