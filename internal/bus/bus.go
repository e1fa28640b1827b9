package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
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

	nc    *nats.Conn
	js    jetstream.JetStream
	own   *nats.Conn // to the journal's account; nc itself on a server that was joined
	ownJS jetstream.JetStream

	dead    *deadLetters
	journal *Journal
	seq     atomic.Uint64
	once    sync.Once // of Close
	closed  error     // its result
}

// Open connects to the server and makes sure of its streams. Errors say what to do next. ctx bounds the opening only.
// Options.Server belongs to the Bus from then on, also if there is an error.
func Open(ctx context.Context, o Options) (*Bus, error) {
	b := &Bus{options: o.withDefaults()}
	b.log, b.subjects = b.options.Log, wire.Subjects{Prefix: b.options.Prefix}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("bus: %w", err), b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func (b *Bus) open(ctx context.Context) error {
	err := b.options.check()
	if err == nil {
		err = b.connect()
	}
	if err == nil {
		b.js, err = jetstream.New(b.nc)
	}
	if err == nil {
		b.ownJS, err = jetstream.New(b.own)
	}
	if err != nil {
		return err
	}
	b.dead = newDeadLetters(b.nc, b.js, b.subjects, b.options.MaxMessageBytes, b.log)
	return b.ensureStreams(ctx)
}

func (b *Bus) connect() error {
	options := append(connOptions(b.log), nats.Name("retake director "+b.options.Fleet))
	var err error
	if s := b.options.Server; s != nil {
		options = append(options, nats.InProcessServer(s))
		if b.nc, err = nats.Connect("", append(options, s.Director())...); err != nil {
			return err
		}
		b.own, err = nats.Connect("", append(options, s.Journal())...)
		return err
	}
	if b.nc, err = nats.Connect(b.options.URL, options...); err != nil {
		return fmt.Errorf("no NATS server answers at %s: start it, or leave agent_bus.url empty to use the embedded one: %w", redacted(b.options.URL), err)
	}
	b.own = b.nc
	return nil
}

// Close ends the connections and the embedded server. It waits for the server until ctx ends. A second call does nothing.
func (b *Bus) Close(ctx context.Context) error {
	b.once.Do(func() {
		for _, c := range []*nats.Conn{b.nc, b.own} {
			if c != nil {
				c.Close()
			}
		}
		if b.options.Server != nil {
			b.closed = b.options.Server.Close(ctx)
		}
	})
	return b.closed
}

// Connected reports whether the bus can be used at this moment.
func (b *Bus) Connected() bool { return b.nc.IsConnected() && b.own.IsConnected() }

// Journal is the director's journal.
func (b *Bus) Journal() *Journal { return b.journal }

// WorkerURL is what a worker connects to that reaches this machine as host. On a server that was joined it is that
// server's own address, without the director's credential.
func (b *Bus) WorkerURL(host string) string {
	if b.options.Server != nil {
		return b.options.Server.URL(host)
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

// Credential is how a worker signs in. Empty on a server that was joined: its operator decides how workers sign in there.
type Credential struct{ User, Password string }

// Authorize admits a worker and returns its credential, the same one each time. An id that is no subject token (see
// wire.CheckID) is not admitted: it could widen its own permissions.
func (b *Bus) Authorize(worker string) Credential {
	if b.options.Server == nil {
		return Credential{}
	}
	if err := wire.CheckID(worker); err != nil {
		b.log.Error("worker not admitted to the bus", zap.String("worker", worker), zap.Error(err))
		return Credential{}
	}
	b.options.Server.Admit(worker)
	return Credential{User: worker, Password: b.options.Server.Password(worker)}
}

// Revoke shuts a worker out and closes its connections. Nothing happens on a server that was joined.
func (b *Bus) Revoke(worker string) {
	if b.options.Server != nil {
		b.options.Server.Revoke(worker)
	}
}

// AttemptKey is the key with which a worker, and nobody else but the director, signs the reports of its attempt. It is the same each time.
func (b *Bus) AttemptKey(worker string) []byte {
	return wire.AttemptKey(b.options.AttemptSecret, worker)
}

// encode wraps a payload of the director's.
func (b *Bus) encode(p wire.Payload) ([]byte, error) {
	return wire.Encode(b.from(), b.seq.Add(1), time.Now(), p)
}

func (b *Bus) from() wire.Sender {
	return wire.Sender{Role: wire.RoleDirector, ID: b.options.Fleet, RunID: b.options.RunID}
}

// redacted hides the passwords of a list of servers that goes into an error.
func redacted(list string) string {
	return cmp.Or(eachURL(list, (*url.URL).Redacted), "the configured agent_bus.url")
}
