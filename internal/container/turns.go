package container

import (
	"context"
	"sync"
)

// turns makes operations on the same attempt wait for each other, and keeps what is known about it in between.
type turns[T any] struct {
	mu   sync.Mutex
	held map[string]*turn[T] // by attempt id, from the first operation until nothing is left to remember
}

type turn[T any] struct {
	token chan struct{} // capacity 1
	kept  T             // belongs to who holds the turn
}

// take waits for the attempt's turn. The caller gives it back with release; gone says that nothing is left to remember. The
// error is the context's.
func (ts *turns[T]) take(ctx context.Context, attemptID string) (kept *T, release func(gone bool), err error) {
	var t *turn[T]
	for {
		t = ts.find(attemptID)
		select {
		case t.token <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		if ts.find(attemptID) == t {
			break
		}
		<-t.token // who had the turn before us has finished with this attempt: begin anew
	}
	return &t.kept, func(gone bool) {
		ts.mu.Lock()
		if gone {
			delete(ts.held, attemptID)
		}
		ts.mu.Unlock()
		<-t.token
	}, nil
}

func (ts *turns[T]) find(attemptID string) *turn[T] {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.held[attemptID]
	if t == nil {
		if ts.held == nil {
			ts.held = map[string]*turn[T]{}
		}
		t = &turn[T]{token: make(chan struct{}, 1)}
		ts.held[attemptID] = t
	}
	return t
}
