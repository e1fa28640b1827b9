package checkouts

import (
	"errors"
	"testing"
)

// TestDeskRefusesAWorkerThatIsShutOut checks that shut alone is enough for a refusal.
func TestDeskRefusesAWorkerThatIsShutOut(t *testing.T) {
	d := NewDesk(Service{Rules: Rules{Task: func(string) string { return "task" }}}, "task-1", &Pass{},
		func() bool { return true })
	if err := d.begin(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
