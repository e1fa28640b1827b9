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
	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
)

// The errors that a caller can act on.
var (
	// ErrRefused: another writer appended to the journal first. Permanent for this writer: discard what was decided.
	ErrRefused = errors.New("bus: append refused: another director writes this journal")
	// ErrUnsure: an append was not acknowledged, and reading it back failed too. It may be stored or not.
	ErrUnsure = errors.New("bus: append unsure: neither acknowledged nor readable")
	// ErrDamaged: the journal is not as it was written. A *Damage says where.
	ErrDamaged = chain.ErrDamaged
	// ErrSnapshot: one of the kept snapshots cannot be read, so nothing leaves the live journal before
	// SaveSnapshot has put another one in its place.
	ErrSnapshot = errors.New("bus: a snapshot cannot be read")
	// ErrReplaced: another journal stands where the one was that was being read. From its beginning on it can be read.
	ErrReplaced = errors.New("bus: the journal was replaced by another one")
	// ErrNotLeading: another director may lead by now. What would write over its work was not done.
	ErrNotLeading = errors.New("bus: this director leads no more")
	// ErrJournalNotEmpty: an import needs an empty journal.
	ErrJournalNotEmpty = errors.New("bus: the journal has batches: set it aside first")
	// ErrNoAnswer: the other side did not answer in time, or nobody listens. Transient.
	ErrNoAnswer = errors.New("bus: no answer")
	// ErrRejected: the director takes no such report. Permanent.
	ErrRejected = errors.New("bus: report rejected")
)

// What package chain says of the journal.
type (
	Damage = chain.Damage
	Head   = chain.Head
)

// Permanent reports whether trying the same again cannot help.
func Permanent(err error) bool {
	_, malformed := errors.AsType[*wire.Malformed](err)
	return malformed || errors.Is(err, wire.ErrTooLarge) || errors.Is(err, ErrRefused) || errors.Is(err, ErrRejected) ||
		errors.Is(err, ErrDamaged)
}

// Server is a NATS server that the director runs itself: package bus/server, which the worker does not link.
type Server interface {
	InProcessConn() (net.Conn, error)       // without a socket
	Keys() *keys.Director                   // those that it trusts
	Dir() string                            // of the bus
	URL(host string) string                 // for a worker that reaches this machine as host
	OnRefused(told func(connection uint64)) // of each message and subscription without permission; told does not block
	Close(ctx context.Context) error        // waits until ctx ends
}

// Options say where the bus is and how it is bounded.
type Options struct {
	Server Server         // nil: join URL
	URL    string         // of the server to join
	Keys   *keys.Director // of the server to join
	// what is kept besides the streams: who is revoked, the attempts' key; default: the embedded server's
	Dir          string
	Archive      Archive       // of the journal
	JournalBytes int64         // of the journal's stream, which refuses more; default 4 GiB
	Mirror       string        // file that says how far the journal went, outside of the server's; empty: none
	WorkerLife   time.Duration // of a worker's credential; default 48 h
	Prefix       string        // of every subject; default wire.DefaultPrefix
	Fleet        string        // names streams; default "default"
	// nobody else may change the journal, or make the fleet's secret, at this moment; nil: nobody else ever does
	Leads           func() bool
	RunID           string // names this run in the envelopes that the director sends
	Replicas        int    // of streams; default 1
	MaxMessageBytes int    // of one message of a worker that is authorized now, in bytes; default 65536
	Log             *zap.Logger

	// TraceParent is the traceparent header of messages to a worker, and of its reports as they are stored:
	// what the worker itself says of its trace counts for nothing. It does not block. Empty: no header; nil:
	// never one.
	TraceParent func(worker string) string

	// OnOffence is told of a worker that was cut off, once, on a goroutine of its own. It may block, but Close
	// waits for it.
	OnOffence func(Offence)
}

// Defaults of the configuration reference.
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
		return errors.New("neither a server of our own nor the URL of one to join")
	case o.Keys == nil:
		return errors.New("a server to join needs keys: make them and its configuration with `director bus init`, " +
			"and name them in agent_bus.credentials")
	case o.Dir == "":
		return errors.New("no folder to keep in who is revoked")
	case !fleetName.MatchString(o.Fleet):
		return fmt.Errorf("fleet %q: want 1 to 64 letters, digits, - and _", o.Fleet)
	default:
		return wire.CheckPrefix(o.Prefix)
	}
}

// LeaseOptions say who wants to lead.
type LeaseOptions struct {
	Me     Leader           // without Since, Why and Time
	Period time.Duration    // for which a renewal is good
	Now    func() time.Time // the machine's time, while it leads; nil: the wall clock's
	Able   func() bool      // it can do a leader's work: who cannot renews no lease, and takes none; nil: it can
}
