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

// input is the open standard input of a starting container, or nil if the spec has no input. If this process dies, the
// daemon closes the pipe along with the connection, and the container's first process reads either the whole input or
// an early EOF.
type input struct {
	types.HijackedResponse
	written chan error // receives the result of writing to the daemon, once
}

// writtenBefore limits how long attach waits for the input to be written. The socket buffers about 200 KB, more than
// most plans need, so the daemon can usually complete the start without this process. This process writes the rest of a
// longer input while the container reads.
const writtenBefore = 200 * time.Millisecond

// attach opens the input of a created container and begins to write it.
func (e *engine) attach(ctx context.Context, id string, spec Spec) (*input, error) {
	if len(spec.Stdin) == 0 {
		return nil, nil
	}
	answer, err := e.api.ContainerAttach(ctx, id, apicontainer.AttachOptions{Stream: true, Stdin: true})
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

// passOn returns when the daemon has received the whole input, or ctx is done. The daemon forwards all received bytes,
// and usually confirms that by closing the connection. A daemon that inspects the container only after the start keeps
// the connection open until the container ends, so a missing confirmation is ignored. If the connection breaks earlier,
// passOn logs it, and the first process fails because its input ends early.
func (d *Docker) passOn(ctx context.Context, i *input, attemptID string) {
	if i == nil {
		return
	}
	warn := func(err error) {
		d.log.Warn("worker received only part of its input", zap.String("worker", attemptID), zap.Error(err))
	}
	stop := context.AfterFunc(ctx, func() { _ = i.Conn.SetDeadline(time.Now()) })
	err := <-i.written
	stop()
	if err != nil {
		warn(errors.Join(err, ctx.Err()))
		i.close()
		return
	}
	if !d.background.start(func() {
		defer i.close()
		_ = i.Conn.SetReadDeadline(time.Now().Add(d.limits.input))
		defer context.AfterFunc(d.background.ctx, func() { _ = i.Conn.SetDeadline(time.Now()) })()
		// The daemon never sends data here.
		if _, err := io.Copy(io.Discard, i.Reader); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			warn(err)
		}
	}) {
		i.close() // the socket buffers the whole input
	}
}

func (i *input) close() {
	if i != nil {
		i.Close()
	}
}
