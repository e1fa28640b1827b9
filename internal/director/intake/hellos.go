package intake

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

// Hellos holds the hello requests of workers that wait for the machine's answer. The zero value is ready to use.
type Hellos struct {
	last    atomic.Uint64
	waiting sync.Map // token → chan wire.Payload
}

// helloTimeout is how long a hello waits for its answer. After that the worker asks again.
const helloTimeout = 5 * time.Second

// Exchange sends a hello to the machine and returns the answer. It returns nil if the answer does not come in time,
// or if the worker was fenced.
func (h *Hellos) Exchange(ctx context.Context, worker string, m wire.Hello,
	send func(context.Context, fsm.EventBody, func()),
) wire.Payload {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	answer := make(chan wire.Payload, 1)
	token := h.last.Add(1)
	h.waiting.Store(token, answer)
	defer h.waiting.Delete(token)
	body := fsm.Hello{Worker: worker, Token: token}
	if wire.CheckVersion(m.ProtocolVersion) != nil {
		body.Incompatible = m.ProtocolVersion
	}
	send(ctx, body, nil)
	select {
	case p := <-answer:
		return p
	case <-ctx.Done():
		return nil
	}
}

// Answer answers the request with the given token if it still waits. A nil payload fences the worker. It never
// blocks.
func (h *Hellos) Answer(token uint64, p wire.Payload) {
	if c, ok := h.waiting.LoadAndDelete(token); ok {
		c.(chan wire.Payload) <- p
	}
}
