package serve

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/zap"

	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// A restart helps if the owner does not answer, unless its session has ended.
func TestAStuckOwnerIsNotAlive(t *testing.T) {
	t.Parallel()
	m := fsm.New(looptest.Config())
	stuck := &Status{Owner: loop.New(fsm.NewDriver(m, 0, "test"), looptest.NewJournal(), zap.NewNop())}
	asked := func() int {
		w := httptest.NewRecorder()
		stuck.live(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, operator.LivePath, http.NoBody))
		return w.Code
	}
	if status := asked(); status != http.StatusServiceUnavailable {
		t.Errorf("an owner that does not answer: %d", status)
	}
	over, end := context.WithCancelCause(t.Context())
	end(loop.ErrLeaseLost)
	if err := stuck.Owner.Run(over); err != nil {
		t.Fatal(err)
	}
	if status := asked(); status != http.StatusOK {
		t.Errorf("a session that is over: %d", status)
	}
}
