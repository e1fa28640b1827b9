package bus

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// All subscriptions of the intake deliver into one channel, and one goroutine, the sorter, puts what comes to
// where it waits: with a goroutine for each of six subscriptions, a hundred thousand workers took some
// gigabytes of stacks while nothing came.

// inboundMessages is how many messages may wait for the sorter. It waits for nothing but the intake's lock, so
// that hardly more are there than the client reads in one go; what were over it is lost.
const inboundMessages = 1 << 16

// source is where a subscription's messages come from. The zero one: from nobody any more.
type source struct {
	gate *gate
	line line
}

// subscribe is called with the lock held.
func (i *intake) subscribe(g *gate, l line, t *taker) error {
	if t == nil {
		return nil
	}
	for _, subject := range i.bus.lineSubjects(l, g.worker) {
		sub, err := i.bus.nc.ChanSubscribe(subject, i.inbound)
		if err != nil {
			return fmt.Errorf("bus: listen on %s: %w", subject, err)
		}
		g.subs[l] = append(g.subs[l], sub)
		i.sources[sub] = source{g, l}
	}
	return nil
}

// unsubscribe is called with the lock held.
func (i *intake) unsubscribe(g *gate, l line) {
	for _, sub := range g.subs[l] {
		delete(i.sources, sub)
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			i.bus.log.Warn("bus unsubscribe", zap.Error(err))
		}
	}
	g.subs[l] = nil
}

// flush waits until the server knows of the subscriptions: who is admitted may ask at once. While the bus is
// away it learns of them when it is back.
func (i *intake) flush() {
	if i.bus.nc.IsConnected() {
		_ = i.bus.nc.FlushTimeout(answerTimeout) // else as above
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
	t := i.takers[s.line]
	i.mu.Unlock()
	switch {
	case s.gate == nil || t == nil || s.gate.shut.Load():
	case t.atOnce:
		if i.within(s.gate, s.line, m) {
			t.take(s.gate, m)
		}
	case s.gate.wait(s.line, t, m):
		i.work.Go(func() { i.workOff(s) })
	}
}

// backlogs are what waits of a worker, of each line. While something does, a goroutine works the line off.
type backlogs struct {
	waits sync.Mutex
	of    [lines]backlog
}

type backlog struct {
	waiting []arrival
	bytes   int
	lost    int
	busy    bool // somebody works it off
}

// arrival is a message for who served its line when it came.
type arrival struct {
	m *nats.Msg
	t *taker
}

// wait adds a message, unless its line is full. begin: somebody has to begin to work it off.
func (b *backlogs) wait(l line, t *taker, m *nats.Msg) (begin bool) {
	b.waits.Lock()
	defer b.waits.Unlock()
	w := &b.of[l]
	if len(w.waiting) >= pendingMessages || w.bytes+m.Size() > pendingBytes {
		w.lost++
		return false
	}
	w.waiting, w.bytes = append(w.waiting, arrival{m, t}), w.bytes+m.Size()
	begin = !w.busy
	w.busy = true
	return begin
}

// next takes the first message; false: there is none, and whoever asked is done. lost is how many were since
// the beginning.
func (b *backlogs) next(l line) (a arrival, lost int, ok bool) {
	b.waits.Lock()
	defer b.waits.Unlock()
	w := &b.of[l]
	if len(w.waiting) == 0 {
		w.busy, w.waiting = false, nil
		return a, 0, false
	}
	a, w.waiting[0] = w.waiting[0], arrival{}
	w.waiting, w.bytes = w.waiting[1:], w.bytes-a.m.Size()
	return a, w.lost, true
}

func (i *intake) workOff(s source) {
	for a, lost, ok := s.gate.next(s.line); ok; a, lost, ok = s.gate.next(s.line) {
		if !i.within(s.gate, s.line, a.m) {
			continue
		}
		if lost > 0 {
			i.cutOff(s.gate, fmt.Sprintf("had more than %d messages or %s waiting to be read: %d more were lost",
				pendingMessages, mebibytes(pendingBytes), lost))
			continue
		}
		a.t.take(s.gate, a.m)
	}
}
