package effects

import (
	"context"
	"errors"
	"strings"
	"sync"

	"retake/internal/fsm"
)

// errWithdrawn is why work on a checkout ends early.
var errWithdrawn = errors.New("director: the task was withdrawn")

// Withdrawals ends what is under way in the checkouts of tasks that are withdrawn, because git can be busy for minutes
// with work that nobody wants any more. It leaves alone what begins later: the machine knew of the withdrawal when it
// asked for that.
type Withdrawals struct {
	mu sync.Mutex
	// by the task's key in lower case: GitHub says names as they are spelt today
	ends map[string]map[*context.CancelCauseFunc]bool
}

// NewWithdrawals returns withdrawals with nothing under way.
func NewWithdrawals() *Withdrawals {
	return &Withdrawals{ends: map[string]map[*context.CancelCauseFunc]bool{}}
}

// During returns a context for work on a task's checkout, which ends with the withdrawal, too. The caller calls done.
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

// End ends what is under way in the checkout of a task.
func (w *Withdrawals) End(task fsm.IssueKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for cancel := range w.ends[strings.ToLower(string(task))] {
		(*cancel)(errWithdrawn)
	}
}

// IsWithdrawn reports whether a context of During has ended with the withdrawal.
func IsWithdrawn(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errWithdrawn) }
