package worker

import (
	"context"
	"sync"
	"time"
)

// gate stands before every stage. A pause never interrupts one: an agent's connection would break.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when it opens; nil: it is open
}

// shut and open may be called twice, by any goroutine; they say whether that changed anything.
func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		return false
	}
	g.opened = make(chan struct{})
	return true
}

func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		return false
	}
	close(g.opened)
	g.opened = nil
	return true
}

func (g *gate) way() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// pass returns when the gate is open, or ctx has ended. If it has to wait it calls waiting first, once.
func (g *gate) pass(ctx context.Context, waiting func()) {
	for waited := false; ctx.Err() == nil; waited = true {
		way := g.way()
		if way == nil {
			return
		}
		if !waited {
			waiting()
		}
		select {
		case <-way:
		case <-ctx.Done():
		}
	}
}

// countdown is a timer that can be held. It belongs to one goroutine.
type countdown struct {
	*time.Timer
	ends time.Time
	left time.Duration // while it is held
	held bool
}

func newCountdown(d time.Duration) *countdown {
	return &countdown{Timer: time.NewTimer(d), ends: time.Now().Add(d)}
}

// hold stops the time, or lets it go on.
func (c *countdown) hold(held bool) {
	switch {
	case held == c.held:
		return
	case held:
		c.left = time.Until(c.ends)
		c.Stop()
	default:
		c.ends = time.Now().Add(c.left)
		c.Reset(c.left)
	}
	c.held = held
}
