package bus

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestEnsureReplacesTheJournalBesideReaders opens the bus again while others use the journal. The race detector would
// find an unsynchronised replacement.
func TestEnsureReplacesTheJournalBesideReaders(t *testing.T) {
	t.Parallel()
	b := openBus(t, Options{Mirror: filepath.Join(t.TempDir(), "journal.head")})
	first := b.Journal()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 50 {
				if _, err := b.Journal().BatchID(t.Context(), 1); err == nil {
					t.Error("an empty journal has a batch")
				}
			}
		})
	}
	err := errors.Join(b.Ensure(ctxFor(t)), b.Ensure(ctxFor(t)))
	readers.Wait()
	if err != nil || b.Journal() == first {
		t.Errorf("the journal was not replaced: %v", err)
	}
}

// TestStartWaitsForAServerThatComesBack loses the server between the sign-in and the first request. The start
// succeeds after the server is back, where it used to fail with an error about keys.
func TestStartWaitsForAServerThatComesBack(t *testing.T) {
	t.Parallel()
	o := startOutside(t)
	b := newBus(o.join())
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	mustDo(t, b.connect())
	var err error
	b.workers, err = newWorkersAccount(b.options, b.sys, b.ownJS)
	mustDo(t, err)
	o.Stop()
	mustFail, stop := context.WithCancel(t.Context())
	stop()
	if err := ensureAtStart(mustFail, b); err == nil {
		t.Error("a start that was cancelled succeeds without a server")
	}
	started := make(chan error, 1)
	go func() { started <- ensureAtStart(t.Context(), b) }()
	select {
	case err := <-started:
		t.Fatalf("the start does not wait: %v", err)
	case <-time.After(updateTimeout + startRetryWait):
	}
	o.Start()
	if err := <-started; err != nil {
		t.Errorf("the start fails after the server is back: %v", err)
	}
}
