package loop

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"retake/internal/fsm"
)

// signs keeps signs of life of workers until the owner takes them, the newest of each worker. So a fleet of a hundred
// thousand workers costs the owner some fifty inputs a second, and no heartbeat waits for it.
//
// A sign that waits here is no silence: the owner takes all of them before it decides about a deadline.
type signs struct {
	seed  maphash.Seed
	parts [signParts]signPart
	some  chan struct{} // a token while any waits
}

// signParts is how many readers of the bus can put something in at the same time: each part has a lock.
const signParts = 16

type signPart struct {
	mu    sync.Mutex
	all   []fsm.Sign
	index map[string]int // in all, by worker
}

// signsTogether is for how long signs of life are collected before the owner is asked to take them.
const signsTogether = 20 * time.Millisecond

func newSigns() *signs { return &signs{seed: maphash.MakeSeed(), some: make(chan struct{}, 1)} }

// put keeps a sign of life until the owner takes it.
func (s *signs) put(n fsm.Sign) {
	s.parts[maphash.String(s.seed, n.Worker)%signParts].put(n)
	select {
	case s.some <- struct{}{}:
	default:
	}
}

func (p *signPart) put(n fsm.Sign) {
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
	p.index[n.Worker] = len(p.all)
	p.all = append(p.all, n)
}

// take returns what waits, in no particular order.
func (s *signs) take() (all []fsm.Sign) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		all = append(all, p.all...)
		clear(p.index)
		clear(p.all) // it keeps nothing alive
		p.all = p.all[:0]
		p.mu.Unlock()
	}
	return all
}

// Seen keeps a sign of life of a worker. It never blocks; HandOver brings it to the machine.
func (o *Owner) Seen(s fsm.Sign) { o.signs.put(s) }

// HandOver makes the owner take signs of life soon after the first came, until ctx ends.
func (o *Owner) HandOver(ctx context.Context) error {
	for {
		select {
		case <-o.signs.some:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(signsTogether):
		case <-ctx.Done():
			return nil
		}
		select {
		case o.inputs <- input{}: // with nothing else: it takes them
		case <-o.done:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// takeSigns offers the machine what workers have shown of life.
func (o *Owner) takeSigns(at time.Time) error {
	for _, part := range fsm.InParts(o.signs.take()) {
		if err := o.driver.Offer(fsm.Event{At: at, Body: part}, 0); err != nil {
			return err
		}
	}
	return nil
}
