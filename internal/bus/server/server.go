package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/jwt/v2"
	natsd "github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
	"retake/internal/safefile"
)

// Limits of the embedded server.
const (
	maxStore     = 256 << 30 // for bookkeeping only, because each stream has its own limit
	readyTimeout = 20 * time.Second
)

// Files and directories in the bus's directory, in addition to the streams.
const (
	filePort    = "port.json"
	dirKeys     = "keys"
	dirStreams  = "jetstream"
	dirAccounts = "accounts" // claims pushed by the director
)

// authTimeout is the maximum time for a connection to sign in.
const authTimeout = 2 * time.Second

// The server disconnects a client that has more than maxPending unread bytes, or does not read for writeDeadline. While
// the director reads a snapshot, the stream sends up to half of maxPending before flow control pauses it. maxPending
// must therefore be large, even though the director reads immediately.
const (
	maxPending    = 16 << 20
	writeDeadline = 10 * time.Second
)

// Options configure the embedded server. Every field but Dir may be left empty.
type Options struct {
	Dir string // directory for streams, port, keys and the operator's credential; created with mode 0700
	// ListenHosts are the addresses to listen on, with TLS except on loopback. If empty, only this process can connect.
	ListenHosts []string
	Names       []string // further names and addresses at which workers may reach the server
	MaxWorkers  int      // number of workers, which determines the connection limits; 0 means DefaultLimits
	Port        int      // preferred port, 0 for any free port; the first start stores the port it used
	Prefix      string   // prefix of every subject; default wire.DefaultPrefix
	Fleet       string   // part of the server's name
	SyncAlways  bool     // fsync every write, so a power cut does not lose data
	Log         *zap.Logger
}

// Server is the embedded NATS server. Its methods are safe for concurrent use.
type Server struct {
	nats  *natsd.Server
	relay *relay
	dir   string
	port  int
	plain []string // hosts on which the relay listens without TLS
	keys  *keys.Director
	log   *serverLog
}

// Start starts the server and accepts clients. The caller must ensure that no other process uses the directory. Errors
// state the next step. ctx applies only to startup.
func Start(ctx context.Context, o Options) (*Server, error) {
	o.Prefix = cmp.Or(o.Prefix, wire.DefaultPrefix)
	o.Log = cmp.Or(o.Log, zap.NewNop())
	switch {
	case wire.CheckPrefix(o.Prefix) != nil:
		return nil, wire.CheckPrefix(o.Prefix)
	case o.Dir == "":
		return nil, errors.New("bus: an embedded server needs a directory for its streams")
	case o.Port < 0 || o.Port > 65535:
		return nil, fmt.Errorf("bus: port %d: want 0 to 65535", o.Port)
	}
	if err := safefile.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("bus: create the bus directory: %w", err)
	}
	s := &Server{dir: o.Dir, log: newServerLog(o.Log)}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Admit adapts the connection limits to the number of workers.
func (s *Server) Admit(workers int) { s.relay.limiter.Set(limitsFor(workers)) }

func (s *Server) start(ctx context.Context, o Options) error {
	dir := filepath.Join(o.Dir, dirKeys)
	if err := keys.Ensure(dir); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	var err error
	if s.keys, err = keys.Load(filepath.Join(dir, keys.DirDirector)); err != nil {
		return fmt.Errorf("bus: %w (the journal and the reports depend on the keys in %s: restore lost or damaged "+
			"keys from a backup)", err, dir)
	}
	if err := s.startNATS(o); err != nil {
		return err
	}
	listeners, port, err := listen(ctx, o)
	if err != nil {
		return err
	}
	s.port = port
	entrances, err := s.entrances(o, listeners)
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	s.relay = startRelay(entrances, func(context.Context) (net.Conn, error) { return s.nats.InProcessConn() },
		limitsFor(o.MaxWorkers), o.Log)
	host := "127.0.0.1"
	if len(o.ListenHosts) > 0 {
		host = o.ListenHosts[0]
	}
	if err := s.keys.WritePerson(o.Dir, s.URL(host), s.keys.CA(), o.Prefix); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	return nil
}

// entrances adds TLS to the listeners, except on loopback.
func (s *Server) entrances(o Options, listeners []net.Listener) ([]entrance, error) {
	var all []entrance
	var secure *tls.Config
	for i, l := range listeners {
		e := entrance{Listener: l}
		if keys.Loopback(o.ListenHosts[i]) {
			s.plain = append(s.plain, o.ListenHosts[i])
		} else {
			if secure == nil {
				c, err := keys.Certificate(filepath.Join(o.Dir, dirKeys),
					append([]string{"127.0.0.1"}, append(o.ListenHosts, o.Names...)...))
				if err != nil {
					return nil, fmt.Errorf("bus: %w", err)
				}
				secure = &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12}
			}
			e.tls = secure
		}
		all = append(all, e)
	}
	return all, nil
}

// startNATS starts the NATS server without the workers' account, which the director pushes later.
func (s *Server) startNATS(o Options) error {
	trusted, err := keys.LoadTrusted(filepath.Join(o.Dir, dirKeys, keys.DirServer))
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	if err := adoptStreams(o.Dir, trusted, o.Log); err != nil {
		return err
	}
	resolver, err := natsd.NewDirAccResolver(filepath.Join(o.Dir, dirAccounts), 0, 0, natsd.NoDelete)
	for account, claims := range trusted.Accounts {
		if err == nil {
			err = resolver.Store(account, claims)
		}
	}
	if err != nil {
		return fmt.Errorf("bus: accounts: %w", err)
	}
	if s.nats, err = natsd.NewServer(&natsd.Options{
		ServerName:             "retake-" + o.Fleet,
		DontListen:             true,
		NoSigs:                 true, // the director handles signals
		MaxPayload:             keys.MaxPayload,
		MaxPending:             maxPending,
		WriteDeadline:          writeDeadline,
		AuthTimeout:            authTimeout.Seconds(),
		JetStream:              true,
		StoreDir:               filepath.Join(o.Dir, dirStreams),
		JetStreamMaxStore:      maxStore,
		JetStreamMaxMemory:     64 << 20,
		SyncAlways:             o.SyncAlways,
		TrustedOperators:       []*jwt.OperatorClaims{trusted.Operator},
		SystemAccount:          trusted.System,
		AccountResolver:        resolver,
		DisableJetStreamBanner: true,
	}); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	s.nats.SetLogger(s.log, false, false)
	s.nats.Start()
	if !s.nats.ReadyForConnections(readyTimeout) {
		return fmt.Errorf("bus: the embedded server was not ready within %s: is %s writable, and is there room "+
			"on its disk?", readyTimeout, o.Dir)
	}
	return nil
}

// InProcessConn connects without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// OnRefused registers a callback for each message or subscription that the server refuses for lack of permission. The
// callback receives the connection number used in the server's events, and must not block.
func (s *Server) OnRefused(told func(connection uint64)) { s.log.refused.Store(&told) }

// Keys returns the keys that the server trusts.
func (s *Server) Keys() *keys.Director { return s.keys }

// Dir returns the bus directory.
func (s *Server) Dir() string { return s.dir }

// URL returns the server's URL for a worker that reaches this machine as host.
func (s *Server) URL(host string) string {
	scheme := "tls"
	if slices.Contains(s.plain, host) || s.port == 0 {
		scheme = "nats"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(s.port))
}

// writeJSON writes v to a file that only its owner can read.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = safefile.Write(path, 0o600, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("bus: write %s: %w", path, err)
	}
	return nil
}

// Close stops the listeners and then the server. It waits for the server until ctx is done. It may be called on a
// server that did not start completely.
func (s *Server) Close(ctx context.Context) error {
	if s.relay != nil {
		s.relay.stop()
	}
	if s.nats == nil {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("bus: the embedded server did not stop in time: %w", ctx.Err())
	}
}
