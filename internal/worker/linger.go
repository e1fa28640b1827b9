package worker

import (
	"sync"
	"time"
)

// linger detects an agent that has reported its result but does not exit. Without linger, such a process would occupy
// its stage until the stage's timeout.
type linger struct {
	bound time.Duration // maximum time from the last output to the exit; 0 means no limit
	over  chan struct{} // closed when that time has passed

	mu      sync.Mutex
	last    time.Time // time of the last output on any stream
	streams map[*streamTap]streamState
	timer   *time.Timer
	expired bool
}

type streamState struct {
	atEnd bool // the stream's output may be complete
	ended bool // the stream has a result, and the agent has not resumed
}

func newLinger(bound time.Duration) *linger {
	return &linger{bound: bound, over: make(chan struct{}), streams: map[*streamTap]streamState{}}
}

// wrote restarts the countdown if a stream is at its end, and otherwise cancels it. A nil tap means a stream without
// events.
func (l *linger) wrote(t *streamTap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last = time.Now(); t != nil {
		l.streams[t] = streamState{t.reader.AtEnd(), t.reader.Ended()}
	}
	if l.bound <= 0 {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.any(func(s streamState) bool { return s.atEnd }) {
		l.timer = time.AfterFunc(l.bound, l.expire)
	}
}

// any reports whether in returns true for any stream. The caller holds l.mu.
func (l *linger) any(in func(streamState) bool) bool {
	for _, s := range l.streams {
		if in(s) {
			return true
		}
	}
	return false
}

// expire closes over, unless output arrived while the timer was firing.
func (l *linger) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.expired && l.any(func(s streamState) bool { return s.atEnd }) && time.Since(l.last) >= l.bound {
		l.expired = true
		close(l.over)
	}
}

// stop cancels the countdown after the agent has exited. It reports whether the agent had reported its result.
func (l *linger) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	return l.any(func(s streamState) bool { return s.ended })
}

// activity records the output of a stream without events.
type activity struct{ linger *linger }

func (a activity) Write(p []byte) (int, error) {
	a.linger.wrote(nil)
	return len(p), nil
}
