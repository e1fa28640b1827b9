package director

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// A director that receives a signal to end during its start ends normally, and still reports other problems.
func TestEndedWhileItBegins(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancelCause(t.Context())
	signal := errors.New("SIGTERM")
	cancel(signal)
	other := errors.New("no such folder")
	for _, row := range []struct {
		ctx       context.Context
		err, want error
	}{
		{ended, fmt.Errorf("bus: no answer: %w", context.Canceled), nil},
		{ended, fmt.Errorf("bus: %w", signal), nil},
		{ended, other, other},
		{ended, nil, nil},
		{t.Context(), other, other},
		{t.Context(), context.Canceled, context.Canceled},
	} {
		if got := unlessEnded(row.ctx, row.err); !errors.Is(got, row.want) || (got == nil) != (row.want == nil) {
			t.Errorf("%v became %v, want %v", row.err, got, row.want)
		}
	}
}
