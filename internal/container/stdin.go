package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/docker/docker/api/types"
	apicontainer "github.com/docker/docker/api/types/container"
	"go.uber.org/zap"
)

// input is the standard input of a container that is about to start; nil: it has none. Whatever happens to this
// process, the first process of the container reads either all of it or an early end: the daemon closes the
// pipe when the connection ends.
type input struct {
	types.HijackedResponse
	written chan error // one: all of it is with the daemon, or why not
}

// writtenBefore bounds the wait for the input to be with the daemon before the container starts. The socket
// holds some 200 KB, more than most plans: then a start that the daemon has begun needs this process no more.
// What is longer is written while the container reads.
const writtenBefore = 200 * time.Millisecond

// attach opens the input of a created container, before it starts, and begins to write it.
func (d *Docker) attach(ctx context.Context, id string, spec Spec) (*input, error) {
	if len(spec.Stdin) == 0 {
		return nil, nil
	}
	answer, err := d.api.ContainerAttach(ctx, id, apicontainer.AttachOptions{Stream: true, Stdin: true})
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	i := &input{answer, make(chan error, 1)}
	go func() {
		_, err := i.Conn.Write(spec.Stdin)
		if err == nil {
			err = i.CloseWrite()
		}
		i.written <- err
	}()
	select {
	case err := <-i.written:
		i.written <- err
	case <-time.After(writtenBefore):
	}
	return i, nil
}

// passOn returns when all of the input is with the daemon, or ctx ends. What the daemon has, it passes on,
// whoever goes away; it says so by ending the connection, but not always: one that looks at the container only
// after the start keeps the connection until the container ends. So nobody waits for that word, and missing it
// is nothing; an end without it is told. Of an input that did not come whole, the first process sees the end
// too early, and what it makes of that is how it ends.
func (d *Docker) passOn(ctx context.Context, i *input, attemptID string) {
	if i == nil {
		return
	}
	tell := func(err error) {
		d.log.Warn("a worker did not get its whole input", zap.String("worker", attemptID), zap.Error(err))
	}
	stop := context.AfterFunc(ctx, func() { _ = i.Conn.SetDeadline(time.Now()) })
	err := <-i.written
	stop()
	if err != nil {
		tell(errors.Join(err, ctx.Err()))
		i.close()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil { // the socket has it all
		i.close()
		return
	}
	d.readers.Go(func() {
		defer i.close()
		_ = i.Conn.SetReadDeadline(time.Now().Add(d.limits.input))
		defer context.AfterFunc(d.ctx, func() { _ = i.Conn.SetDeadline(time.Now()) })()
		// nothing comes
		if _, err := io.Copy(io.Discard, i.Reader); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			tell(err)
		}
	})
}

func (i *input) close() {
	if i != nil {
		i.Close()
	}
}
