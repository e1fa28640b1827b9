package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nkeys"

	"retake/internal/bus/keys"
	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

// user returns the public key and the key pair of a worker's credential.
func (a *workersAccount) user(worker string) (string, nkeys.KeyPair, error) {
	secret := a.fleetSecret()
	if secret == nil {
		return "", nil, errNoSecret
	}
	pair, err := keys.WorkerUser(secret, worker)
	if err != nil {
		return "", nil, err
	}
	public, err := pair.PublicKey()
	return public, pair, err
}

// seed returns the seed of a worker's credential.
func (a *workersAccount) seed(worker string) (string, error) {
	_, pair, err := a.user(worker)
	if err != nil {
		return "", err
	}
	seed, err := pair.Seed()
	return string(seed), err
}

// issue issues a worker's credential. Revocations have a resolution of one second, so a revocation also covers a
// credential issued later in the same second. If the worker was revoked in the current second, issue waits until the
// next second.
func (a *workersAccount) issue(ctx context.Context, worker string, s wire.Subjects, maxBytes int,
	more []string,
) (keys.User, error) {
	public, pair, err := a.user(worker)
	if err != nil {
		return keys.User{}, err
	}
	defer a.again() // tell other directors when the credential was issued
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		last := max(a.known.Revoked[public], a.known.All)
		if time.Now().Unix() > last {
			break
		}
		wait := time.Until(time.Unix(last+1, 0))
		a.mu.Unlock()
		waited := link.Pause(ctx, wait)
		a.mu.Lock()
		if !waited {
			return keys.User{}, ctx.Err()
		}
	}
	a.known.Live[public] = time.Now().Unix()
	a.changes++
	delete(a.shut, public)
	return a.keys.Worker(pair, worker, s, maxBytes, time.Now().Add(a.life), more...)
}

// revoke revokes a worker's credentials, and waits until the server has the revocation. If ctx is done or a push fails,
// it returns an error, and run retries the push in the background. It stores a non-nil offence until reported is
// called.
func (a *workersAccount) revoke(ctx context.Context, worker string, offence *Offence) error {
	public, _, err := a.user(worker)
	if err != nil {
		return err
	}
	a.mu.Lock()
	if offence != nil {
		a.known.Offences[a.offence(worker)] = *offence
		a.changes++
	}
	if !a.shut[public] { // an earlier revocation may be older than the newest credential
		a.shut[public] = true
		a.known.Revoked[public] = max(a.known.Revoked[public], a.known.Live[public], time.Now().Unix())
		delete(a.known.Live, public)
		a.changes++
	}
	if a.pushed == a.changes {
		a.mu.Unlock()
		return nil
	}
	p := a.nextPush()
	a.mu.Unlock()
	kept := a.keep()
	a.again()
	select {
	case <-p.done:
		return p.err // the push also writes the revocation to disk
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err()), kept)
	}
}

// revoked reports whether the newest credential of a worker is revoked, as far as this process knows. The result also
// holds after a restart, because revocations are on disk.
func (a *workersAccount) revoked(worker string) bool {
	public, _, err := a.user(worker)
	if err != nil {
		return true // without the secret, no credential exists
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	issued := a.known.Live[public]
	return a.shut[public] || issued == 0 && a.known.Revoked[public] > 0 || issued > 0 &&
		max(a.known.Revoked[public], a.known.All) >= issued
}

// nextPush returns the push that begins next. The caller must hold mu.
func (a *workersAccount) nextPush() *push {
	if a.next == nil {
		a.next = &push{done: make(chan struct{})}
	}
	return a.next
}

func (a *workersAccount) offence(worker string) string { return a.fleet + "/" + worker }

// offences returns this fleet's violations that have not been reported yet. It pushes first, because a push also reads
// the violations found by other directors.
func (a *workersAccount) offences(ctx context.Context) ([]Offence, error) {
	a.mu.Lock()
	p := a.nextPush()
	a.mu.Unlock()
	a.again()
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Offence
	for key, o := range a.known.Offences {
		if key == a.offence(o.Worker) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(x, y Offence) int { return x.At.Compare(y.At) })
	return out, p.err
}

// offended reports whether a worker has a violation that has not been reported yet.
func (a *workersAccount) offended(worker string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known.Offences[a.offence(worker)].Worker != ""
}

// reported removes a worker's violation locally, and on the bus with the next push.
func (a *workersAccount) reported(worker string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told[a.offence(worker)] = true
	delete(a.known.Offences, a.offence(worker))
	a.changes++
	a.again()
}

// attemptKey returns the key with which a worker signs its reports, or nil if the fleet's secret is unknown.
func (a *workersAccount) attemptKey(worker string) []byte {
	return wire.AttemptKey(a.fleetSecret(), worker)
}
