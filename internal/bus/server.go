package bus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

// Limits of the embedded server.
const (
	maxPayload   = 1 << 20   // NATS's own default: bounds a journal batch and one dead letter
	maxStore     = 256 << 30 // bookkeeping only; each stream has its own bound
	readyTimeout = 20 * time.Second
)

// embedded is the server that the director runs itself.
type embedded struct {
	server *server.Server
	auth   *authenticator
	relay  *relay
	port   int
	lock   *os.File
}

// startEmbedded starts the server on a folder that no other process uses, then opens its doors.
func startEmbedded(ctx context.Context, o Options) (*embedded, error) {
	if err := os.MkdirAll(o.StoreDir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: make a folder for the bus: %w", ErrUnavailable, err)
	}
	e := &embedded{}
	if err := e.start(ctx, o); err != nil {
		return nil, errors.Join(err, e.stop(context.WithoutCancel(ctx)))
	}
	return e, nil
}

func (e *embedded) start(ctx context.Context, o Options) error {
	var err error
	if e.lock, err = lockFolder(ctx, o.StoreDir); err != nil {
		return err
	}
	if e.auth, err = newAuthenticator(o); err != nil {
		return err
	}
	if e.server, err = server.NewServer(serverOptions(o, e.auth)); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	e.server.SetLogger(serverLog{o.Log.Sugar()}, false, false)
	e.server.Start()
	if !e.server.ReadyForConnections(readyTimeout) {
		return fmt.Errorf("%w: the embedded server was not ready within %s: is %s writable, and is there room on its disk?", ErrUnavailable, readyTimeout, o.StoreDir)
	}
	if err := e.openAccounts(); err != nil {
		return err
	}
	listeners, port, err := listen(ctx, o)
	if err != nil {
		return err
	}
	e.port = port
	e.relay = startRelay(listeners, e.server.InProcessConn, o.Log)
	return e.auth.writeOperator(o, port)
}

func serverOptions(o Options, auth *authenticator) *server.Options {
	return &server.Options{
		ServerName:                 "retake-" + o.Fleet,
		DontListen:                 true,
		NoSigs:                     true, // signals are the director's
		MaxPayload:                 maxPayload,
		JetStream:                  true,
		StoreDir:                   filepath.Join(o.StoreDir, "jetstream"),
		JetStreamMaxStore:          maxStore,
		JetStreamMaxMemory:         64 << 20,
		SyncAlways:                 o.SyncAlways,
		CustomClientAuthentication: auth,
		Accounts:                   []*server.Account{server.NewAccount(accountBus), server.NewAccount(accountJournal)},
		DisableJetStreamBanner:     true,
	}
}

// openAccounts gives both accounts their streams back and lets clients in.
func (e *embedded) openAccounts() error {
	accounts := make(map[string]*server.Account, 2)
	for _, name := range []string{accountBus, accountJournal} {
		a, err := e.server.LookupAccount(name)
		if err != nil {
			return fmt.Errorf("%w: account %s: %w", ErrUnavailable, name, err)
		}
		if err := a.EnableJetStream(nil, nil); err != nil {
			return fmt.Errorf("%w: streams of account %s: %w", ErrUnavailable, name, err)
		}
		accounts[name] = a
	}
	e.auth.open(accounts, e.server.DisconnectClientByID)
	return nil
}

// stop closes the doors, then the server, then gives the folder free. Safe on a half-started server.
func (e *embedded) stop(ctx context.Context) error {
	if e.relay != nil {
		e.relay.stop()
	}
	var err error
	if e.server != nil {
		err = shutdown(ctx, e.server)
	}
	if e.lock != nil {
		err = errors.Join(err, e.lock.Close())
	}
	return err
}

func shutdown(ctx context.Context, s *server.Server) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Shutdown()
		s.WaitForShutdown()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("bus: the embedded server has not stopped in time: %w", ctx.Err())
	}
}

// serverLog passes on what the server warns of; its chatter is not ours.
type serverLog struct{ log *zap.SugaredLogger }

func (l serverLog) Noticef(format string, v ...any) { l.log.Debugf("nats: "+format, v...) }
func (l serverLog) Warnf(format string, v ...any)   { l.log.Warnf("nats: "+format, v...) }
func (l serverLog) Fatalf(format string, v ...any)  { l.log.Errorf("nats: "+format, v...) }
func (l serverLog) Errorf(format string, v ...any)  { l.log.Errorf("nats: "+format, v...) }
func (l serverLog) Debugf(string, ...any)           {}
func (l serverLog) Tracef(string, ...any)           {}
