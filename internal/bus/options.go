package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// The errors that a caller can act on.
var (
	// ErrRefused: another writer appended to the journal first. Permanent for this writer: discard what was decided.
	ErrRefused = errors.New("bus: append refused: another director writes this journal")
	// ErrUnsure: an append was not acknowledged, and reading it back failed too. It may be stored or not.
	ErrUnsure = errors.New("bus: append unsure: neither acknowledged nor readable")
	// ErrJournalGap: records that a replay needs are gone.
	ErrJournalGap = errors.New("bus: the journal has a gap")
	// ErrNoAnswer: the other side did not answer in time, or nobody listens. Transient.
	ErrNoAnswer = errors.New("bus: no answer")
)

// Permanent reports whether trying the same again cannot help.
func Permanent(err error) bool {
	_, malformed := errors.AsType[*wire.Malformed](err)
	return malformed || errors.Is(err, wire.ErrTooLarge) || errors.Is(err, ErrRefused) || errors.Is(err, ErrJournalGap)
}

// Server is a NATS server that the director runs itself: package bus/server, which the worker does not link.
type Server interface {
	InProcessConn() (net.Conn, error) // without a socket
	Director() nats.Option            // signs in to the account that workers use
	Journal() nats.Option             // signs in to the account of the journal
	URL(host string) string           // for a worker that reaches this machine as host
	Admit(worker string)              // lets a worker in
	Revoke(worker string)             // shuts it out and closes its connections
	Password(worker string) string    // of a worker, admitted or not
	Close(ctx context.Context) error  // waits until ctx ends
}

// Options say where the bus is and how it is bounded.
type Options struct {
	Server          Server // nil: join URL
	URL             string // of the server to join
	Prefix          string // of every subject; default wire.DefaultPrefix
	Fleet           string // names streams; default "default"
	RunID           string // names this run in the envelopes that the director sends
	Replicas        int    // of streams; default 1
	MaxMessageBytes int    // of one worker message, in bytes; default 65536
	AttemptSecret   []byte // of which the keys of attempts follow, kept as long as workers live; nil: one of this process
	Log             *zap.Logger
}

// Defaults of the configuration reference.
const (
	defaultFleet           = "default"
	defaultMaxMessageBytes = 65_536
)

var fleetName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, wire.DefaultPrefix)
	o.Fleet = cmp.Or(o.Fleet, defaultFleet)
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, defaultMaxMessageBytes)
	o.Log = cmp.Or(o.Log, zap.NewNop())
	if o.AttemptSecret == nil {
		o.AttemptSecret = []byte(rand.Text())
	}
	return o
}

func (o Options) check() error {
	switch {
	case o.Server == nil && o.URL == "":
		return errors.New("neither a server of our own nor the URL of one to join")
	case !fleetName.MatchString(o.Fleet):
		return fmt.Errorf("fleet %q: want 1 to 64 letters, digits, - and _", o.Fleet)
	default:
		return wire.CheckPrefix(o.Prefix)
	}
}
