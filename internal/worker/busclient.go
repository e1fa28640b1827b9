package worker

import (
	"context"

	"retake/internal/bus"
	"retake/internal/bus/wire"
)

// DialBus opens the agent bus: the Dialer of the real program.
func DialBus(ctx context.Context, p *wire.Plan, l Listener) (Bus, error) {
	return dialWith(ctx, p, l, bus.ClientOptions{})
}

// dialWith is DialBus with what only tests set. The client logs nothing: the session says once that the bus is away,
// and the stream belongs to the stages.
func dialWith(ctx context.Context, p *wire.Plan, l Listener, o bus.ClientOptions) (Bus, error) {
	o.URL, o.User, o.Password, o.Prefix = p.Bus.URL, p.Bus.User, p.Bus.Password, p.Bus.Prefix
	o.WorkerID, o.RunID, o.MaxMessageBytes, o.OnReconnect = p.WorkerID, p.RunID, p.Bus.MaxMessageBytes, l.Reconnected
	c, err := bus.Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	err = c.OnControl(func(said bus.Command) {
		if _, probe := said.Payload.(*wire.Probe); probe {
			_ = said.Reply(l.Alive()) // an answer that is lost is asked for again
			return
		}
		l.Control(said.Payload)
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	return client{c}, nil
}

// client is the bus's worker side as a Bus.
type client struct{ *bus.Client }

var _ Bus = client{}

func (c client) Heartbeat(_ context.Context, h wire.Heartbeat) error { return c.Client.Heartbeat(h) }

func (c client) Progress(_ context.Context, p wire.TaskProgress) error { return c.Client.Progress(p) }

func (c client) Report(ctx context.Context, p wire.Payload) error {
	_, err := c.Client.Report(ctx, p)
	return err
}
