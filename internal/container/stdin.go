package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types"
	apicontainer "github.com/docker/docker/api/types/container"
)

// input is the standard input of a container that is about to start; nil: it has none. Whatever happens to this process, the
// first process of the container reads either all of it or an early end: the daemon closes the pipe when the connection ends.
type input struct{ types.HijackedResponse }

// attach opens the input of a created container, before it starts.
func (d *Docker) attach(ctx context.Context, id string, spec Spec) (*input, error) {
	if len(spec.Stdin) == 0 {
		return nil, nil
	}
	answer, err := d.api.ContainerAttach(ctx, id, apicontainer.AttachOptions{Stream: true, Stdin: true})
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	return &input{answer}, nil
}

// feed writes all of the input and ends it. It returns when the daemon has passed it on, or ctx ends.
func (i *input) feed(ctx context.Context, data []byte) error {
	if i == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = i.Conn.SetDeadline(time.Now()) })
	defer stop()
	_, err := i.Conn.Write(data)
	if err == nil {
		err = i.CloseWrite()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, i.Reader) // nothing comes; it ends when the daemon has written the last byte
	}
	return errors.Join(err, ctx.Err())
}

func (i *input) close() {
	if i != nil {
		i.Close()
	}
}
