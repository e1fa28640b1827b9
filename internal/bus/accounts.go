package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/keys"
	"retake/internal/bus/link"
	"retake/internal/safefile"
)

// Files in the bus's directory.
const (
	fileWorkers   = "workers.json" // credentials known to this director, for when the bus is unreachable
	fileAttempts  = "attempt-key"  // a copy of the fleet's secret, in case the bus loses it
	attemptBytes  = 32             // length of the secret, the same as a SHA-256 sum
	maxClaims     = 1 << 20        // maximum size of claims in NATS, in bytes
	updateSubject = "$SYS.REQ.CLAIMS.UPDATE"
	updateTimeout = 3 * time.Second
	unknownLife   = 8 * 24 * time.Hour // assumed maximum credential lifetime: the watchdog's limit plus a day
	lookEvery     = 30 * time.Second   // interval between reads of the shared bucket
)

// Files written by earlier versions. start removes them, because their content is in the bucket.
const (
	oldFileWorkers = "workers.jwt"  // claims of the workers' account
	oldFileLongest = "longest-life" // maximum credential lifetime, as a time.Duration string
)

// workersAccount maintains the claims of the workers' account and pushes them to the server. Only one goroutine (run)
// pushes, and all revocations made before a push begins share it. A revocation lasts until the credential would have
// expired.
type workersAccount struct {
	keys     *keys.Director
	fleet    string
	dir      string
	life     time.Duration // lifetime of a credential
	leads    func() bool   // see Options.Leads
	replicas int           // replicas of the bucket
	js       jetstream.JetStream
	sys      *nats.Conn
	log      *zap.Logger

	stop    context.CancelFunc
	stopped sync.WaitGroup
	wake    chan struct{} // holds at most one token

	writing sync.Mutex // held while writing the file; acquired before mu
	written uint64     // number of changes written to the file

	mu        sync.Mutex
	shared    jetstream.KeyValue
	secret    []byte // the fleet's secret, from which all users' and attempts' keys derive; nil until known
	unwritten bool   // set if the copy of secret could not be written because the disk failed
	known     *credentials
	shut      map[string]bool  // users (public keys) revoked by this process and not issued a credential since
	told      map[string]bool  // violations that the caller has reported, by fleet and worker
	next      *push            // carries the revocations made since the last push began
	changes   uint64           // number of changes made to known
	pushed    uint64           // number of changes already pushed to the server
	revision  uint64           // revision of the bucket after the last push
	claims    map[string]int64 // claims that all servers have, or nil if a server may be missing them
}

// push is one update of the server's claims. It includes all revocations made before it begins.
type push struct {
	done chan struct{}
	err  error // valid once done is closed
}

// newWorkersAccount reads the fleet's secret and the credentials from the files in o.Dir.
func newWorkersAccount(o Options, sys *nats.Conn, js jetstream.JetStream) (*workersAccount, error) {
	if err := safefile.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	a := &workersAccount{
		keys: o.Keys, fleet: o.Fleet, dir: o.Dir, life: o.WorkerLife, leads: o.Leads, replicas: o.Replicas, js: js,
		sys: sys, log: o.Log,
		wake: make(chan struct{}, 1), known: newCredentials(), shut: map[string]bool{}, told: map[string]bool{},
		changes: 1,
	}
	a.known.Longest = o.WorkerLife
	return a, errors.Join(a.readCopy(), a.readFiles())
}

// establish creates the bucket if it is missing, and registers the workers' account with the server. Workers and the
// gatekeeper cannot sign in before the account is registered.
func (a *workersAccount) establish(ctx context.Context) error {
	shared, err := openShared(ctx, a.js, a.replicas)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.shared, a.claims = shared, nil
	a.mu.Unlock()
	if err := a.shareSecret(ctx, shared); err != nil {
		return err
	}
	err = a.push(ctx)
	switch {
	case link.Temporary(err):
		return fmt.Errorf("the server did not confirm the workers' account: %w", err)
	case err != nil:
		return fmt.Errorf("the server rejected the workers' account; it may have been started with other keys: %w", err)
	}
	return nil
}

// start starts run and watchServers, and removes old files.
func (a *workersAccount) start(ctx context.Context) error {
	for _, old := range [...]string{oldFileWorkers, oldFileLongest} { // their content is now in the bucket
		if err := os.Remove(a.file(old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	a.sys.SetReconnectHandler(func(*nats.Conn) {
		a.log.Info("bus connection restored")
		a.mu.Lock()
		a.claims = nil // the server may have changed, or lost its state
		a.mu.Unlock()
		a.again()
	})
	a.stopped.Go(func() { a.run(running) })
	return a.watchServers()
}

func (a *workersAccount) file(name string) string { return filepath.Join(a.dir, name) }

// readCopy reads the local copy of the fleet's secret, if it exists.
func (a *workersAccount) readCopy() error {
	err := safefile.Load(a.file(fileAttempts), func(data []byte) error {
		if len(data) != attemptBytes {
			return fmt.Errorf("got %d bytes, want %d", len(data), attemptBytes)
		}
		a.secret = data
		return nil
	})
	if damaged, ok := errors.AsType[*safefile.Damaged](err); ok {
		a.log.Warn("local copy of the fleet's secret is damaged; recreating it. If the bus lost its copy, reports "+
			"from running workers no longer count", zap.Error(damaged))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// errNoSecret means that the fleet's secret is missing. Keys must not be derived from an empty secret, because anyone
// could compute them.
var errNoSecret = errors.New("bus: the fleet's secret is unknown until the leader shares it")

// shareSecret adopts the fleet's secret from the bus. If the bus has no secret, the leader stores its copy or creates
// one. Only the leader may do this, because another director's copy could be outdated.
func (a *workersAccount) shareSecret(ctx context.Context, shared jetstream.KeyValue) error {
	own := a.fleetSecret()
	secret, err := sharedSecret(ctx, shared, a.fleet)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		if a.leads != nil && !a.leads() {
			return nil
		}
		secret, err = makeSecret(ctx, shared, a.fleet, own)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	same := bytes.Equal(own, secret) && !a.unwritten
	a.secret = secret
	a.mu.Unlock()
	if same {
		return nil
	}
	err = safefile.Write(a.file(fileAttempts), 0o600, secret)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unwritten = err != nil
	return err
}

// ShareSecret reads the fleet's secret from the bus. If the secret is missing there, the leader stores it. A new leader
// calls ShareSecret first, because workers' credentials and signatures derive from the secret.
func (b *Bus) ShareSecret(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	if err := b.workers.shareSecret(ctx, b.workers.bucket()); err != nil || b.workers.fleetSecret() != nil {
		return err
	}
	return errNoSecret
}

func (a *workersAccount) bucket() jetstream.KeyValue {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shared
}

func (a *workersAccount) fleetSecret() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.secret
}

// readFiles adds the credentials that earlier directors recorded in this directory, including directors of older
// versions. It ignores a damaged file, because the bus and the server have the same data.
func (a *workersAccount) readFiles() error {
	for name, read := range map[string]func([]byte) (*credentials, error){
		fileWorkers: decodeCredentials,
		oldFileWorkers: func(data []byte) (*credentials, error) {
			// The server refuses claims of this size, so the file cannot be used. Revoking all credentials,
			// even of running workers, ensures that no revocation is lost.
			if len(data) > maxClaims {
				return &credentials{All: time.Now().Unix()}, nil
			}
			revoked, err := a.keys.Revoked(string(data))
			return fromClaims(revoked), err
		},
		oldFileLongest: func(data []byte) (*credentials, error) {
			longest, err := time.ParseDuration(string(bytes.TrimSpace(data)))
			return &credentials{Longest: longest}, err
		},
	} {
		var others error
		err := safefile.Load(a.file(name), func(data []byte) error {
			known, err := read(data)
			if errors.Is(err, keys.ErrOtherKeys) { // the file is intact
				others, err = fmt.Errorf("%s: %w: remove this file if the keys were changed on purpose", a.file(name),
					err),
					nil
			}
			if err == nil {
				a.known.merge(known)
			}
			return err
		})
		if damaged, ok := errors.AsType[*safefile.Damaged](err); ok {
			a.known.Longest = max(a.known.Longest, unknownLife)
			a.log.Warn("revocation file is damaged; using the revocations on the bus and the server",
				zap.Error(damaged))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) || others != nil {
			return errors.Join(err, others)
		}
	}
	return nil
}

func (a *workersAccount) close() {
	if a.stop != nil {
		a.stop()
	}
	a.stopped.Wait()
}
