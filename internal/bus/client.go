package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

// ClientOptions configure a worker's identity and its connection to the bus.
type ClientOptions struct {
	URL             string
	JWT, Seed       string // JWT and seed of the worker's credential
	CA              string // PEM, for a URL that uses TLS
	Prefix          string // default "retake.v1"
	WorkerID        string
	Key             []byte // the attempt's key from the plan; signs reports
	RunID           string // id of the director's run, from the plan
	MaxMessageBytes int    // maximum size of one message; default 65536
	TraceParent     string // header of every message (see wire.TraceParent); empty to omit
	// OnReconnect is called after a reconnect. It may block, for example to send the hello and the spooled reports.
	OnReconnect func()
	InProcess   nats.InProcessConnProvider // if set, replaces URL and connects without a socket
}

// Client is the worker's side of the bus. Its methods are safe for concurrent use. Errors are transient unless
// Permanent reports otherwise.
type Client struct {
	options  ClientOptions
	subjects wire.Subjects
	writer   *link.Writer
	nc       *nats.Conn
}

// Dial makes one attempt to connect. Once connected, the Client reconnects whenever the connection is lost. Callers
// retry a failed Dial, because the server may still be starting, or may not know the workers' account yet. Client does
// not log.
func Dial(o ClientOptions) (*Client, error) {
	if err := wire.CheckID(o.WorkerID); err != nil {
		return nil, err
	}
	o.Prefix = cmp.Or(o.Prefix, wire.DefaultPrefix)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, defaultMaxMessageBytes)
	c := &Client{
		options: o, subjects: wire.Subjects{Prefix: o.Prefix},
		writer: &link.Writer{From: wire.Sender{Role: wire.RoleWorker, ID: o.WorkerID, RunID: o.RunID, Key: o.Key}},
	}
	if err := c.connect(); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	return c, nil
}

func (c *Client) connect() error {
	trust, err := link.Trust(c.options.URL, c.options.CA)
	if err != nil {
		return err
	}
	options := append(link.Options(zap.NewNop()),
		nats.Name("retake worker "+c.options.WorkerID),
		link.SignIn(func() (string, string, error) { return c.options.JWT, c.options.Seed, nil }),
		nats.CustomInboxPrefix(wire.Inbox(c.options.WorkerID)))
	options = append(options, trust...)
	if back := c.options.OnReconnect; back != nil {
		options = append(options, nats.ReconnectHandler(func(*nats.Conn) { back() }))
	}
	if c.options.InProcess != nil {
		options = append(options, nats.InProcessServer(c.options.InProcess))
	}
	nc, err := nats.Connect(c.options.URL, options...)
	if err != nil {
		return err
	}
	c.nc = nc
	return nil
}

// Close flushes published messages and closes the connection.
func (c *Client) Close() {
	_ = c.nc.FlushTimeout(time.Second) // ignore the error, because the bus may be unreachable
	c.nc.Close()
}

// Connected reports whether the connection to the bus is up.
func (c *Client) Connected() bool { return c.nc.IsConnected() }

// Reconnects returns the number of reconnects, including a reconnect in progress. The number changes before OnReconnect
// is called. A message sent after this call uses the newest counted connection or a later one.
func (c *Client) Reconnects() uint64 {
	away := !c.nc.IsConnected() // check first: a concurrent reconnect may be counted twice, but must not be missed
	n := c.nc.Stats().Reconnects
	if away {
		n++
	}
	return n
}

// Hello sends a hello and returns the director's answer, a *wire.Welcome or a *wire.Incompatibility. It returns
// ErrNoAnswer if no director replies before the deadline of ctx. Without a deadline, it waits 5 seconds.
func (c *Client) Hello(ctx context.Context, h wire.Hello) (wire.Payload, error) {
	p, err := c.request(ctx, c.subjects.Worker(c.options.WorkerID, wire.ChannelHello), h)
	if err != nil {
		return nil, err
	}
	switch p.(type) {
	case *wire.Welcome, *wire.Incompatibility:
		return p, nil
	default:
		return nil, fmt.Errorf("bus: unexpected answer to hello: %s", p.MessageType())
	}
}

// AskBudget sends the director a request about a model lease: a wire.BudgetAcquire, BudgetRelease or BudgetReport. The
// answer to a BudgetAcquire is a lease, or the time to wait before the next request. It returns ErrNoAnswer if no
// director replies before the deadline of ctx. Without a deadline, it waits 5 seconds.
func (c *Client) AskBudget(ctx context.Context, ask wire.Payload) (wire.BudgetGrant, error) {
	if a, ok := ask.(wire.BudgetAcquire); ok {
		a.WorkerID = c.options.WorkerID
		ask = a
	}
	subject, ok := c.subjects.OfBudget(ask, c.options.WorkerID)
	if !ok {
		return wire.BudgetGrant{}, fmt.Errorf("bus: %s is not a lease request", ask.MessageType())
	}
	p, err := c.request(ctx, subject, ask)
	if err != nil {
		return wire.BudgetGrant{}, err
	}
	g, ok := p.(*wire.BudgetGrant)
	if !ok {
		return wire.BudgetGrant{}, fmt.Errorf("bus: unexpected answer to %s: %s", ask.MessageType(), p.MessageType())
	}
	return *g, nil
}

// request sends a payload and decodes the answer.
func (c *Client) request(ctx context.Context, subject string, p wire.Payload) (wire.Payload, error) {
	data, err := c.writer.Encode(p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := link.WithDeadline(ctx)
	defer cancel()
	m, err := c.nc.RequestMsgWithContext(ctx, link.Traced(subject, data, c.options.TraceParent))
	if err != nil {
		return nil, link.NoAnswer(err)
	}
	e, err := wire.Decode(m.Data)
	if err != nil {
		return nil, fmt.Errorf("bus: decode answer to %s: %w", p.MessageType(), err)
	}
	return e.Payload, nil
}

// Heartbeat publishes a heartbeat without waiting for an answer. If the client is disconnected, it returns an error and
// the heartbeat is lost.
func (c *Client) Heartbeat(h wire.Heartbeat) error { return c.publish(wire.ChannelHeartbeat, h) }

// Progress publishes the task's progress. Like Heartbeat, it does not wait, and the message may be lost.
func (c *Client) Progress(p wire.TaskProgress) error { return c.publish(wire.ChannelProgress, p) }

func (c *Client) publish(channel wire.Channel, p wire.Payload) error {
	data, err := c.writer.Encode(p)
	if err != nil {
		return err
	}
	return link.NoAnswer(c.nc.PublishMsg(link.Traced(c.subjects.Worker(c.options.WorkerID, channel), data,
		c.options.TraceParent)))
}

// Report sends a *wire.WorkerError or *wire.WorkerResult and waits until the director has stored it, for at most 5 s if
// ctx has no deadline. It shortens a report that exceeds MaxMessageBytes. After a transient error, the caller repeats
// the call with the same error_id or result_id, so that the director recognizes duplicates. ErrRejected means that the
// director will never accept the report.
func (c *Client) Report(ctx context.Context, p wire.Payload) error {
	channel, id := wire.ReportID(p)
	if id == "" {
		return &wire.Malformed{Cause: wire.CauseWrongSubject, Detail: p.MessageType() + " is not a report"}
	}
	data, err := wire.EncodeWithin(c.writer.From, c.writer.Next(), time.Now(), p, c.options.MaxMessageBytes)
	if err != nil {
		return err
	}
	ctx, cancel := link.WithDeadline(ctx)
	defer cancel()
	m, err := c.nc.RequestMsgWithContext(ctx, link.Traced(c.subjects.Worker(c.options.WorkerID, channel), data,
		c.options.TraceParent))
	if err != nil {
		return link.NoAnswer(err)
	}
	var answer storedReport
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return fmt.Errorf("bus: decode answer to report: %w", err)
	case answer.Error != nil:
		return fmt.Errorf("%w: %s", ErrRejected, answer.Error.Description)
	case answer.Stream == "":
		return fmt.Errorf("bus: unexpected answer to a report: %.200q", m.Data)
	}
	return nil
}

// Command is a message from the director to this worker.
type Command struct {
	Payload wire.Payload               // *wire.Probe, *wire.Stop, *wire.Pause, *wire.Resume or *wire.SyncRequired
	Reply   func(p wire.Payload) error // sends the answer to a probe, a wire.Heartbeat
}

// OnControl calls handle for every command, one at a time, until Close. It returns when the server has confirmed the
// subscription. A worker that sends its hello afterwards does not miss a command. OnControl drops unreadable commands.
func (c *Client) OnControl(handle func(Command)) error {
	_, err := c.nc.Subscribe(c.subjects.Control(c.options.WorkerID), func(m *nats.Msg) {
		e, err := wire.Decode(m.Data)
		if err != nil {
			return
		}
		handle(Command{Payload: e.Payload, Reply: func(p wire.Payload) error {
			data, err := c.writer.Encode(p)
			if err != nil {
				return err
			}
			return m.Respond(data)
		}})
	})
	if err == nil {
		err = c.nc.FlushTimeout(link.AnswerTimeout)
	}
	return link.NoAnswer(err)
}
