package director

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/config"
)

// TestDataLockIsWaitedFor: a lock that is released soon is taken, as copies of it live on for a moment; one
// that stays is another director's.
func TestDataLockIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		another := func() *daemon {
			d := &daemon{config: config.Config{}}
			d.config.Director.DataDir = dir
			t.Cleanup(func() { _ = d.lock.Close() })
			return d
		}
		first, second, third := another(), another(), another()
		if err := first.lockData(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(lockPatience/2, func() { _ = first.lock.Close() })
		began := time.Now()
		if err := second.lockData(t.Context()); err != nil || time.Since(began) < lockPatience/2 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		began = time.Now()
		err := third.lockData(t.Context())
		if err == nil || !strings.Contains(err.Error(), "another director runs on "+dir) ||
			time.Since(began) < lockPatience {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// TestDataLockIsRenewedBesideOthers: the look at the disk locks the folder anew that is back as another one,
// while the lease asks for the lock's name.
func TestDataLockIsRenewedBesideOthers(t *testing.T) {
	d := &daemon{}
	d.config.Director.DataDir = t.TempDir()
	must(t, d.lockData(t.Context()))
	name := filepath.Join(d.config.Director.DataDir, lockFile)
	var asker sync.WaitGroup
	ended := make(chan struct{})
	asker.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				if d.lock.name() == "" {
					t.Error("it has no name")
				}
			}
		}
	})
	for range 100 {
		must(t, os.WriteFile(name+".new", nil, 0o600))
		must(t, os.Rename(name+".new", name))
		must(t, d.lock.renew(d.config.Director.DataDir))
	}
	close(ended)
	asker.Wait()
	must(t, d.lock.Close())
	if err := d.lock.renew(d.config.Director.DataDir); err == nil {
		t.Error("a director that has ended locks its folder again")
	}
}

// TestLateAppendsAreCountedInARow: a director that leads for months is not ended by what a predecessor has left
// behind now and then.
func TestLateAppendsAreCountedInARow(t *testing.T) {
	var l lateAppends
	for n := range 2 * lateAppendsMost {
		if !l.another(time.Hour) {
			t.Errorf("the %dth in months is one too many", n+1)
		}
	}
	for range lateAppendsMost - 1 {
		if !l.another(time.Second) {
			t.Error("a few in a row are too many")
		}
	}
	if l.another(time.Second) {
		t.Error("somebody who goes on writing is not told from a predecessor")
	}
}
