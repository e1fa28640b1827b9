package bus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"retake/internal/bus/keys"
)

func TestRevokedWorkerIsCutOff(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		o := p.tcp(t, worker)
		revoked, err := Dial(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(revoked.Close)
		spared := p.dialTCP(t, "other-1")
		began := time.Now()
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		until(t, "the revoked worker is gone", func() bool { return !revoked.Connected() })
		t.Logf("revoked and cut off after %s", time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := revoked.Report(ctx, failure("late")); err == nil {
			t.Error("a revoked worker reported")
		}
		if !spared.Connected() {
			t.Error("the other worker was also disconnected")
		}
		stays := func(when string) {
			t.Helper()
			if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got == "PONG" {
				t.Errorf("%s: a revoked worker is let in", when)
			}
			if got := p.dialRaw(t).signIn(spared.options.JWT, spared.options.Seed); got != "PONG" {
				t.Errorf("%s: %q to a worker that is not revoked", when, got)
			}
		}
		stays("at once")
		for _, again := range []string{worker, "never-seen"} { // revoking again has no effect
			if err := p.Revoke(ctxFor(t), again); err != nil {
				t.Error(err)
			}
		}
		p.restart()
		until(t, "the bus to be back", p.Connected)
		stays("after a restart of the server")
		p.Admit(worker)
		stays("after it was adopted by mistake")
		if p.Bus.options.Server == nil {
			closeBus(t, p.Bus)
			p.Bus = openBus(t, p.options)
			stays("after a restart of the director")
			p.options.Dir = t.TempDir()
			closeBus(t, p.Bus)
			p.Bus = openBus(t, p.options)
			stays("after a restart of a director that has forgotten")
		}
	})
}

// A revocation is on disk before the first request to the server. So if the director ends during an outage,
// its successor still knows the revocation.
func TestRevocationOutlivesADirectorWithoutServer(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	options := out.join()
	p := &place{Bus: openBus(t, options)}
	o := p.tcp(t, worker)
	out.Stop()
	for _, w := range []string{"other-1", worker} { // the bus still retries the first
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := p.Revoke(ctx, w); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("without a server: %v", err)
		}
		cancel()
	}
	if known := writtenDown(t, options.Dir); len(known.Revoked) != 2 {
		t.Errorf("%v are written down", known.Revoked)
	}
	closeBus(t, p.Bus)
	out.Start()
	p.Bus = openBus(t, options)
	if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got == "PONG" {
		t.Error("a revoked worker is let in")
	}
}

// A revocation made during an outage of the server takes effect before the worker can reconnect.
func TestRevocationWaitsForTheServer(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	p := &place{Bus: openBus(t, out.join())}
	o := p.tcp(t, worker)
	out.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := p.Revoke(ctx, worker); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("without a server: %v", err)
	}
	out.Start()
	until(t, "the server to know", func() bool { return p.dialRaw(t).signIn(o.JWT, o.Seed) != "PONG" })
	if err := p.Revoke(ctxFor(t), worker); err != nil {
		t.Error(err)
	}
}

func TestManyRevocationsShareAPush(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		const many = 100
		n := 0
		for round := 1; n == 0 && round <= 3; round++ { // retry if the push cut off the watcher
			watching := p.watchServer(t)
			pushes, err := watching.SubscribeSync(updateSubject)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(pushes.SetPendingLimits(-1, -1), watching.Flush()); err != nil {
				t.Fatal(err)
			}
			results := make(chan error, many)
			for i := range many {
				go func() { results <- p.Revoke(ctxFor(t), fmt.Sprintf("mad-%d-%d", round, i)) }()
			}
			for range many {
				if err := <-results; err != nil {
					t.Error(err)
				}
			}
			if known := writtenDown(t, p.Bus.options.Dir); len(known.Revoked) != round*many {
				t.Errorf("%d revoked", len(known.Revoked))
			}
			if err := watching.Flush(); err != nil {
				t.Log(err)
				continue
			}
			if n, _, err = pushes.Pending(); err != nil {
				t.Fatal(err)
			}
		}
		if n == 0 || n > many/2 {
			t.Errorf("%d pushes for %d revocations", n, many)
		}
	})
}

// watchServer returns a connection that can see everything in the server's own account.
func (p *place) watchServer(t *testing.T) *nats.Conn {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.NewUserClaims(public).Encode(p.seed(t, "system.nk"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	url := p.WorkerURL("127.0.0.1")
	nc, err := nats.Connect(url,
		connectAs(t, keys.Person{URL: url, JWT: token, Seed: string(seed), CA: p.Bus.options.Keys.CA()})...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// seed reads one of the keys.
func (p *place) seed(t *testing.T, file string) nkeys.KeyPair {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.folder, keys.DirDirector, file))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(data))))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// writtenDown reads the credentials in a director's directory.
func writtenDown(t *testing.T, dir string) *credentials {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, fileWorkers))
	if err != nil {
		t.Fatal(err)
	}
	known, err := decodeCredentials(data)
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// The next director can revoke a worker although it did not issue the worker's credential.
func TestTheNextDirectorRevokes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		o := p.tcp(t, worker)
		if p.Bus.options.Server != nil {
			p.restart()
		} else {
			closeBus(t, p.Bus)
			p.Bus = openBus(t, p.options)
		}
		if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got != "PONG" {
			t.Fatalf("before: %q", got)
		}
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got == "PONG" {
			t.Error("it is let in")
		}
	})
}

// Credentials issued by a director after a revocation are revoked by its successor, which knows only of the
// revocation.
func TestTheNextDirectorRevokesWhatCameAfterARevocation(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		p.tcp(t, worker)
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		fresh := p.tcp(t, worker)
		if p.Bus.options.Server != nil {
			p.restart()
		} else {
			closeBus(t, p.Bus)
			p.Bus = openBus(t, p.options)
		}
		if got := p.dialRaw(t).signIn(fresh.JWT, fresh.Seed); got != "PONG" {
			t.Fatalf("before: %q", got)
		}
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		if got := p.dialRaw(t).signIn(fresh.JWT, fresh.Seed); got == "PONG" {
			t.Error("it is let in")
		}
	})
}

func TestAnOffenderGetsNoOtherCredential(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		p.dialTCP(t, worker)
		p.intake.offend(worker, "sent too much")
		if _, err := p.Authorize(ctxFor(t), worker); err == nil {
			t.Error("an offender is given a credential")
		}
		if _, err := p.Authorize(ctxFor(t), "other-1"); err != nil {
			t.Error(err)
		}
	})
}

// Revocations stay as long as credentials issued with an earlier, longer life are valid.
func TestAShorterLifeForgetsNoRevocation(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	options := out.join()
	options.WorkerLife = 48 * time.Hour
	p := &place{Bus: openBus(t, options)}
	o := p.tcp(t, worker)
	if err := p.Revoke(ctxFor(t), worker); err != nil {
		t.Fatal(err)
	}
	closeBus(t, p.Bus)
	time.Sleep(2500 * time.Millisecond) // the claims have times in whole seconds
	options.WorkerLife = time.Second
	p.Bus = openBus(t, options)
	if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got == "PONG" {
		t.Error("a revoked worker is let in")
	}
}

// If a worker id were used again at once, its new credential would not be revoked with the old one.
func TestCredentialAfterARevocationIsGood(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		old := p.tcp(t, worker)
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		fresh := p.tcp(t, worker)
		if got := p.dialRaw(t).signIn(fresh.JWT, fresh.Seed); got != "PONG" {
			t.Errorf("the new one: %q", got)
		}
		if got := p.dialRaw(t).signIn(old.JWT, old.Seed); got == "PONG" {
			t.Error("the old one is valid again")
		}
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		if got := p.dialRaw(t).signIn(fresh.JWT, fresh.Seed); got == "PONG" {
			t.Error("the new one cannot be revoked")
		}
	})
}
