package intake

import (
	"context"
	"testing"
	"testing/synctest"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

func TestHelloIsAnsweredByTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Hellos{}
		welcome := wire.Welcome{AttemptID: "k3v9qx2m-1"}
		got := h.Exchange(t.Context(), "k3v9qx2m-1", wire.Hello{ProtocolVersion: wire.ProtocolVersion},
			func(_ context.Context, b fsm.EventBody, _ func()) { h.Answer(b.(fsm.Hello).Token, welcome) })
		if got != wire.Payload(welcome) {
			t.Errorf("got %v, want the machine's answer", got)
		}
		silent := func(_ context.Context, b fsm.EventBody, _ func()) {
			if b.(fsm.Hello).Incompatible != "9.0" {
				t.Errorf("version 9.0 was told as %q", b.(fsm.Hello).Incompatible)
			}
		}
		if got := h.Exchange(t.Context(), "w", wire.Hello{ProtocolVersion: "9.0"}, silent); got != nil {
			t.Errorf("got %v without an answer", got)
		}
		h.waiting.Range(func(token, _ any) bool { t.Errorf("request %d is kept", token); return true })
	})
}
