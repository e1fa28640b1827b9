package effects

import (
	"context"
	"testing"
)

// A withdrawal ends the work of its task, in any spelling of GitHub, and leaves other tasks running.
func TestWithdrawalEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := NewWithdrawals()
	one, done := w.During(t.Context(), "Acme/Widgets#1")
	two, doneToo := w.During(t.Context(), "Acme/Widgets#2")
	defer doneToo()
	w.End("acme/widgets#1")
	if !IsWithdrawn(one) || two.Err() != nil {
		t.Errorf("ended: %v, %v; want only the first", context.Cause(one), context.Cause(two))
	}
	if done(); len(w.ends) != 1 {
		t.Errorf("%d tasks are known, want only the active one", len(w.ends))
	}
}
