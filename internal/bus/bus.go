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

	"retake/internal/bus/checkouts"
	"retake/internal/bus/journal"
	"retake/internal/bus/keys"
	"retake/internal/bus/link"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

// Bus is the director's side of the agent bus. Its methods are safe for concurrent use.
type Bus struct {
	options  Options
	subjects wire.Subjects
	log      *zap.Logger

	sys     *nats.Conn // in the server's account; pushes claims and watches connections
	nc      *nats.Conn // in the workers' account
	own     *nats.Conn // in the director's account, with the journal and snapshots
	ownJS   jetstream.JetStream
	stored  *nats.Conn // in the account of reports and dead letters, which operators also use
	reports *Reports
	workers *workersAccount

	checkouts atomic.Pointer[checkouts.Shelf] // Ensure replaces it

	dead    *deadLetters
	intake  *intake
	journal atomic.Pointer[Journal] // Ensure replaces it
	writer  *link.Writer
	once    sync.Once // guards Close
	closed  error     // result of Close
}

// Open connects to the server and creates missing streams. Its errors tell the user how to proceed. ctx limits only
// Open itself. Open takes ownership of Options.Server, even if it fails.
func Open(ctx context.Context, o Options) (*Bus, error) {
	b := newBus(o)
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("bus: %w", err), b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// OpenJournal opens only the journal, without workers or reports, for commands that inspect, export or import the
// journal. With readOnly, it never writes, the journal must exist, and a director may be running.
func OpenJournal(ctx context.Context, o Options, readOnly bool) (*Bus, error) {
	b := newBus(o)
	err := b.options.check()
	if err == nil {
		b.own, err = b.signIn(b.options.Keys.Journal)
	}
	if err == nil {
		b.ownJS, err = jetstream.New(b.own)
	}
	var j *Journal
	switch {
	case err != nil:
	case readOnly:
		j, err = journal.Find(ctx, b.journalOptions())
	default:
		j, err = journal.Open(ctx, b.journalOptions())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bus: %w", err), b.Close(context.WithoutCancel(ctx)))
	}
	b.journal.Store(j)
	return b, nil
}

// FindJournal opens another reader of the journal, without disturbing a director that is writing to it. The caller
// closes the reader.
func FindJournal(ctx context.Context, b *Bus) (*Journal, error) {
	j, err := journal.Find(ctx, b.journalOptions())
	if err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	return j, nil
}

func newBus(o Options) *Bus {
	o = o.withDefaults()
	return &Bus{
		options: o, log: o.Log, subjects: wire.Subjects{Prefix: o.Prefix},
		writer: &link.Writer{
			From: wire.Sender{Role: wire.RoleDirector, ID: o.Fleet, RunID: o.RunID},
			Log:  o.Log, TraceParent: o.TraceParent,
		},
	}
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
		err = ensureAtStart(ctx, b)
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
	b.intake = newIntake(b)
	if err := b.intake.watchConnections(); err != nil {
		return err
	}
	return b.intake.open(classReport, &handler{handle: b.intake.takeReport})
}

// connect signs in to the accounts that exist when the server starts. The workers' account is registered later, by
// establish.
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
	return b.openReports()
}

// openReports signs in to the account of reports and dead letters, and sets b.dead and b.reports.
func (b *Bus) openReports() (err error) {
	if b.stored, err = b.signIn(b.options.Keys.Reports, nats.CustomInboxPrefix(keys.DirectorInbox)); err != nil {
		return err
	}
	js, err := jetstream.New(b.stored)
	if err != nil {
		return err
	}
	b.dead = newDeadLetters(b.stored, js, b.subjects, b.options.MaxMessageBytes, b.log)
	b.reports = &Reports{
		js: js, stream: b.options.streamName(streamReports), replicas: b.options.Replicas, subjects: b.subjects,
		writer: b.writer, key: b.AttemptKey, dead: b.dead, maxBytes: b.options.MaxMessageBytes, log: b.log,
	}
	return nil
}

// Reports returns the stream of the workers' reports.
func (b *Bus) Reports() *Reports { return b.reports }

// StoredReport reads the report at a stream sequence. If the stream was recreated, another report may have the same
// sequence, so the caller must compare the digest. StoredReport also works after OpenJournal.
func (b *Bus) StoredReport(ctx context.Context, seq uint64) (StoredReport, error) {
	if b.reports == nil {
		if err := b.openReports(); err != nil {
			return StoredReport{}, fmt.Errorf("bus: read report %d: %w", seq, err)
		}
	}
	return b.reports.stored(ctx, seq)
}

// fresh adapts make to link.SignIn, which calls the result for each connection attempt.
func fresh(make func() (keys.User, error)) func() (token, seed string, err error) {
	return func() (string, string, error) {
		u, err := make()
		return u.JWT, u.Seed, err
	}
}

// inProcessTimeout limits the time to connect to the embedded server.
const inProcessTimeout = 30 * time.Second

// signIn opens a connection. It calls make for each connection attempt.
func (b *Bus) signIn(make func() (keys.User, error), more ...nats.Option) (*nats.Conn, error) {
	options := append(link.Options(b.log), nats.Name("retake director "+b.options.Fleet), link.SignIn(fresh(make)))
	options = append(options, more...)
	if s := b.options.Server; s != nil {
		// The connection does not use the network, so the server is slow to answer only if the machine is busy.
		return nats.Connect("", append(options, nats.InProcessServer(s), nats.Timeout(inProcessTimeout))...)
	}
	url := b.WorkerURL("")
	trust, err := link.Trust(url, b.options.Keys.CA())
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(url, append(options, trust...)...)
	_, stranger := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case stranger:
		return nil, fmt.Errorf("the NATS server at %s has a different certificate than agent_bus.credentials "+
			"expects: start it with the files that `director bus init` wrote next to the credentials, and connect to "+
			"one of the --host names: %w",
			redacted(b.options.URL), err)
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("the NATS server at %s rejects the keys in agent_bus.credentials: start it with the "+
			"nats.conf that `director bus init` wrote next to them: %w", redacted(b.options.URL), err)
	case err != nil:
		return nil, fmt.Errorf("%w at %s: start one, or leave agent_bus.url empty to use the embedded server: %w",
			ErrUnreachable, redacted(b.options.URL), err)
	}
	return nc, nil
}

// Close closes the connections and the embedded server. It waits for the server until ctx is done. A second call
// returns the result of the first.
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
		b.closed = errors.Join(b.closed, b.journal.Load().Close())
	})
	return b.closed
}

// Connected reports whether all connections to the bus are up.
func (b *Bus) Connected() bool {
	return b.nc.IsConnected() && b.own.IsConnected() && b.stored.IsConnected() && b.sys.IsConnected()
}

// Journal returns the director's journal.
func (b *Bus) Journal() *Journal { return b.journal.Load() }

// WorkerURL returns the URL at which a worker reaches the bus. For an embedded server, host is the name by which the
// worker knows this machine. For a joined server, WorkerURL ignores host and returns the configured address with the
// scheme tls and without credentials.
func (b *Bus) WorkerURL(host string) string {
	if b.options.Server != nil {
		return b.options.Server.URL(host)
	}
	return eachURL(b.options.URL, func(u *url.URL) string { u.Scheme, u.User = link.SchemeTLS, nil; return u.String() })
}

// eachURL applies change to every URL in a comma-separated list, such as agent_bus.url. It omits entries that cannot be
// parsed, because they may contain credentials.
func eachURL(list string, change func(*url.URL) string) string {
	var out []string
	for raw := range strings.SplitSeq(list, ",") {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil && u.Host != "" {
			out = append(out, change(u))
		}
	}
	return strings.Join(out, ",")
}

// Credential is a worker's access to the bus, with the key for signing reports.
type Credential struct {
	JWT, Seed string
	CA        string // PEM; set if the URL uses TLS
	Key       []byte // signs the worker's reports
}

// AuthorizeCheckout is like Authorize, but also permits the worker to send and receive its checkout over the bus.
func (b *Bus) AuthorizeCheckout(ctx context.Context, worker string) (Credential, error) {
	return b.authorize(ctx, worker, max(b.options.MaxMessageBytes, checkpoint.ChunkBytes),
		b.subjects.CheckoutPublished(worker)...)
}

// Authorize admits a worker and issues its credential, which expires after Options.WorkerLife. It rejects workers that
// were cut off, and ids that are not valid in a subject (see wire.CheckID). A wildcard in an id would grant extra
// permissions.
func (b *Bus) Authorize(ctx context.Context, worker string) (Credential, error) {
	return b.authorize(ctx, worker, b.options.MaxMessageBytes)
}

// authorize issues a credential that limits messages to maxBytes. more lists additional subjects to publish on.
func (b *Bus) authorize(ctx context.Context, worker string, maxBytes int, more ...string) (Credential, error) {
	if err := wire.CheckID(worker); err != nil {
		return Credential{}, err
	}
	if b.intake.offended(worker) || b.workers.offended(worker) {
		return Credential{}, fmt.Errorf("bus: credential for %s: the worker was cut off from the bus and cannot "+
			"reconnect",
			worker)
	}
	user, err := b.workers.issue(ctx, worker, b.subjects, maxBytes, more)
	if err != nil {
		return Credential{}, fmt.Errorf("bus: credential for %s: %w", worker, err)
	}
	b.Admit(worker)
	return Credential{JWT: user.JWT, Seed: user.Seed, CA: b.options.Keys.CA(), Key: b.AttemptKey(worker)}, nil
}

// Admit starts reading messages from workers that an earlier director started, without issuing new credentials.
func (b *Bus) Admit(workers ...string) { b.intake.admit(workers...) }

// DismissAll stops reading messages from all workers, because another director now leads. Credentials stay valid.
func (b *Bus) DismissAll() {
	for _, worker := range b.intake.admitted() {
		b.intake.dismiss(worker)
	}
}

// Revoke invalidates all credentials issued to a worker so far, and returns when the server has closed the worker's
// connections. A revocation survives restarts of the director and the server. ErrNoAnswer means that the server did not
// confirm in time. The bus then retries in the background until it succeeds.
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

// Offences returns the violations of workers cut off by this director or an earlier one, oldest first. Violations
// survive restarts until OffenceReported removes them.
func (b *Bus) Offences(ctx context.Context) ([]Offence, error) {
	all, err := b.workers.offences(ctx)
	if err != nil {
		return nil, fmt.Errorf("bus: read violations: %w", err)
	}
	return all, nil
}

// OffenceReported removes a worker's violation. Call it once a report about the violation is stored, or if none is
// needed.
func (b *Bus) OffenceReported(worker string) { b.workers.reported(worker) }

// AttemptKey returns the key with which a worker signs its reports. The key does not change after a restart. It is nil
// while the fleet's secret is unknown (see ShareSecret).
func (b *Bus) AttemptKey(worker string) []byte { return b.workers.attemptKey(worker) }

// Seed returns the seed of a worker's credential. The seed does not change after a restart.
func (b *Bus) Seed(worker string) (string, error) { return b.workers.seed(worker) }

// Checkouts returns the store for checkouts that travel over the bus.
func (b *Bus) Checkouts() *checkouts.Shelf { return b.checkouts.Load() }

// ServeCheckouts sends each worker its initial checkout, and stores the chunks that the worker sends. It returns nil
// when ctx is done.
func (b *Bus) ServeCheckouts(ctx context.Context, rules CheckoutRules) error {
	service := checkouts.Service{
		Shelf: b.Checkouts(), Rules: rules, Subjects: b.subjects, Writer: b.writer, Key: b.AttemptKey,
		Unreadable: func(worker string, err error, m *nats.Msg) { b.dead.core(worker, err, m.Subject, m.Data) },
	}
	return b.intake.serve(ctx, classCheckout, func(g *gate, m *nats.Msg) {
		if err := ownInbox(g.worker, m.Reply); err != nil {
			b.dead.core(g.worker, err, m.Subject, m.Data)
			return
		}
		if g.checkout == nil {
			g.checkout = checkouts.NewDesk(service, g.worker, &g.pass,
				func() bool { return g.shut.Load() || b.workers.revoked(g.worker) })
		}
		g.checkout.Answer(ctx, m)
	})
}

// redacted hides the passwords in a list of server URLs, for use in errors.
func redacted(list string) string {
	return cmp.Or(eachURL(list, (*url.URL).Redacted), "the configured agent_bus.url")
}
