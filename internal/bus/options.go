package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/chain"
	"retake/internal/bus/checkouts"
	"retake/internal/bus/journal"
	"retake/internal/bus/keys"
	"retake/internal/bus/leadership"
	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

// Errors that callers distinguish.
var (
	// ErrNoAnswer means that the other side did not answer in time, or is not listening. It is transient.
	ErrNoAnswer = link.ErrNoAnswer
	// ErrRejected means that the director will never accept the report. It is permanent.
	ErrRejected = errors.New("bus: report rejected")
	// ErrUnreachable means that no server answers at the configured address. It may be transient.
	ErrUnreachable = errors.New("bus: no NATS server is reachable")
)

// Types of package journal, re-exported for callers.
type (
	Journal      = journal.Journal
	Verification = journal.Verification

	VerifiedSnapshot = journal.VerifiedSnapshot
	Archive          = journal.Archive
	Damage           = chain.Damage
	Head             = chain.Head
)

// Types of package checkouts, re-exported for callers.
type (
	CheckoutRules = checkouts.Rules
	CheckoutStore = checkouts.Store
	CheckoutState = checkouts.State
	OpenCheckout  = checkouts.Opened
)

// Types of package leadership, re-exported for callers.
type (
	Lease        = leadership.Lease
	Leader       = leadership.Leader
	LeaseOptions = leadership.Options
)

// Errors of packages journal, chain, checkouts and link, re-exported for callers.
var (
	ErrRefused         = journal.ErrRefused
	ErrUnsure          = journal.ErrUnsure
	ErrSnapshot        = journal.ErrSnapshot
	ErrReplaced        = journal.ErrReplaced
	ErrNoJournal       = journal.ErrNone
	ErrNoChunk         = checkouts.ErrNoChunk
	ErrDamaged         = chain.ErrDamaged
	ErrJournalNotEmpty = journal.ErrNotEmpty
	ErrNotLeading      = link.ErrNotLeading
)

// Permanent reports whether retrying the failed operation is useless.
func Permanent(err error) bool {
	_, malformed := errors.AsType[*wire.Malformed](err)
	return malformed || errors.Is(err, wire.ErrTooLarge) || errors.Is(err, ErrRefused) || errors.Is(err, ErrRejected) ||
		errors.Is(err, ErrDamaged)
}

// Server is a NATS server run by the director, implemented in package bus/server. It is an interface because the worker
// must not link a server.
type Server interface {
	InProcessConn() (net.Conn, error) // connects without a socket
	Keys() *keys.Director             // keys of the accounts that the server trusts
	Dir() string                      // directory for the files of the bus
	URL(host string) string           // URL for a worker that reaches this machine as host
	// OnRefused registers a callback for each message or subscription that the server refuses. The callback must not
	// block.
	OnRefused(told func(connection uint64))
	Close(ctx context.Context) error // waits until ctx is done
}

// Options configure the connection to the bus, and its limits.
type Options struct {
	Server Server         // the embedded server; if nil, the bus connects to URL
	URL    string         // URL of the server to join
	Keys   *keys.Director // keys for the server to join
	// Dir is the directory for data outside the streams, such as revocations and the fleet's secret. The default is the
	// embedded server's directory.
	Dir          string
	Archive      Archive       // archive of the journal
	JournalBytes int64         // capacity of the journal's stream; default 4 GiB
	Mirror       string        // file that records the end of the journal (see chain.Mirror); empty to disable
	WorkerLife   time.Duration // lifetime of a worker's credential; default 48 h
	Prefix       string        // prefix of every subject; default wire.DefaultPrefix
	Fleet        string        // name of the fleet, a part of stream names; default "default"
	// Leads reports whether only this process may now change the journal and create the fleet's secret. Nil means
	// always.
	Leads           link.Leads
	RunID           string // id of this run in the director's envelopes
	Replicas        int    // replicas of each stream; default 1
	MaxMessageBytes int    // maximum size of one message from newly authorized workers, in bytes; default 65536
	Log             *zap.Logger

	// TraceParent returns the traceparent header for messages to a worker and for the worker's stored reports. If it is
	// nil or returns "", these messages do not have the header. The bus ignores this header in messages from workers.
	// TraceParent must not block.
	TraceParent func(worker string) string

	// OnOffence is called once for each worker that this process cuts off, in a separate goroutine. Close waits for the
	// call.
	OnOffence func(Offence)
}

// Defaults, as documented in the configuration reference.
const (
	defaultFleet           = "default"
	defaultMaxMessageBytes = 65_536
	defaultWorkerLife      = 48 * time.Hour
)

var fleetName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, wire.DefaultPrefix)
	o.Fleet = cmp.Or(o.Fleet, defaultFleet)
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.JournalBytes = cmp.Or(o.JournalBytes, journalBytes)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, defaultMaxMessageBytes)
	o.WorkerLife = cmp.Or(o.WorkerLife, defaultWorkerLife)
	if o.Server != nil {
		o.Keys, o.Dir = o.Server.Keys(), cmp.Or(o.Dir, o.Server.Dir())
	}
	o.Log = cmp.Or(o.Log, zap.NewNop())
	return o
}

func (o Options) check() error {
	switch {
	case o.Server == nil && o.URL == "":
		return errors.New("missing server: want an embedded one, or the URL of a server to join")
	case o.Keys == nil:
		return errors.New("missing keys for the server to join: create them and the server's configuration with " +
			"`director bus init`, and set agent_bus.credentials to their directory")
	case o.Dir == "":
		return errors.New("missing directory for revocations")
	case !fleetName.MatchString(o.Fleet):
		return fmt.Errorf("fleet %q: want 1 to 64 letters, digits, - and _", o.Fleet)
	default:
		return wire.CheckPrefix(o.Prefix)
	}
}
