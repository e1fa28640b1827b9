package bus

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// inOrderChunk is the maximum number of elements that a goroutine takes at once. Passing a whole chunk between
// goroutines costs as much as passing one element.
const inOrderChunk = 16

// inOrder runs read, which passes elements to put. It calls prepare for the elements concurrently on all cores, and
// runs the returned calls one at a time, in the order of the elements. waiting is the capacity of the queue, and put
// blocks while the queue is full.
//
// inOrder returns the first error from a call or from ctx. Otherwise it returns read's error after all calls have run.
// When it returns, all its goroutines have ended.
//
//	read ──put──▶ waiting ──take──▶ prepare (one goroutine for each core) ──each after the one before──▶ call
func inOrder[T any](ctx context.Context, waiting int, read func(ctx context.Context, put func(T)) error,
	prepare func(T) (call func() error),
) error {
	group, ctx := errgroup.WithContext(ctx)
	q := queue[T]{in: make(chan T, waiting), last: make(chan (<-chan struct{}), 1)}
	none := make(chan struct{})
	close(none)
	q.last <- none
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for chunk, ok := q.take(ctx); ok; chunk, ok = q.take(ctx) {
				if err := chunk.call(ctx, prepare); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var ended error
	group.Go(func() error {
		defer close(q.in) // calls for elements already queued still run
		ended = read(ctx, func(one T) {
			select {
			case q.in <- one:
			case <-ctx.Done():
			}
		})
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return ended
}

// queue holds the elements that were read but not yet prepared.
type queue[T any] struct {
	in   chan T
	last chan (<-chan struct{}) // holds one channel, which is closed after the calls of the newest chunk
}

// chunk is a run of consecutive elements.
type chunk[T any] struct {
	all    []T
	before <-chan struct{} // closed when this chunk's calls may run
	called chan<- struct{} // closed after this chunk's calls
}

// take waits for elements and returns a chunk of them. ok is false after the last chunk.
func (q *queue[T]) take(ctx context.Context) (c chunk[T], ok bool) {
	select {
	case c.before = <-q.last:
	case <-ctx.Done():
		return c, false
	}
	next := c.before
	defer func() { q.last <- next }()
	select {
	case one, more := <-q.in:
		if !more {
			return c, false
		}
		c.all = append(c.all, one)
	case <-ctx.Done():
		return c, false
	}
	for len(c.all) < inOrderChunk {
		select {
		case one, more := <-q.in:
			if more {
				c.all = append(c.all, one)
				continue
			}
		default:
		}
		break
	}
	called := make(chan struct{})
	c.called, next = called, called
	return c, true
}

func (c chunk[T]) call(ctx context.Context, prepare func(T) func() error) error {
	calls := make([]func() error, len(c.all))
	for i, one := range c.all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		calls[i] = prepare(one)
	}
	select {
	case <-c.before:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, call := range calls {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := call(); err != nil {
			return err
		}
	}
	close(c.called)
	return nil
}
