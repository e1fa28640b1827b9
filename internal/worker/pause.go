package worker

import (
	"context"
	"sync"
	"time"
)

// pauseSwitch pauses the attempt before a stage. It never interrupts a running stage, because that would break an
// agent's connection.
type pauseSwitch struct {
	mu      sync.Mutex
	resumed chan struct{} // closed by resume; nil unless paused
}

// pause and resume are idempotent and safe for concurrent use. They return whether they changed anything.
func (p *pauseSwitch) pause() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resumed != nil {
		return false
	}
	p.resumed = make(chan struct{})
	return true
}

func (p *pauseSwitch) resume() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resumed == nil {
		return false
	}
	close(p.resumed)
	p.resumed = nil
	return true
}

// wait returns when the attempt is not paused or ctx is done. Before it blocks, it calls waiting once.
func (p *pauseSwitch) wait(ctx context.Context, waiting func()) {
	for waited := false; ctx.Err() == nil; waited = true {
		p.mu.Lock()
		resumed := p.resumed
		p.mu.Unlock()
		if resumed == nil {
			return
		}
		if !waited {
			waiting()
		}
		select {
		case <-resumed:
		case <-ctx.Done():
		}
	}
}

// pausableTimer is a timer that can be stopped and continued. It is not safe for concurrent use.
type pausableTimer struct {
	*time.Timer
	ends   time.Time
	left   time.Duration // time left, while paused
	paused bool
}

func newPausableTimer(d time.Duration) *pausableTimer {
	return &pausableTimer{Timer: time.NewTimer(d), ends: time.Now().Add(d)}
}

// setPaused pauses or resumes the timer.
func (c *pausableTimer) setPaused(paused bool) {
	switch {
	case paused == c.paused:
		return
	case paused:
		c.left = time.Until(c.ends)
		c.Stop()
	default:
		c.ends = time.Now().Add(c.left)
		c.Reset(c.left)
	}
	c.paused = paused
}
