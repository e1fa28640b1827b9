package bus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// ClientOptions say how a worker reaches the bus and who it is.
type ClientOptions struct {
	URL, User, Password string
	Prefix              string // default "retake.v1"
	WorkerID            string
	RunID               string // the director's run, from the plan
	MaxMessageBytes     int    // of one message; default 65536. Tails of reports are cut to fit
	OnReconnect         func() // after the connection came back: say hello again, then send what was spooled. May block
	InProcess           *Bus   // instead of URL: this bus's embedded server, without a socket
	Log                 *zap.Logger
}

// Client is a worker's side of the bus. Its methods may be called from any goroutine. Errors are transient unless
// Permanent says otherwise.
type Client struct {
	options  ClientOptions
	subjects wire.Subjects
	from     wire.Sender
	nc       *nats.Conn
	js       jetstream.JetStream
	seq      atomic.Uint64
}

// Dial connects, trying again with jittered backoff until it succeeds or ctx ends: the server may not be up yet, and a
// restarted director may not have admitted this worker again yet. Once connected, the client reconnects for ever.
func Dial(ctx context.Context, o ClientOptions) (*Client, error) {
	if err := wire.CheckID(o.WorkerID); err != nil {
		return nil, err
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = defaultMaxMessageBytes
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	c := &Client{
		options: o, subjects: wire.Subjects{Prefix: o.Prefix},
		from: wire.Sender{Role: wire.RoleWorker, ID: o.WorkerID, RunID: o.RunID},
	}
	for try := 0; ; try++ {
		err := c.connect()
		if err == nil {
			return c, nil
		}
		o.Log.Info("bus not reached, trying again", zap.String("worker", o.WorkerID), zap.Error(err))
		if !pause(ctx, backoff(try)) {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(err, context.Cause(ctx)))
		}
	}
}

func (c *Client) connect() error {
	options := append(survive(c.options.Log),
		nats.Name("retake worker "+c.options.WorkerID),
		nats.UserInfo(c.options.User, c.options.Password),
		nats.CustomInboxPrefix(provenInbox(c.options.WorkerID, c.options.Password)),
		nats.ReconnectHandler(func(*nats.Conn) {
			c.options.Log.Info("bus connection back", zap.String("worker", c.options.WorkerID))
			if c.options.OnReconnect != nil {
				c.options.OnReconnect()
			}
		}))
	if c.options.InProcess != nil {
		options = append(options, nats.InProcessServer(c.options.InProcess.server.server))
	}
	nc, err := nats.Connect(c.options.URL, options...)
	if err != nil {
		return err
	}
	if c.js, err = jetstream.New(nc); err != nil {
		nc.Close()
		return err
	}
	c.nc = nc
	return nil
}

// Close ends the connection. What was published before is sent first.
func (c *Client) Close() {
	_ = c.nc.FlushTimeout(time.Second) // best effort: a bus that is away gets nothing
	c.nc.Close()
}

// Connected says whether the bus can be used at this moment.
func (c *Client) Connected() bool { return c.nc.IsConnected() }

// Reconnects counts how often the connection came back so far, and a return that is still awaited: what is sent after
// the count was read goes over that connection or a later one. It tells earlier than OnReconnect.
func (c *Client) Reconnects() uint64 {
	away := !c.nc.IsConnected() // looked at first: a return in between is counted twice rather than not at all
	n := c.nc.Stats().Reconnects
	if away {
		n++
	}
	return n
}

// Hello says hello and returns the director's answer: a *wire.Welcome or a *wire.Incompatibility. ErrNoAnswer: not in
// time (5 s, if ctx has no deadline), or no director listens.
func (c *Client) Hello(ctx context.Context, h wire.Hello) (wire.Payload, error) {
	data, err := c.encode(h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, c.subjects.Worker(c.options.WorkerID, wire.ChannelHello), data)
	if err != nil {
		return nil, noAnswer(err)
	}
	e, err := wire.Decode(m.Data)
	if err != nil {
		return nil, fmt.Errorf("bus: answer to hello: %w", err)
	}
	switch e.Payload.(type) {
	case *wire.Welcome, *wire.Incompatibility:
		return e.Payload, nil
	default:
		return nil, fmt.Errorf("bus: answer to hello: %s", e.Payload.MessageType())
	}
}

// Heartbeat publishes without waiting; while the bus is away it is lost, which an error says.
func (c *Client) Heartbeat(h wire.Heartbeat) error { return c.publish(wire.ChannelHeartbeat, h) }

// Progress publishes without waiting, like Heartbeat.
func (c *Client) Progress(p wire.TaskProgress) error { return c.publish(wire.ChannelProgress, p) }

func (c *Client) publish(channel wire.Channel, p wire.Payload) error {
	data, err := c.encode(p)
	if err != nil {
		return err
	}
	if err := c.nc.Publish(c.subjects.Worker(c.options.WorkerID, channel), data); err != nil {
		return noAnswer(err)
	}
	return nil
}

// Report publishes a wire.WorkerError or wire.WorkerResult and waits until the stream has stored it (5 s, if ctx has no
// deadline). Tails are cut to fit. After a transient error call it again with the same error_id or result_id: it is the
// duplicate key.
func (c *Client) Report(ctx context.Context, p wire.Payload) (seq uint64, err error) {
	channel, id, err := reportSlot(p)
	if err != nil {
		return 0, err
	}
	data, err := wire.EncodeWithin(c.from, c.seq.Add(1), time.Now(), p, c.options.MaxMessageBytes)
	if err != nil {
		return 0, err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	ack, err := c.js.Publish(ctx, c.subjects.Worker(c.options.WorkerID, channel), data, jetstream.WithMsgID(c.options.WorkerID+"/"+id))
	if err != nil {
		return 0, noAnswer(err)
	}
	return ack.Sequence, nil
}

func reportSlot(p wire.Payload) (wire.Channel, string, error) {
	switch v := p.(type) {
	case wire.WorkerError:
		return wire.ChannelError, v.ErrorID, nil
	case *wire.WorkerError:
		return wire.ChannelError, v.ErrorID, nil
	case wire.WorkerResult:
		return wire.ChannelResult, v.ResultID, nil
	case *wire.WorkerResult:
		return wire.ChannelResult, v.ResultID, nil
	default:
		return "", "", &wire.Malformed{Cause: wire.CauseWrongSubject, Detail: p.MessageType() + " is no report"}
	}
}

// Command is something that the director says to this worker.
type Command struct {
	Payload wire.Payload               // *wire.Probe, *wire.Stop, *wire.Pause, *wire.Resume or *wire.SyncRequired
	Reply   func(p wire.Payload) error // answers a probe with a wire.Heartbeat
}

// OnControl has every command handed to handle, one after the other, until Close. It returns when the server knows, so
// that nothing is missed that is sent after the hello. What cannot be read is logged and dropped.
func (c *Client) OnControl(handle func(Command)) error {
	_, err := c.nc.Subscribe(c.subjects.Control(c.options.WorkerID), func(m *nats.Msg) {
		e, err := wire.Decode(m.Data)
		if err != nil {
			c.options.Log.Warn("unreadable command", zap.String("worker", c.options.WorkerID), zap.Error(err))
			return
		}
		handle(Command{Payload: e.Payload, Reply: func(p wire.Payload) error {
			data, err := c.encode(p)
			if err != nil {
				return err
			}
			return m.Respond(data)
		}})
	})
	if err == nil {
		err = c.nc.FlushTimeout(answerTimeout)
	}
	if err != nil {
		return noAnswer(err)
	}
	return nil
}

func (c *Client) encode(p wire.Payload) ([]byte, error) {
	return wire.Encode(c.from, c.seq.Add(1), time.Now(), p)
}
