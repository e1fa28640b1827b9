package bus

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
	"retake/internal/safefile"
)

// Files in the bus's folder.
const (
	fileWorkers   = "workers.jwt" // the claims of the workers' account, as they are or will be at the server
	fileAttempts  = "attempt-key"
	fileLongest   = "longest-life" // of a worker's credential, of this director and those before it, as time.Duration has it
	attemptBytes  = 32             // of that key: as much as SHA-256 yields
	updateSubject = "$SYS.REQ.CLAIMS.UPDATE"
	updateTimeout = 3 * time.Second
)

// workersAccount keeps the claims of the workers' account and makes the server know them. A credential that was revoked
// stays so until it would have expired by itself.
type workersAccount struct {
	keys   *keys.Director
	secret []byte // users' keys and attempts' keys derive from it
	path   string
	life   time.Duration // of a credential
	kept   time.Duration // of a revocation: the longest life of any credential so far
	sys    *nats.Conn
	log    *zap.Logger

	stop    context.CancelFunc
	stopped sync.WaitGroup
	wake    chan struct{} // room for one

	writing sync.Mutex // of the file; taken before mu
	written uint64     // changes in the file

	mu      sync.Mutex
	issued  map[string]int64 // public key of a user → newest time of issue in this process, Unix seconds
	revoked map[string]int64 // public key of a user → what was issued up to then does not count, Unix seconds
	shut    map[string]bool  // public keys of users that this process has revoked since it last issued for them
	next    *push            // that will carry what was revoked since the last one began
	changes uint64           // of revoked so far
	known   uint64           // of them, at the server
}

// push is one update of the server. Everybody who revokes before it begins waits for the same one.
type push struct {
	done chan struct{}
	err  error // once done is closed
}

// openWorkersAccount reads what is known and tells the server, before any worker or gatekeeper can sign in.
func openWorkersAccount(ctx context.Context, o Options, sys *nats.Conn) (*workersAccount, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	secret, err := keptSecret(filepath.Join(o.Dir, fileAttempts))
	if err != nil {
		return nil, err
	}
	longest, err := keptLongest(filepath.Join(o.Dir, fileLongest), o.WorkerLife)
	if err != nil {
		return nil, err
	}
	a := &workersAccount{
		keys: o.Keys, secret: secret, path: filepath.Join(o.Dir, fileWorkers), life: o.WorkerLife, kept: longest, sys: sys, log: o.Log,
		wake: make(chan struct{}, 1), issued: map[string]int64{}, revoked: map[string]int64{}, shut: map[string]bool{},
	}
	kept, err := os.ReadFile(a.path)
	switch {
	case err == nil:
		known, err := a.keys.Revoked(string(kept))
		maps.Copy(a.revoked, known)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: remove it if the keys are meant to be others now", a.path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := a.push(ctx); err != nil {
		return nil, fmt.Errorf("the server does not take the workers' account: %w: are these the keys that it was started with?", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	sys.SetReconnectHandler(func(*nats.Conn) {
		o.Log.Info("bus connection back")
		a.again() // the server may be another, or have lost what it knew
	})
	a.stopped.Go(func() { a.run(running) })
	return a, nil
}

func (a *workersAccount) close() {
	a.stop()
	a.stopped.Wait()
}

// run pushes when asked to, and again until the server has it.
func (a *workersAccount) run(ctx context.Context) {
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		a.mu.Lock()
		now := a.next
		a.next = nil
		a.mu.Unlock()
		err := a.push(ctx)
		if now != nil {
			now.err = err
			close(now.done)
		}
		if err == nil {
			failures = 0
			continue
		}
		a.log.Warn("revocations are not at the server yet, trying again", zap.Error(err))
		pause(ctx, backoff(failures))
		failures++
		a.again()
	}
}

// again asks for a push that nobody waits for.
func (a *workersAccount) again() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// user is the public and the whole key of a worker's credential.
func (a *workersAccount) user(worker string) (string, nkeys.KeyPair, error) {
	pair, err := keys.WorkerUser(a.secret, worker)
	if err != nil {
		return "", nil, err
	}
	public, err := pair.PublicKey()
	return public, pair, err
}

// seed is that of a worker's credential.
func (a *workersAccount) seed(worker string) (string, error) {
	_, pair, err := a.user(worker)
	if err != nil {
		return "", err
	}
	seed, err := pair.Seed()
	return string(seed), err
}

// issue makes a worker's credential. What is issued in the second in which an earlier one was revoked would be revoked, too:
// it waits for the next.
func (a *workersAccount) issue(ctx context.Context, worker string, s wire.Subjects, maxBytes int) (keys.User, error) {
	public, pair, err := a.user(worker)
	if err != nil {
		return keys.User{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for time.Now().Unix() <= a.revoked[public] {
		wait := time.Until(time.Unix(a.revoked[public]+1, 0))
		a.mu.Unlock()
		waited := pause(ctx, wait)
		a.mu.Lock()
		if !waited {
			return keys.User{}, ctx.Err()
		}
	}
	a.issued[public] = time.Now().Unix()
	delete(a.shut, public)
	return a.keys.Worker(pair, worker, s, maxBytes, time.Now().Add(a.life))
}

// revoke returns when the server has shut the worker out, or with an error when ctx ends or a push failed; it is pushed again then.
func (a *workersAccount) revoke(ctx context.Context, worker string) error {
	public, _, err := a.user(worker)
	if err != nil {
		return err
	}
	a.mu.Lock()
	if !a.shut[public] { // an entry of an earlier process may be older than what that one issued next
		a.shut[public] = true
		a.revoked[public] = max(a.revoked[public], a.issued[public], time.Now().Unix())
		a.changes++
	}
	if a.known == a.changes {
		a.mu.Unlock()
		return nil
	}
	if a.next == nil {
		a.next = &push{done: make(chan struct{})}
	}
	p := a.next
	a.mu.Unlock()
	kept := a.keep()
	a.again()
	select {
	case <-p.done:
		return p.err // a push writes it down, too
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err()), kept)
	}
}

// keep writes down what was revoked so far, unless it is. Those who come together share a writing.
func (a *workersAccount) keep() error {
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	done := a.written == a.changes
	a.mu.Unlock()
	if done {
		return nil
	}
	_, _, err := a.write(nil)
	return err
}

// write writes the claims down, with what others have revoked, and says of how many changes they tell. It is called with the lock of writing.
func (a *workersAccount) write(theirs map[string]int64) (claims string, changes uint64, err error) {
	revoked, changes := a.merge(theirs)
	claims, err = a.keys.WorkersAccount(revoked)
	if err == nil {
		err = safefile.Write(a.path, 0o600, []byte(claims))
	}
	if err == nil {
		a.written = changes
	}
	return claims, changes, err
}

// push writes the claims down, then makes the server have them: what is known here first, for the server may be away. What the server knows of
// revocations by others who have these keys is kept.
func (a *workersAccount) push(ctx context.Context) error {
	if err := a.keep(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	known, err := a.sys.RequestWithContext(ctx, "$SYS.REQ.ACCOUNT."+a.keys.Workers()+".CLAIMS.LOOKUP", nil)
	if err != nil {
		return noAnswer(err)
	}
	var theirs map[string]int64
	if len(known.Data) > 0 {
		if theirs, err = a.keys.Revoked(string(known.Data)); err != nil {
			return err
		}
	}
	a.writing.Lock()
	claims, changes, err := a.write(theirs)
	a.writing.Unlock()
	if err != nil {
		return err
	}
	m, err := a.sys.RequestWithContext(ctx, updateSubject, []byte(claims))
	if err != nil {
		return noAnswer(err)
	}
	var answer struct {
		Error *struct{ Description string } `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("bus: answer to the claims: %w", err)
	}
	if answer.Error != nil {
		return fmt.Errorf("bus: the server refuses the claims: %s", answer.Error.Description)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = changes
	return nil
}

// merge adds what others have revoked, drops what has expired, and returns a copy, and of how many changes it tells.
func (a *workersAccount) merge(theirs map[string]int64) (map[string]int64, uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for user, at := range theirs {
		a.revoked[user] = max(a.revoked[user], at)
	}
	all := make(map[string]int64, len(a.revoked))
	for user, at := range a.revoked {
		if a.expired(at) {
			delete(a.revoked, user)
			continue
		}
		all[user] = at
	}
	maps.DeleteFunc(a.issued, func(_ string, at int64) bool { return a.expired(at) })
	maps.DeleteFunc(a.shut, func(user string, _ bool) bool { return a.revoked[user] == 0 })
	return all, a.changes
}

// expired: what was issued at that time does not count any more, whether it was revoked or not, however long its life was.
func (a *workersAccount) expired(at int64) bool { return time.Since(time.Unix(at, 0)) > a.kept }

// attemptKey is what a worker signs its reports with.
func (a *workersAccount) attemptKey(worker string) []byte {
	return wire.AttemptKey(a.secret, worker)
}

// keptSecret reads a secret from its file, or makes one at the first start.
func keptSecret(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) == attemptBytes {
		return secret, nil
	}
	if err == nil {
		return nil, fmt.Errorf("%s has %d bytes instead of %d: remove it; the reports of running workers do not count then", path, len(secret), attemptBytes)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	secret = make([]byte, attemptBytes)
	_, _ = rand.Read(secret) // never fails
	return secret, safefile.Write(path, 0o600, secret)
}

// keptLongest is the longest life of a credential that any director with this folder has had configured.
func keptLongest(path string, life time.Duration) (time.Duration, error) {
	text, err := os.ReadFile(path)
	var before time.Duration
	if err == nil {
		if before, err = time.ParseDuration(string(bytes.TrimSpace(text))); err != nil {
			return 0, fmt.Errorf("%s: %w: remove it if no worker runs", path, err)
		}
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return 0, err
	case before >= life:
		return before, nil
	}
	return life, safefile.Write(path, 0o600, []byte(life.String()+"\n"))
}
