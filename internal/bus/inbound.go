package bus

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"retake/internal/bus/link"
)

// All of the intake's subscriptions deliver into one channel. One goroutine, the sorter, moves each message from there
// to its backlog. With a goroutine per subscription, a hundred thousand idle workers with six subscriptions each would
// need gigabytes of stack memory.

// inboundMessages limits the number of messages waiting for the sorter. The NATS client drops further messages, which
// is rare, because the sorter blocks only on the intake's lock.
const inboundMessages = 1 << 16

// source identifies the worker and class of a subscription. The zero source belongs to a removed subscription.
type source struct {
	gate  *gate
	class class
}

// subscribe subscribes to one worker's messages of a class. The caller must hold the lock.
func (i *intake) subscribe(g *gate, c class, h *handler) error {
	if h == nil {
		return nil
	}
	for _, subject := range c.subjects(i.bus.subjects, g.worker) {
		sub, err := i.bus.nc.ChanSubscribe(subject, i.inbound)
		if err != nil {
			return fmt.Errorf("bus: subscribe to %s: %w", subject, err)
		}
		g.subs[c] = append(g.subs[c], sub)
		i.sources[sub] = source{g, c}
	}
	return nil
}

// unsubscribe removes the subscriptions to one worker's messages of a class. The caller must hold the lock.
func (i *intake) unsubscribe(g *gate, c class) {
	for _, sub := range g.subs[c] {
		delete(i.sources, sub)
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			i.bus.log.Warn("could not unsubscribe from a worker", zap.Error(err))
		}
	}
	g.subs[c] = nil
}

// flush waits until the server has the subscriptions, because an admitted worker may send requests at once. If the
// bus is unreachable, flush does not wait, because the client subscribes again on reconnect.
func (i *intake) flush() {
	if i.bus.nc.IsConnected() {
		_ = i.bus.nc.FlushTimeout(link.AnswerTimeout) // after an error, the client subscribes on reconnect
	}
}

func (i *intake) sort() {
	for {
		select {
		case m := <-i.inbound:
			i.put(m)
		case <-i.ctx.Done():
			return
		}
	}
}

func (i *intake) put(m *nats.Msg) {
	i.mu.Lock()
	s := i.sources[m.Sub]
	h := i.handlers[s.class]
	i.mu.Unlock()
	switch {
	case s.gate == nil || h == nil || s.gate.shut.Load():
	case h.atOnce:
		if i.within(s.gate, s.class, m) {
			h.take(s.gate, m)
		}
	case s.gate.wait(s.class, h, m):
		i.work.Go(func() { i.workOff(s) })
	}
}

// backlogs holds one worker's waiting messages, by class. While the backlog of a class is not empty, a goroutine
// processes it.
type backlogs struct {
	waits sync.Mutex
	of    [classes]backlog
}

type backlog struct {
	waiting []arrival
	bytes   int
	lost    int
	busy    bool // set while a goroutine processes the class
}

// arrival is a message with the handler that served its class when it arrived.
type arrival struct {
	m *nats.Msg
	h *handler
}

// wait adds a message to the backlog of its class. If the backlog is full, wait only counts the message as lost. If
// begin is true, the caller must start a goroutine that processes the backlog.
func (b *backlogs) wait(c class, h *handler, m *nats.Msg) (begin bool) {
	b.waits.Lock()
	defer b.waits.Unlock()
	w := &b.of[c]
	if len(w.waiting) >= pendingMessages || w.bytes+m.Size() > pendingBytes {
		w.lost++
		return false
	}
	w.waiting, w.bytes = append(w.waiting, arrival{m, h}), w.bytes+m.Size()
	begin = !w.busy
	w.busy = true
	return begin
}

// next removes and returns the first message of a class. lost is the number of messages lost so far. If ok is false,
// the backlog is empty and the calling goroutine must end.
func (b *backlogs) next(c class) (a arrival, lost int, ok bool) {
	b.waits.Lock()
	defer b.waits.Unlock()
	w := &b.of[c]
	if len(w.waiting) == 0 {
		w.busy, w.waiting = false, nil
		return a, 0, false
	}
	a, w.waiting[0] = w.waiting[0], arrival{}
	w.waiting, w.bytes = w.waiting[1:], w.bytes-a.m.Size()
	return a, w.lost, true
}

func (i *intake) workOff(s source) {
	for a, lost, ok := s.gate.next(s.class); ok; a, lost, ok = s.gate.next(s.class) {
		if !i.within(s.gate, s.class, a.m) {
			continue
		}
		if lost > 0 {
			i.cutOff(s.gate, fmt.Sprintf("had more than %d messages or %s waiting to be read, and lost %d messages",
				pendingMessages, mebibytes(pendingBytes), lost))
			continue
		}
		a.h.take(s.gate, a.m)
	}
}
