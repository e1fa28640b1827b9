package bus

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// inOrderChunk is how many one goroutine takes at once, if so many wait: handing them over costs as much for
// many as for one.
const inOrderChunk = 16

// inOrder reads with read, prepares on all cores what it puts, and calls what that returns in the order of the
// puts, one after the other. At most waiting of what was put waits. It returns read's error when read has
// returned and all that it put was called, or the first error of a call, or ctx's; then nothing runs any more,
// and what was not called is never called.
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
		defer close(q.in) // what was put is called all the same
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

// queue is what was read and is prepared by nobody yet.
type queue[T any] struct {
	in   chan T
	last chan (<-chan struct{}) // whoever takes has what is in it: closed when the chunk that was taken last was called
}

// chunk is some of it, in order.
type chunk[T any] struct {
	all    []T
	before <-chan struct{} // closed when it is this one's turn
	called chan<- struct{} // to be closed after it
}

// take waits for what is there, and takes several; not ok: there is nothing more.
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
