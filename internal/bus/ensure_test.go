package bus

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
)

// TestEnsureReplacesTheJournalBesideReaders opens the bus again while others use the journal. The race detector
// finds an unsynchronised replacement.
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
