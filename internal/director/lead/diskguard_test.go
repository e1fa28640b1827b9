package lead

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/disk"
	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/fsm"
)

// badDisk plays the disk for a probe.
type badDisk struct {
	probe atomic.Pointer[func() error]
}

func (b *badDisk) fails(with error) { b.does(func() error { return with }) }
func (b *badDisk) does(f func() error) {
	b.probe.Store(&f)
}

// hangs blocks probes until goOn is called.
func (b *badDisk) hangs() (goOn func()) {
	wait := make(chan struct{})
	b.does(func() error { <-wait; return nil })
	return func() { close(wait) }
}

func onBadDisk(t *testing.T) (*disk.Guard, *badDisk) {
	t.Helper()
	bad := &badDisk{}
	dir := t.TempDir()
	return &disk.Guard{
		Dir: dir, Shared: dir, Log: zap.NewNop(), Watermark: func() float64 { return 0 },
		Renew: func() error { return nil }, Probe: func(string) error { return (*bad.probe.Load())() },
	}, bad
}

// A disk that failed and then hangs is still broken, until a test write succeeds.
func TestADiskThatHangsIsNotHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, bad := onBadDisk(t)
		broken := make(chan error, 1)
		s := &DiskGuard{
			Disk: d, Owner: loop.New(fsm.NewDriver(fsm.New(looptest.Config()), 0, "test"), nil, d.Log), Log: d.Log,
			Reload: func(err error) { broken <- err },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		bad.fails(syscall.EIO)
		go func() { done <- s.Run(ctx) }()
		after := func(wait time.Duration, healed bool, says string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if n := len(broken); (n > 0) != healed {
				t.Errorf("healed: %t, want %t", n > 0, healed)
			}
			if what := d.Now().Problem(); !strings.Contains(what, says) || (what == "") != (says == "") {
				t.Errorf("the guard says %q; want %q", what, says)
			}
		}
		after(2*time.Second, false, "cannot be written")
		goOn := bad.hangs()
		after(time.Minute, false, "has not responded")
		bad.fails(syscall.EROFS)
		goOn()
		after(0, true, "") // the hung check has completed its test write
		<-broken
		after(2*disk.ProbeEvery, false, "read-only")
		goOn = bad.hangs()
		after(time.Minute, false, "has not responded")
		bad.fails(nil)
		goOn()
		after(2*time.Second, true, "")
		cancel()
		<-done
	})
}

// A slow disk never ends a session.
func TestADiskThatIsSlowIsNotOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, bad := onBadDisk(t)
		broken := make(chan error, 1)
		s := &DiskGuard{
			Disk: d, Owner: loop.New(fsm.NewDriver(fsm.New(looptest.Config()), 0, "test"), nil, d.Log), Log: d.Log,
			Reload: func(err error) { broken <- err },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		goOn := bad.hangs()
		go func() { done <- s.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if what := d.Now().Problem(); !strings.Contains(what, "has not responded") {
			t.Errorf("it says %q", what)
		}
		bad.fails(nil)
		goOn()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if what := d.Now().Problem(); what != "" || len(broken) > 0 {
			t.Errorf("the guard says %q; sessions that ended: %d", what, len(broken))
		}
		cancel()
		<-done
	})
}
