package workers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
		if len(h.waiting) > 0 {
			t.Errorf("requests remain: %v", h.waiting)
		}
	})
}

// On a slow disk each decision takes longer than its request waits. The worker's next request gets its answer.
func TestALateDecisionAnswersTheNextHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Hellos{RunID: "run_1"}
		h.Send = func(_ context.Context, b fsm.EventBody, _ func()) {
			time.AfterFunc(helloTimeout+time.Second, func() {
				h.Welcome(t.Context(), fsm.Effect{Worker: b.(fsm.Hello).Worker, Token: b.(fsm.Hello).Token})
			})
		}
		ask := func(worker string) wire.Payload {
			return h.exchange(t.Context(), worker, wire.Hello{ProtocolVersion: wire.ProtocolVersion})
		}
		if got := ask("k3v9qx2m-1"); got != nil {
			t.Errorf("got %v before the decision", got)
		}
		other := make(chan wire.Payload, 1)
		go func() { other <- ask("p7kwj6vg-1") }()
		if got, ok := ask("k3v9qx2m-1").(wire.Welcome); !ok || got.AttemptID != "k3v9qx2m-1" {
			t.Errorf("got %v after the decision", got)
		}
		if got := <-other; got != nil {
			t.Errorf("another worker got %v", got)
		}
		time.Sleep(2 * helloTimeout)
	})
}

// The decision comes between two requests of the worker. Without the stored answer, every request of a worker that
// pauses would miss its answer.
func TestADecisionBetweenTwoHellosAnswersTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Hellos{RunID: "run_1"}
		h.Send = func(_ context.Context, b fsm.EventBody, _ func()) {
			time.AfterFunc(helloTimeout+time.Second, func() {
				h.Welcome(t.Context(), fsm.Effect{Worker: b.(fsm.Hello).Worker, Token: b.(fsm.Hello).Token})
			})
		}
		ask := func() wire.Payload {
			return h.exchange(t.Context(), "k3v9qx2m-1", wire.Hello{ProtocolVersion: wire.ProtocolVersion})
		}
		if got := ask(); got != nil {
			t.Errorf("got %v before the decision", got)
		}
		time.Sleep(2 * time.Second)
		if got, ok := ask().(wire.Welcome); !ok || got.AttemptID != "k3v9qx2m-1" {
			t.Errorf("got %v after the decision", got)
		}
		ask() // its decision comes late, and stays valid for a while
		time.Sleep(time.Second + lateFor)
		if got := ask(); got != nil {
			t.Errorf("got %v, an answer that is too old", got)
		}
		time.Sleep(2 * helloTimeout)
	})
}

// A fence takes back an earlier welcome, and the machine sees every hello.
func TestAFenceTakesBackALateWelcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sent := Hellos{RunID: "run_1"}, 0
		h.Send = func(context.Context, fsm.EventBody, func()) { sent++ }
		ask := func() wire.Payload {
			return h.exchange(t.Context(), "k3v9qx2m-1", wire.Hello{ProtocolVersion: wire.ProtocolVersion})
		}
		ask()
		h.Welcome(t.Context(), fsm.Effect{Worker: "k3v9qx2m-1", Token: 1})
		if got := ask(); got == nil || sent != 2 {
			t.Errorf("got %v after %d hellos, want the late welcome after two", got, sent)
		}
		h.Welcome(t.Context(), fsm.Effect{Worker: "k3v9qx2m-1", Token: 2})
		h.answer(3, "k3v9qx2m-1", nil)
		if got := ask(); got != nil {
			t.Errorf("got %v after a fence", got)
		}
	})
}
