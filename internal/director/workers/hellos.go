package workers

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

// Hellos answers workers' hello requests with the machine's decisions.
type Hellos struct {
	Bus               *bus.Bus
	Send              func(context.Context, fsm.EventBody, func()) // offers an event to the machine
	Control           *Control
	RunID             string
	HeartbeatInterval time.Duration
	Log               *zap.Logger

	last    atomic.Uint64
	mu      sync.Mutex
	waiting map[uint64]waitingHello // by token
	late    map[string]lateAnswer   // by worker
}

// waitingHello is a request that has not been answered yet.
type waitingHello struct {
	worker string
	answer chan wire.Payload // capacity 1
}

// lateAnswer is an answer that came after the worker's request had timed out.
type lateAnswer struct {
	payload wire.Payload
	at      time.Time
}

// lateFor is the lifetime of a late answer. A worker sends its next request within that time.
const lateFor = 30 * time.Second

// Serve answers hellos until ctx is done.
func (h *Hellos) Serve(ctx context.Context) error {
	return h.Bus.ServeHello(ctx, func(worker string, m wire.Hello) wire.Payload { return h.exchange(ctx, worker, m) })
}

// helloTimeout bounds how long a hello waits for its answer. After that the worker asks again.
const helloTimeout = 5 * time.Second

// exchange sends a hello to the machine and returns the answer. It returns nil if the answer does not arrive in time,
// or if the worker was fenced.
func (h *Hellos) exchange(ctx context.Context, worker string, m wire.Hello) wire.Payload {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	answer := make(chan wire.Payload, 1)
	token := h.last.Add(1)
	late := h.wait(token, waitingHello{worker, answer})
	defer h.forget(token)
	body := fsm.Hello{Worker: worker, Token: token}
	if wire.CheckVersion(m.ProtocolVersion) != nil {
		body.Incompatible = m.ProtocolVersion
	}
	h.Send(ctx, body, nil)
	if late != nil { // the machine still gets the hello, and can fence the worker
		return late
	}
	select {
	case p := <-answer:
		return p
	case <-ctx.Done():
		return nil
	}
}

// wait registers a request that waits for its answer. If the answer to an earlier request from the worker came too
// late, wait returns that answer instead.
func (h *Hellos) wait(token uint64, w waitingHello) wire.Payload {
	h.mu.Lock()
	defer h.mu.Unlock()
	if late, ok := h.late[w.worker]; ok {
		delete(h.late, w.worker)
		if time.Since(late.at) < lateFor {
			return late.payload
		}
	}
	if h.waiting == nil {
		h.waiting = map[uint64]waitingHello{}
	}
	h.waiting[token] = w
	return nil
}

func (h *Hellos) forget(token uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, token)
}

// answer sends p to the request with the given token. If that request has timed out, p goes to the worker's later
// requests instead. If no later request is waiting, answer stores p for the worker's next request, because on a slow
// disk every decision may take longer than a request waits. A nil payload fences the worker. answer never blocks.
func (h *Hellos) answer(token uint64, worker string, p wire.Payload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w, ok := h.waiting[token]; ok {
		delete(h.waiting, token)
		w.answer <- p
		return
	}
	found := false
	for later, w := range h.waiting {
		if w.worker == worker && later > token {
			delete(h.waiting, later)
			w.answer <- p
			found = true
		}
	}
	switch {
	case p == nil:
		delete(h.late, worker)
	case !found:
		h.keepLate(worker, p)
	}
}

// keepLate stores an answer for the worker's next request, and drops expired answers. The caller must hold h.mu.
func (h *Hellos) keepLate(worker string, p wire.Payload) {
	if h.late == nil {
		h.late = map[string]lateAnswer{}
	}
	maps.DeleteFunc(h.late, func(_ string, a lateAnswer) bool { return time.Since(a.at) >= lateFor })
	h.late[worker] = lateAnswer{p, time.Now()}
}

// Welcome accepts a worker.
func (h *Hellos) Welcome(_ context.Context, e fsm.Effect) fsm.EffectEnded {
	h.answer(e.Token, e.Worker, wire.Welcome{
		ProtocolVersion: wire.ProtocolVersion, Director: wire.WelcomeDirector{RunID: h.RunID},
		AttemptID: e.Worker, HeartbeatIntervalSeconds: h.HeartbeatInterval.Seconds(),
	})
	return fsm.EffectEnded{}
}

// Refuse refuses a worker that speaks another version of the protocol.
func (h *Hellos) Refuse(_ context.Context, e fsm.Effect) fsm.EffectEnded {
	if no := wire.CheckVersion(e.Why); no != nil {
		h.answer(e.Token, e.Worker, *no)
	}
	return fsm.EffectEnded{}
}

// Fence tells a worker without an attempt to stop.
func (h *Hellos) Fence(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	h.Log.Info("fenced a worker without an attempt", zap.String("worker", e.Worker))
	h.Control.Send(ctx, e.Worker, wire.Stop{Reason: wire.StopFenced})
	h.answer(e.Token, e.Worker, nil)
	if e.Unheard != 0 {
		if err := h.Bus.Reports().Unheard(ctx, e.Worker, e.Unheard); err != nil {
			h.Log.Warn("could not reply to the sender of a report", zap.String("worker", e.Worker), zap.Error(err))
		}
	}
	return fsm.EffectEnded{}
}
