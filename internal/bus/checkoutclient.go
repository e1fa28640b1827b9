package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

// RefusedError means that the director refused a checkout request. Why is one of wire's Refused constants. A retry can
// succeed only if Why is wire.RefusedBusy.
type RefusedError struct{ Why, Text string }

func (e *RefusedError) Error() string { return "bus: refused (" + e.Why + "): " + e.Text }

// Chunk downloads a chunk of the attempt's initial checkout. name is the chunk's digest. If the director refuses the
// request, Chunk returns a *RefusedError. If the director does not reply before the deadline of ctx, or within 5
// seconds without a deadline, Chunk returns ErrNoAnswer.
func (c *Client) Chunk(ctx context.Context, name string) ([]byte, error) {
	return c.exchange(ctx, wire.CheckoutOpGet, []byte(name))
}

// PutChunk sends a chunk of the checkout. When it returns nil, the director has stored the chunk. It returns the same
// errors as Chunk.
func (c *Client) PutChunk(ctx context.Context, data []byte) error {
	_, err := c.exchange(ctx, wire.CheckoutOpPut, data)
	return err
}

func (c *Client) exchange(ctx context.Context, operation string, data []byte) ([]byte, error) {
	ctx, cancel := link.WithDeadline(ctx)
	defer cancel()
	m, err := c.nc.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: c.subjects.Checkout(operation, c.options.WorkerID),
		Data:    data,
	})
	if err != nil {
		return nil, link.NoAnswer(err)
	}
	if why := m.Header[wire.RefusedHeader]; len(why) > 0 {
		return nil, &RefusedError{why[0], string(m.Data)}
	}
	return m.Data, nil
}

// SaveCheckpoint asks the director to make the manifest in p the new checkout. If missing is empty and err is nil, the
// director has accepted it. If chunks are missing, the caller sends them and calls SaveCheckpoint again. It returns the
// same errors as Chunk.
func (c *Client) SaveCheckpoint(ctx context.Context, p wire.Checkpoint) (missing []string, err error) {
	answer, err := c.request(ctx, c.subjects.Checkout(wire.CheckoutOpSave, c.options.WorkerID), p)
	if err != nil {
		return nil, err
	}
	a, ok := answer.(*wire.CheckpointAnswer)
	switch {
	case !ok:
		return nil, fmt.Errorf("bus: unexpected answer to %s: %s", p.MessageType(), answer.MessageType())
	case a.Refused != "":
		return nil, &RefusedError{a.Refused, a.Detail}
	case !a.Saved && len(a.Missing) == 0:
		return nil, errors.New("bus: answer to a checkpoint has no result")
	}
	return a.Missing, nil
}
