package lead

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Take waits briefly for a lock, because a child process may hold the lock file open for a short time after the
// previous director has ended. A lock that remains belongs to another director.
func TestDataLockIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		another := func() *Lock {
			l := &Lock{}
			t.Cleanup(func() { _ = l.Close() })
			return l
		}
		first, second, third := another(), another(), another()
		if err := first.Take(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(lockPatience/2, func() { _ = first.Close() })
		began := time.Now()
		if err := second.Take(t.Context(), dir); err != nil || time.Since(began) < lockPatience/2 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		began = time.Now()
		err := third.Take(t.Context(), dir)
		if err == nil || !strings.Contains(err.Error(), "another director is running on "+dir) ||
			time.Since(began) < lockPatience {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// Renew locks a directory that came back on another disk, while the lease reads the lock's name concurrently.
func TestDataLockIsRenewedBesideOthers(t *testing.T) {
	dir, l := t.TempDir(), &Lock{}
	must(t, l.Take(t.Context(), dir))
	name := filepath.Join(dir, LockFile)
	var asker sync.WaitGroup
	ended := make(chan struct{})
	asker.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				if l.Name() == "" {
					t.Error("the lock has no name")
				}
			}
		}
	})
	for range 100 {
		must(t, os.WriteFile(name+".new", nil, 0o600))
		must(t, os.Rename(name+".new", name))
		must(t, l.Renew(dir))
	}
	close(ended)
	asker.Wait()
	must(t, l.Close())
	if err := l.Renew(dir); err == nil {
		t.Error("a director that has ended locks its directory again")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
