package container

import (
	"context"
	"sync"
)

// attemptState is the state that this process keeps for an attempt, from the first operation until Stop succeeds.
type attemptState struct {
	streams *streams // nil unless a goroutine is reading them
	sent    sentSignals
}

// keyedLock serializes the operations on each attempt and keeps the attempt's state between them.
type keyedLock struct {
	mu      sync.Mutex
	entries map[string]*lockEntry // by attempt id
}

type lockEntry struct {
	token chan struct{} // capacity 1; full while the lock is held
	state attemptState  // owned by the holder
}

// acquire locks one attempt, or returns ctx's error. release unlocks the attempt, and also drops its state if forget is
// true.
func (l *keyedLock) acquire(ctx context.Context,
	attemptID string,
) (state *attemptState, release func(forget bool), err error) {
	var e *lockEntry
	for {
		e = l.entry(attemptID)
		select {
		case e.token <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		if l.entry(attemptID) == e {
			break
		}
		<-e.token // the previous holder dropped this entry
	}
	return &e.state, func(forget bool) {
		l.mu.Lock()
		if forget {
			delete(l.entries, attemptID)
		}
		l.mu.Unlock()
		<-e.token
	}, nil
}

func (l *keyedLock) entry(attemptID string) *lockEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[attemptID]
	if e == nil {
		if l.entries == nil {
			l.entries = map[string]*lockEntry{}
		}
		e = &lockEntry{token: make(chan struct{}, 1)}
		l.entries[attemptID] = e
	}
	return e
}
