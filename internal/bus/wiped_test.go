package bus

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

// TestAWipedServerIsEstablishedAnew checks that the bus works after it is reopened on a wiped server. Workers reconnect
// with their credentials, revocations stay in force, and the directors still have the secret from which the keys of
// running workers derive.
func TestAWipedServerIsEstablishedAnew(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	o := out.join()
	o.Mirror = filepath.Join(t.TempDir(), "head")
	b := openBus(t, o)
	running := dial(t, b, worker)
	evil := clientOptions(t, b, "evil-1")
	if err := b.Revoke(ctxFor(t), "evil-1"); err != nil {
		t.Fatal(err)
	}
	out.Stop()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if b.Ensure(short) == nil {
		t.Error("Ensure succeeded without a server")
	}
	out.Wipe()
	until(t, "the bus to be opened again", func() bool { return b.Ensure(ctxFor(t)) == nil })
	until(t, "the running worker to be back", running.Connected)
	until(t, "its report", func() bool { return running.Report(ctxFor(t), failure("e1")) == nil })
	dial(t, b, "k3v9qx2m-2")
	if c, err := Dial(evil); err == nil {
		c.Close()
		t.Error("a revoked user is let in again")
	}
	other := openBus(t, out.join())
	if string(other.AttemptKey(worker)) != string(b.AttemptKey(worker)) {
		t.Error("another director of the fleet has a different secret")
	}
}

// TestTheSharedBucketIsMadeAgain deletes only the shared bucket. Revocations need it, and an open bus must recreate
// it.
func TestTheSharedBucketIsMadeAgain(t *testing.T) {
	b := openBus(t, Options{})
	before := b.AttemptKey(worker)
	if err := b.ownJS.DeleteKeyValue(ctxFor(t), sharedKeys); err != nil {
		t.Fatal(err)
	}
	until(t, "a revocation", func() bool { return b.Revoke(ctxFor(t), worker) == nil })
	e, err := b.workers.shared.Get(ctxFor(t), keySecret+defaultFleet)
	if err != nil || string(e.Value()) != string(b.workers.secret) || string(before) != string(b.AttemptKey(worker)) {
		t.Errorf("the secret has changed: %v", err)
	}
}

// TestNobodyServesTheSnapshotWhenNobodyDoes checks that a service that ended during an outage does not come back
// with the server, so that requests fail at once or reach only its successor.
func TestNobodyServesTheSnapshotWhenNobodyDoes(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	b := openBus(t, out.join())
	someone := person(t, out.Keys)
	trust, err := link.Trust(out.URL, someone.CA)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(out.URL, append(trust, nats.UserJWTAndSeed(someone.JWT, someone.Seed),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ask := func() error {
		_, err := nc.Request(b.subjects.Snapshot(), nil, 2*time.Second)
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.ServeSnapshot(ctx, func() wire.Snapshot {
			return wire.Snapshot{Director: wire.SnapshotDirector{RunID: "run_1", Phase: "MONITOR"}}
		})
	}()
	until(t, "an answer", func() bool { return ask() == nil })
	out.Stop()
	out.missed(b)
	until(t, "the person to lose the server", func() bool { return !nc.IsConnected() })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	out.Start()
	until(t, "the server to be back", func() bool { return b.Connected() && nc.IsConnected() })
	if err := ask(); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("asked for the snapshot: %v", err)
	}
}
