package director

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/config"
)

// TestDataLockIsWaitedFor: a lock that is released soon is taken, as copies of it live on for a moment; one that stays is
// another director's.
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
		if err == nil || !strings.Contains(err.Error(), "another director runs on "+dir) || time.Since(began) < lockPatience {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
