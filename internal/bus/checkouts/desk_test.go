package checkouts

import (
	"errors"
	"testing"
)

// TestDeskRefusesAWorkerThatIsShutOut checks that neither the pass nor the stored state is consulted.
func TestDeskRefusesAWorkerThatIsShutOut(t *testing.T) {
	d := NewDesk(Service{Rules: Rules{Task: func(string) string { return "task" }}}, "task-1", &Pass{},
		func() bool { return true })
	if err := d.begin(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
