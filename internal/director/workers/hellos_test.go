package workers

import (
	"context"
	"testing"
	"testing/synctest"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

func TestHelloIsAnsweredByTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Hellos{RunID: "run_1"}
		h.Send = func(ctx context.Context, b fsm.EventBody, _ func()) {
			h.Welcome(ctx, fsm.Effect{Worker: "k3v9qx2m-1", Token: b.(fsm.Hello).Token})
		}
		got := h.exchange(t.Context(), "k3v9qx2m-1", wire.Hello{ProtocolVersion: wire.ProtocolVersion})
		if w, ok := got.(wire.Welcome); !ok || w.AttemptID != "k3v9qx2m-1" || w.Director.RunID != "run_1" {
			t.Errorf("got %v, want the machine's answer", got)
		}
		h.Send = func(_ context.Context, b fsm.EventBody, _ func()) {
			if b.(fsm.Hello).Incompatible != "9.0" {
				t.Errorf("version 9.0 was sent as %q", b.(fsm.Hello).Incompatible)
			}
		}
		if got := h.exchange(t.Context(), "w", wire.Hello{ProtocolVersion: "9.0"}); got != nil {
			t.Errorf("got %v without an answer", got)
		}
		h.waiting.Range(func(token, _ any) bool { t.Errorf("request %d remains", token); return true })
	})
}
