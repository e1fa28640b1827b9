package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// Bus is the director's side of the agent bus. Its methods may be called from any goroutine.
type Bus struct {
	options  Options
	subjects wire.Subjects
	log      *zap.Logger

	server *embedded // nil: joined
	nc     *nats.Conn
	js     jetstream.JetStream
	own    *nats.Conn // to the journal's account; nc itself if joined
	ownJS  jetstream.JetStream

	dead    *deadLetters
	journal *Journal
	seq     atomic.Uint64
	close   func(context.Context) error // runs once
}

// Open starts or joins the bus and makes sure of its streams. Errors say what to do next. ctx bounds the opening only.
func Open(ctx context.Context, o Options) (*Bus, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Bus{options: o, subjects: wire.Subjects{Prefix: o.Prefix}, log: o.Log}
	var once sync.Once
	var closed error
	b.close = func(ctx context.Context) error {
		once.Do(func() { closed = b.shut(ctx) })
		return closed
	}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func (b *Bus) open(ctx context.Context) error {
	var err error
	if b.options.URL == "" {
		if b.server, err = startEmbedded(ctx, b.options); err != nil {
			return err
		}
	}
	if err := b.connect(); err != nil {
		return err
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if b.ownJS, err = jetstream.New(b.own); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	b.dead = newDeadLetters(b.nc, b.js, b.subjects, b.options.MaxMessageBytes, b.log)
	return b.ensureStreams(ctx)
}

func (b *Bus) connect() error {
	var err error
	if b.server == nil {
		if b.nc, err = nats.Connect(b.options.URL, b.connOptions()...); err != nil {
			return fmt.Errorf("%w: no NATS server answers at %s: start it, or leave agent_bus.url empty to use the embedded one: %w", ErrUnavailable, redacted(b.options.URL), err)
		}
		b.own = b.nc
		return nil
	}
	door := nats.InProcessServer(b.server.server)
	if b.nc, err = nats.Connect("", append(b.connOptions(), door, nats.UserInfo(userDirector, b.server.auth.internal))...); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if b.own, err = nats.Connect("", append(b.connOptions(), door, nats.UserInfo(userJournal, b.server.auth.internal))...); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

func (b *Bus) connOptions() []nats.Option {
	return append(survive(b.log), nats.Name("retake director "+b.options.Fleet))
}

// Close ends the connections and the embedded server. It waits for the server until ctx ends. A second call does nothing.
func (b *Bus) Close(ctx context.Context) error { return b.close(ctx) }

func (b *Bus) shut(ctx context.Context) error {
	for _, c := range []*nats.Conn{b.nc, b.own} {
		if c != nil {
			c.Close()
		}
	}
	if b.server == nil {
		return nil
	}
	return b.server.stop(ctx)
}

// Connected says whether the bus can be used at this moment.
func (b *Bus) Connected() bool { return b.nc.IsConnected() && b.own.IsConnected() }

// Journal is the director's journal.
func (b *Bus) Journal() *Journal { return b.journal }

// WorkerURL is what a worker connects to that reaches this machine as host. On a server that was joined it is that
// server's own address, without the director's credential.
func (b *Bus) WorkerURL(host string) string {
	if b.server != nil {
		return "nats://" + net.JoinHostPort(host, strconv.Itoa(b.server.port))
	}
	return eachURL(b.options.URL, func(u *url.URL) string { u.User = nil; return u.String() })
}

// eachURL changes every server of a list as agent_bus.url has it. What cannot be read is left out: it may be a credential.
func eachURL(list string, change func(*url.URL) string) string {
	var out []string
	for raw := range strings.SplitSeq(list, ",") {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil && u.Host != "" {
			out = append(out, change(u))
		}
	}
	return strings.Join(out, ",")
}

// encode wraps a payload of the director's.
func (b *Bus) encode(p wire.Payload) ([]byte, error) {
	from := wire.Sender{Role: wire.RoleDirector, ID: b.options.Fleet, RunID: b.options.RunID}
	return wire.Encode(from, b.seq.Add(1), time.Now(), p)
}

// redacted hides the passwords of a list of servers that goes into an error.
func redacted(list string) string {
	return cmp.Or(eachURL(list, (*url.URL).Redacted), "the configured agent_bus.url")
}
