package bus

import (
	"errors"
	"fmt"
	"regexp"

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
	// ErrUnavailable: the bus could not be opened.
	ErrUnavailable = errors.New("bus: not available")
)

// Permanent says whether trying the same again cannot help.
func Permanent(err error) bool {
	var m *wire.Malformed
	return errors.As(err, &m) || errors.Is(err, wire.ErrTooLarge) || errors.Is(err, ErrRefused) || errors.Is(err, ErrJournalGap)
}

// Options say where the bus is and how it is bounded.
type Options struct {
	URL             string   // empty: embed a server in StoreDir; else join this one
	StoreDir        string   // embedded: streams, port, secret, operator credential; created with mode 0700
	ListenHosts     []string // embedded: addresses to listen on; none: in-process connections only
	Port            int      // embedded: the port at the first start, 0 to 65535; 0: any free one. The one chosen is persisted
	Prefix          string   // of every subject; default "retake.v1"
	Fleet           string   // names streams; default "default"
	RunID           string   // names this run in the envelopes that the director sends
	Replicas        int      // of streams; default 1
	MaxMessageBytes int      // of one worker message, in bytes; default 65536
	SyncAlways      bool     // embedded: fsync every write, so that a power cut costs nothing
	Log             *zap.Logger
}

// Defaults of config-reference.toml.
const (
	defaultPrefix          = "retake.v1"
	defaultFleet           = "default"
	defaultMaxMessageBytes = 65_536
)

var fleetName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (o Options) withDefaults() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Fleet == "" {
		o.Fleet = defaultFleet
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = defaultMaxMessageBytes
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	switch {
	case wire.CheckPrefix(o.Prefix) != nil:
		return o, wire.CheckPrefix(o.Prefix)
	case !fleetName.MatchString(o.Fleet):
		return o, fmt.Errorf("bus: fleet %q: want 1 to 64 letters, digits, - and _", o.Fleet)
	case o.URL == "" && o.StoreDir == "":
		return o, errors.New("bus: an embedded server needs a folder to store its streams in")
	case o.Port < 0 || o.Port > 65535:
		return o, fmt.Errorf("bus: port %d: want 0 to 65535", o.Port)
	default:
		return o, nil
	}
}
