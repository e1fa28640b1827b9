package bus

import (
	"cmp"
	"context"
	"crypto/tls"
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

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

// Bus is the director's side of the agent bus. Its methods may be called from any goroutine.
type Bus struct {
	options  Options
	subjects wire.Subjects
	log      *zap.Logger

	sys     *nats.Conn // in the server's account: who may sign in, and who has
	nc      *nats.Conn // in the workers' account
	own     *nats.Conn // in the director's account, where journal and snapshots are
	ownJS   jetstream.JetStream
	stored  *nats.Conn // in the account of reports and dead letters, where people are
	reports jetstream.JetStream
	workers *workersAccount

	checkouts atomic.Pointer[jetstream.KeyValue] // of tasks whose checkouts travel

	dead    *deadLetters
	intake  *intake
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

// OpenJournal opens the journal alone, without workers and reports: for the commands that look at it, export it
// and bring it back. readOnly changes nothing, so that a director may be running; the journal must be there
// then.
func OpenJournal(ctx context.Context, o Options, readOnly bool) (*Bus, error) {
	b := &Bus{options: o.withDefaults()}
	b.log, b.subjects = b.options.Log, wire.Subjects{Prefix: b.options.Prefix}
	err := b.options.check()
	if err == nil {
		b.own, err = b.signIn(b.options.Keys.Journal)
	}
	if err == nil {
		b.ownJS, err = jetstream.New(b.own)
	}
	if err == nil && readOnly {
		err = b.findJournal(ctx)
	} else if err == nil {
		err = b.openJournal(ctx)
	}
	if err != nil {
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
		b.workers, err = newWorkersAccount(b.options, b.sys, b.ownJS)
	}
	if err == nil {
		err = b.ensure(ctx)
	}
	if err == nil {
		err = b.workers.start(ctx)
	}
	if err == nil {
		b.nc, err = b.signIn(b.options.Keys.Gatekeeper)
	}
	if err != nil {
		return err
	}
	b.dead = newDeadLetters(b.stored, b.reports, b.subjects, b.options.MaxMessageBytes, b.log)
	b.intake = newIntake(b)
	if err := b.intake.watchConnections(); err != nil {
		return err
	}
	return b.intake.open(lineReport, &taker{handle: b.intake.takeReport})
}

// connect signs in to the accounts that the server was started with. The workers' account it knows only once it
// was told.
func (b *Bus) connect() error {
	var err error
	if b.sys, err = b.signIn(b.options.Keys.System); err != nil {
		return err
	}
	if b.own, err = b.signIn(b.options.Keys.Journal); err != nil {
		return err
	}
	if b.ownJS, err = jetstream.New(b.own); err != nil {
		return err
	}
	_, err = b.signInToReports()
	return err
}

// signInToReports opens the account of reports and dead letters.
func (b *Bus) signInToReports() (_ jetstream.JetStream, err error) {
	if b.stored, err = b.signIn(b.options.Keys.Reports, nats.CustomInboxPrefix(keys.DirectorInbox)); err == nil {
		b.reports, err = jetstream.New(b.stored)
	}
	return b.reports, err
}

// signIn opens one connection as a user of its own.
func (b *Bus) signIn(make func() (keys.User, error), more ...nats.Option) (*nats.Conn, error) {
	options := append(connOptions(b.log), nats.Name("retake director "+b.options.Fleet), freshSignIn(make))
	options = append(options, more...)
	if s := b.options.Server; s != nil {
		return nats.Connect("", append(options, nats.InProcessServer(s))...)
	}
	url := b.WorkerURL("")
	trust, err := trustOptions(url, b.options.Keys.CA())
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(url, append(options, trust...)...)
	_, stranger := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case stranger:
		return nil, fmt.Errorf("the NATS server at %s shows another certificate than agent_bus.credentials expects: "+
			"start it with what `director bus init` made beside them, and reach it by a name that was its --host: %w",
			redacted(b.options.URL), err)
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("the NATS server at %s refuses the keys of agent_bus.credentials: start it with the "+
			"nats.conf that `director bus init` wrote beside them: %w", redacted(b.options.URL), err)
	case err != nil:
		return nil, fmt.Errorf("no NATS server answers at %s: start it, or leave agent_bus.url empty to use the "+
			"embedded one: %w", redacted(b.options.URL), err)
	}
	return nc, nil
}

// Close ends the connections and the embedded server. It waits for the server until ctx ends. A second call
// does nothing.
func (b *Bus) Close(ctx context.Context) error {
	b.once.Do(func() {
		if b.intake != nil {
			b.intake.close()
		}
		if b.workers != nil {
			b.workers.close()
		}
		for _, c := range []*nats.Conn{b.nc, b.stored, b.own, b.sys} {
			if c != nil {
				c.Close()
			}
		}
		if b.options.Server != nil {
			b.closed = b.options.Server.Close(ctx)
		}
		b.closed = errors.Join(b.closed, b.journal.close())
	})
	return b.closed
}

// Connected reports whether the bus can be used at this moment.
func (b *Bus) Connected() bool {
	return b.nc.IsConnected() && b.own.IsConnected() && b.stored.IsConnected() && b.sys.IsConnected()
}

// Journal is the director's journal.
func (b *Bus) Journal() *Journal { return b.journal }

// WorkerURL is what a worker connects to that reaches this machine as host. On a server that was joined it is that
// server's own address, which always speaks TLS, without what may stand before an @ there.
func (b *Bus) WorkerURL(host string) string {
	if b.options.Server != nil {
		return b.options.Server.URL(host)
	}
	return eachURL(b.options.URL, func(u *url.URL) string { u.Scheme, u.User = schemeTLS, nil; return u.String() })
}

// eachURL changes every server of a list as agent_bus.url has it. What cannot be read is left out: it may be a
// credential.
func eachURL(list string, change func(*url.URL) string) string {
	var out []string
	for raw := range strings.SplitSeq(list, ",") {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil && u.Host != "" {
			out = append(out, change(u))
		}
	}
	return strings.Join(out, ",")
}

// Credential is how one worker signs in, and signs.
type Credential struct {
	JWT, Seed string
	CA        string // PEM, for a URL with tls
	Key       []byte // of the signatures on its reports
}

// AuthorizeCheckout is Authorize for a worker whose checkout travels.
func (b *Bus) AuthorizeCheckout(ctx context.Context, worker string) (Credential, error) {
	return b.authorize(ctx, worker, max(b.options.MaxMessageBytes, checkpoint.ChunkBytes),
		b.subjects.CheckoutPublished(worker)...)
}

// Authorize admits a worker and makes its credential, which expires by itself. An id that is no subject token
// (see wire.CheckID) is an error: it could widen its own permissions. So is one that was cut off.
func (b *Bus) Authorize(ctx context.Context, worker string) (Credential, error) {
	return b.authorize(ctx, worker, b.options.MaxMessageBytes)
}

// authorize lets a worker publish on more subjects than all do.
func (b *Bus) authorize(ctx context.Context, worker string, maxBytes int, more ...string) (Credential, error) {
	if err := wire.CheckID(worker); err != nil {
		return Credential{}, err
	}
	if b.intake.offended(worker) || b.workers.offended(worker) {
		return Credential{}, fmt.Errorf("bus: credential of %s: it was cut off from the bus and is not let in again",
			worker)
	}
	user, err := b.workers.issue(ctx, worker, b.subjects, maxBytes, more)
	if err != nil {
		return Credential{}, fmt.Errorf("bus: credential of %s: %w", worker, err)
	}
	b.Admit(worker)
	return Credential{JWT: user.JWT, Seed: user.Seed, CA: b.options.Keys.CA(), Key: b.AttemptKey(worker)}, nil
}

// Admit takes the messages of workers that an earlier director has started. Their credentials are those that they have.
func (b *Bus) Admit(workers ...string) { b.intake.admit(workers...) }

// DismissAll takes no messages of any worker any more: another director does. Their credentials stay good.
func (b *Bus) DismissAll() {
	for _, worker := range b.intake.admitted() {
		b.intake.dismiss(worker)
	}
}

// Revoke shuts a worker out: no credential that was made for it so far counts any more, also after a restart of
// director or server. It returns when the server has closed its connections; ErrNoAnswer: not in time, then it
// is tried again without end.
func (b *Bus) Revoke(ctx context.Context, worker string) error {
	if err := wire.CheckID(worker); err != nil {
		return err
	}
	b.intake.dismiss(worker)
	if err := b.workers.revoke(ctx, worker, nil); err != nil {
		return fmt.Errorf("bus: revoke %s: %w", worker, err)
	}
	return nil
}

// Offences are the workers that this director, or one before it, has cut off, and of whom no report tells yet;
// the oldest first. They are kept until OffenceReported, also when the director ends.
func (b *Bus) Offences(ctx context.Context) ([]Offence, error) {
	all, err := b.workers.offences(ctx)
	if err != nil {
		return nil, fmt.Errorf("bus: offences: %w", err)
	}
	return all, nil
}

// OffenceReported forgets an offence: a report tells of it, or nobody waits for one.
func (b *Bus) OffenceReported(worker string) { b.workers.reported(worker) }

// AttemptKey is what a worker signs its reports with; the same one each time, also after a restart. nil, if
// nobody has shared the fleet's secret yet (ShareSecret).
func (b *Bus) AttemptKey(worker string) []byte { return b.workers.attemptKey(worker) }

// Seed is that of a worker's credential; the same one each time, also after a restart.
func (b *Bus) Seed(worker string) (string, error) { return b.workers.seed(worker) }

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
