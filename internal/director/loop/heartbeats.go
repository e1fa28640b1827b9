package loop

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"retake/internal/fsm"
)

// heartbeats holds each worker's newest heartbeat until the owner takes it. The goroutines that read heartbeats from
// the bus therefore never wait for the owner. Even with a hundred thousand workers, the owner handles only about fifty
// inputs a second. The owner takes all pending heartbeats before it acts on a deadline, so a worker with a pending
// heartbeat does not count as silent.
type heartbeats struct {
	seed  maphash.Seed
	parts [heartbeatParts]heartbeatPart
	some  chan struct{} // has a token while a heartbeat is pending
}

// heartbeatParts is the number of parts with separate locks, so that many bus readers can add heartbeats at the same
// time.
const heartbeatParts = 16

type heartbeatPart struct {
	mu    sync.Mutex
	all   []fsm.Sign
	index map[string]int // index in all, by worker
	since time.Time      // when the first heartbeat in all arrived
}

// heartbeatBatch is the time during which heartbeats accumulate before the owner takes them.
const heartbeatBatch = 20 * time.Millisecond

func newHeartbeats() *heartbeats {
	return &heartbeats{seed: maphash.MakeSeed(), some: make(chan struct{}, 1)}
}

// put stores a heartbeat until the owner takes it.
func (s *heartbeats) put(n fsm.Sign) {
	s.parts[maphash.String(s.seed, n.Worker)%heartbeatParts].put(n)
	select {
	case s.some <- struct{}{}:
	default:
	}
}

func (p *heartbeatPart) put(n fsm.Sign) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, waits := p.index[n.Worker]; waits {
		n.Activity = n.Activity.After(p.all[i].Activity)
		p.all[i] = n
		return
	}
	if p.index == nil {
		p.index = map[string]int{}
	}
	if len(p.all) == 0 {
		p.since = n.At
	}
	p.index[n.Worker] = len(p.all)
	p.all = append(p.all, n)
}

// take removes and returns the pending heartbeats, in arbitrary order.
func (s *heartbeats) take() (all []fsm.Sign) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		all = append(all, p.all...)
		clear(p.index)
		clear(p.all) // free the old entries
		p.all = p.all[:0]
		p.mu.Unlock()
	}
	return all
}

// oldest returns the arrival time of the heartbeat that has waited longest, or zero.
func (s *heartbeats) oldest() (at time.Time) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		if len(p.all) > 0 && (at.IsZero() || p.since.Before(at)) {
			at = p.since
		}
		p.mu.Unlock()
	}
	return at
}

// Seen stores a worker's heartbeat for HandOver. It never blocks.
func (o *Owner) Seen(s fsm.Sign) { o.heartbeats.put(s) }

// HandOver makes the owner take heartbeats shortly after the first one arrives. It returns nil when ctx or the owner's
// session ends.
func (o *Owner) HandOver(ctx context.Context) error {
	for {
		select {
		case <-o.heartbeats.some:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(heartbeatBatch):
		case <-ctx.Done():
			return nil
		}
		select {
		case o.inputs <- input{}: // an empty input makes the owner take the pending heartbeats
		case <-o.done:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// takeSigns offers the pending heartbeats to the machine.
func (o *Owner) takeSigns(at time.Time) error {
	if oldest := o.heartbeats.oldest(); !oldest.IsZero() {
		o.late.add(DelayHeartbeat, at.Sub(oldest), at)
	}
	for _, part := range fsm.InParts(o.heartbeats.take()) {
		if err := o.driver.Offer(fsm.Event{At: at, Body: part}, 0); err != nil {
			return err
		}
	}
	return nil
}
