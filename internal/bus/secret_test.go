package bus

import (
	"bytes"
	"errors"
	"testing"

	"retake/internal/bus/wire"
)

// The first director to reach a wiped server may know nothing and not lead. Running workers still sign with the
// fleet's secret, which the leader knows.
func TestANewcomersSecretIsNotTheFleets(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	leader := out.join()
	b := openBus(t, leader)
	key := b.AttemptKey(worker)
	closeBus(t, b)
	out.Wipe()

	o := out.join()
	leads := false
	o.Leads = func() bool { return leads }
	newcomer := openBus(t, o)
	if key := newcomer.AttemptKey(worker); key != nil {
		t.Error("a standby has a key before it has the fleet's secret")
	}
	if err := newcomer.ShareSecret(ctxFor(t)); !errors.Is(err, errNoSecret) {
		t.Errorf("before a leader shared one: %v", err)
	}
	b = openBus(t, leader)
	if !bytes.Equal(b.AttemptKey(worker), key) {
		t.Error("the newcomer's secret replaced the fleet's secret")
	}
	newcomer.workers.refresh(ctxFor(t)) // as it does every 30 seconds
	if !bytes.Equal(newcomer.AttemptKey(worker), key) {
		t.Error("the newcomer does not learn of the secret while it stands by")
	}
	closeBus(t, b)
	out.Wipe()
	leads = true // its lease has started
	until(t, "the server to be back", func() bool { return newcomer.Ensure(ctxFor(t)) == nil })
	mustDo(t, newcomer.ShareSecret(ctxFor(t)))
	if b = openBus(t, leader); !bytes.Equal(b.AttemptKey(worker), key) ||
		!bytes.Equal(newcomer.AttemptKey(worker), key) {
		t.Error("the leader's copy is not the fleet's secret")
	}
}

// A leader creates a missing secret at the start of its lease.
func TestWhoLeadsMakesTheSecret(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	leads := false
	o := out.join()
	o.Leads = func() bool { return leads }
	b := openBus(t, o)
	leads = true
	mustDo(t, b.ShareSecret(ctxFor(t)))
	if other := openBus(t, out.join()); b.AttemptKey(worker) == nil ||
		!bytes.Equal(other.AttemptKey(worker), b.AttemptKey(worker)) {
		t.Error("the leader has created no secret, or the directors have different ones")
	}
}

// Anyone could derive the keys of an empty secret. Signatures and credentials must not use such a key, and reports
// signed with it must not be counted or stored.
func TestNothingFollowsFromNoSecret(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	o := out.join()
	o.Leads = func() bool { return false }
	b := openBus(t, o)
	if key := b.AttemptKey(worker); key != nil {
		t.Errorf("a key of %d bytes", len(key))
	}
	if _, err := b.Seed(worker); !errors.Is(err, errNoSecret) {
		t.Errorf("seed: %v", err)
	}
	if _, err := b.Authorize(ctxFor(t), worker); !errors.Is(err, errNoSecret) {
		t.Errorf("authorize: %v", err)
	}
	if err := b.Revoke(ctxFor(t), worker); !errors.Is(err, errNoSecret) {
		t.Errorf("revoke: %v", err)
	}
	if err := b.Reports().Put(ctxFor(t), worker, wire.WorkerError{
		ErrorID: ExitID(worker), WorkerID: worker, IssueNumber: 21,
		Stage: wire.StageCode, Attempt: 1, ErrorType: "unknown",
	}); !errors.Is(err, errNoSecret) {
		t.Errorf("report: %v", err)
	}
}
