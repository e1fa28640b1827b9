package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/safefile"
)

// Limits of the embedded server.
const (
	maxPayload   = 1 << 20   // NATS's own default: bounds a journal batch and one dead letter
	maxStore     = 256 << 30 // bookkeeping only; each stream has its own bound
	readyTimeout = 20 * time.Second
)

// Accounts of the server; doc.go explains why there are two.
const (
	accountBus     = "BUS"
	accountJournal = "DIRECTOR"
)

// Files in the bus's folder, besides the streams.
const (
	filePort     = "port.json"
	fileSecret   = "worker-secret"
	fileOperator = "operator.json"
)

// Options configure the embedded server. Every field but Dir may be left empty.
type Options struct {
	Dir         string   // streams, port, secret, operator credential; created with mode 0700
	ListenHosts []string // addresses to listen on; none: connections of this process only
	Port        int      // the port at the first start, 0 to 65535; 0: any free one. The one chosen is persisted
	Prefix      string   // of every subject; default wire.DefaultPrefix
	Fleet       string   // names the server
	SyncAlways  bool     // fsync every write, so that a power cut costs nothing
	Log         *zap.Logger
}

// Server is the NATS server that the director runs itself. Its methods may be called from any goroutine.
type Server struct {
	nats  *natsd.Server
	relay *relay
	port  int

	secret   []byte // worker passwords derive from it; persisted, so that workers survive a restart of the director
	internal string // password of the director's own connections; of this process only
	subjects wire.Subjects

	mu       sync.Mutex
	accounts map[string]*natsd.Account // nil until the server is ready: nobody is let in before
	workers  map[string][]uint64       // admitted worker → ids of its connections, oldest first
}

// Start starts the server, then lets clients in. The caller has made sure that no other process uses the folder. Errors say what to do next. ctx
// bounds the start only.
func Start(ctx context.Context, o Options) (*Server, error) {
	o.Prefix = cmp.Or(o.Prefix, wire.DefaultPrefix)
	o.Log = cmp.Or(o.Log, zap.NewNop())
	switch {
	case wire.CheckPrefix(o.Prefix) != nil:
		return nil, wire.CheckPrefix(o.Prefix)
	case o.Dir == "":
		return nil, errors.New("bus: an embedded server needs a folder to store its streams in")
	case o.Port < 0 || o.Port > 65535:
		return nil, fmt.Errorf("bus: port %d: want 0 to 65535", o.Port)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("bus: make a folder for the bus: %w", err)
	}
	s := &Server{internal: rand.Text(), subjects: wire.Subjects{Prefix: o.Prefix}, workers: make(map[string][]uint64)}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) error {
	var err error
	if s.secret, err = keptSecret(filepath.Join(o.Dir, fileSecret)); err != nil {
		return err
	}
	if s.nats, err = natsd.NewServer(&natsd.Options{
		ServerName:                 "retake-" + o.Fleet,
		DontListen:                 true,
		NoSigs:                     true, // signals are the director's
		MaxPayload:                 maxPayload,
		JetStream:                  true,
		StoreDir:                   filepath.Join(o.Dir, "jetstream"),
		JetStreamMaxStore:          maxStore,
		JetStreamMaxMemory:         64 << 20,
		SyncAlways:                 o.SyncAlways,
		CustomClientAuthentication: s,
		Accounts:                   []*natsd.Account{natsd.NewAccount(accountBus), natsd.NewAccount(accountJournal)},
		DisableJetStreamBanner:     true,
	}); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	s.nats.SetLogger(serverLog{o.Log.Sugar()}, false, false)
	s.nats.Start()
	if !s.nats.ReadyForConnections(readyTimeout) {
		return fmt.Errorf("bus: the embedded server was not ready within %s: is %s writable, and is there room on its disk?", readyTimeout, o.Dir)
	}
	if err := s.openAccounts(); err != nil {
		return err
	}
	listeners, port, err := listen(ctx, o)
	if err != nil {
		return err
	}
	s.port = port
	s.relay = startRelay(listeners, s.nats.InProcessConn, o.Log)
	host := "127.0.0.1"
	if len(o.ListenHosts) > 0 {
		host = o.ListenHosts[0]
	}
	return writeJSON(filepath.Join(o.Dir, fileOperator), Operator{
		URL: s.URL(host), User: userOperator, Password: s.derive("operator"), Prefix: o.Prefix,
	})
}

// openAccounts gives both accounts their streams back and lets clients in.
func (s *Server) openAccounts() error {
	accounts := make(map[string]*natsd.Account, 2)
	for _, name := range []string{accountBus, accountJournal} {
		a, err := s.nats.LookupAccount(name)
		if err != nil {
			return fmt.Errorf("bus: account %s: %w", name, err)
		}
		if err := a.EnableJetStream(nil, nil); err != nil {
			return fmt.Errorf("bus: streams of account %s: %w", name, err)
		}
		accounts[name] = a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts = accounts
	return nil
}

// InProcessConn connects without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// Director signs in as the director, to the account that workers use.
func (s *Server) Director() nats.Option { return nats.UserInfo(userDirector, s.internal) }

// Journal signs in as the director, to the account of the journal.
func (s *Server) Journal() nats.Option { return nats.UserInfo(userJournal, s.internal) }

// URL is the server's address for a worker that reaches this machine as host.
func (s *Server) URL(host string) string {
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(s.port))
}

// secretBytes is the size of the key that worker passwords derive from: that of SHA-256's output.
const secretBytes = 32

// keptSecret reads a secret from its file, or makes one at the first start.
func keptSecret(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) == secretBytes {
		return secret, nil
	}
	if err == nil {
		return nil, fmt.Errorf("bus: %s has %d bytes instead of %d: remove it; running workers then lose their credentials", path, len(secret), secretBytes)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("bus: %w", err)
	}
	secret = make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	return secret, safefile.Write(path, 0o600, secret)
}

// writeJSON replaces a file, readable by its owner only.
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

// Close stops the listeners, then the server, for which it waits until ctx ends. It may be called on a server that did not
// start completely.
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

// serverLog passes on the server's warnings and errors; the rest is for debugging.
type serverLog struct{ log *zap.SugaredLogger }

func (l serverLog) Noticef(format string, v ...any) { l.log.Debugf("nats: "+format, v...) }
func (l serverLog) Warnf(format string, v ...any)   { l.log.Warnf("nats: "+format, v...) }
func (l serverLog) Fatalf(format string, v ...any)  { l.log.Errorf("nats: "+format, v...) }
func (l serverLog) Errorf(format string, v ...any)  { l.log.Errorf("nats: "+format, v...) }
func (l serverLog) Debugf(string, ...any)           {}
func (l serverLog) Tracef(string, ...any)           {}
