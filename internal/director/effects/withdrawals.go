package effects

import (
	"context"
	"errors"
	"strings"
	"sync"

	"retake/internal/fsm"
)

// errWithdrawn is the cancellation cause for work on the checkout of a withdrawn task.
var errWithdrawn = errors.New("director: the task was withdrawn")

// Withdrawals cancels git commands on the checkouts of withdrawn tasks. The commands could run for minutes, although
// their results are no longer needed. Withdrawals does not cancel work that begins after End, because the machine
// ordered that work after deciding about the withdrawal.
type Withdrawals struct {
	mu sync.Mutex
	// by lower-case task key, because GitHub may change the case of a name
	ends map[string]map[*context.CancelCauseFunc]bool
}

// NewWithdrawals returns a Withdrawals that tracks no work.
func NewWithdrawals() *Withdrawals {
	return &Withdrawals{ends: map[string]map[*context.CancelCauseFunc]bool{}}
}

// During returns a context for work on a task's checkout. It ends with ctx, or when the task is withdrawn. The
// caller must call done.
func (w *Withdrawals) During(ctx context.Context, task fsm.IssueKey) (_ context.Context, done func()) {
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

// End cancels the running work on a task's checkout. It does not wait for that work to return.
func (w *Withdrawals) End(task fsm.IssueKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for cancel := range w.ends[strings.ToLower(string(task))] {
		(*cancel)(errWithdrawn)
	}
}

// IsWithdrawn reports whether a context from During ended because the task was withdrawn.
func IsWithdrawn(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errWithdrawn) }
