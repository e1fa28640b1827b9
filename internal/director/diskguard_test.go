package director

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"retake/internal/config"
	"retake/internal/director/loop"
	"retake/internal/sys/powercut"
)

// badDisk is what the probe of a disk meets.
type badDisk struct {
	probe atomic.Pointer[func() error]
}

func (b *badDisk) fails(with error) { b.does(func() error { return with }) }
func (b *badDisk) does(f func() error) {
	b.probe.Store(&f)
}

// hangs until it is told to go on.
func (b *badDisk) hangs() (goOn func()) {
	wait := make(chan struct{})
	b.does(func() error { <-wait; return nil })
	return func() { close(wait) }
}

func onBadDisk(t *testing.T) (*daemon, *badDisk) {
	t.Helper()
	disk := &badDisk{}
	d := &daemon{
		config: config.Default(), log: zap.NewNop(), noReserve: true,
		probeDisk: func(string) error { return (*disk.probe.Load())() },
	}
	d.config.Director.DataDir, d.config.Director.DiskWatermark = t.TempDir(), 0
	must(t, d.lockData(t.Context()))
	t.Cleanup(func() { _ = d.lock.Close() })
	return d, disk
}

// TestADiskThatHangsIsNotHealed: a disk that failed, and then does not even answer, is no better than before.
// It is when it has been written.
func TestADiskThatHangsIsNotHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, disk := onBadDisk(t)
		broken := make(chan error, 1)
		s := &session{daemon: d, owner: loop.New(nil, nil, d.log), readAgain: func(err error) { broken <- err }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		disk.fails(syscall.EIO)
		go func() { done <- s.guardDisk(ctx) }()
		after := func(wait time.Duration, healed bool, says string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if n := len(broken); (n > 0) != healed {
				t.Errorf("healed: %t, want %t", n > 0, healed)
			}
			if what := s.diskNow().problem(); !strings.Contains(what, says) || (what == "") != (says == "") {
				t.Errorf("it says %q; want %q", what, says)
			}
		}
		after(2*time.Second, false, "cannot be written")
		goOn := disk.hangs()
		after(time.Minute, false, "has not answered")
		disk.fails(syscall.EROFS)
		goOn()
		after(0, true, "") // that look has written
		<-broken
		after(2*probeEvery, false, "read-only")
		goOn = disk.hangs()
		after(time.Minute, false, "has not answered")
		disk.fails(nil)
		goOn()
		after(2*time.Second, true, "")
		cancel()
		<-done
	})
}

// TestADiskThatIsSlowIsNotOpenedAnew: what did not fail needs no new session.
func TestADiskThatIsSlowIsNotOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, disk := onBadDisk(t)
		broken := make(chan error, 1)
		s := &session{daemon: d, owner: loop.New(nil, nil, d.log), readAgain: func(err error) { broken <- err }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		goOn := disk.hangs()
		go func() { done <- s.guardDisk(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if what := s.diskNow().problem(); !strings.Contains(what, "has not answered") {
			t.Errorf("it says %q", what)
		}
		disk.fails(nil)
		goOn()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if what := s.diskNow().problem(); what != "" || len(broken) > 0 {
			t.Errorf("it says %q; sessions that ended: %d", what, len(broken))
		}
		cancel()
		<-done
	})
}

// TestTheBusIsNotOpenedOnADiskThatHangs: it would hang, too.
func TestTheBusIsNotOpenedOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, disk := onBadDisk(t)
		core, logs := observer.New(zap.WarnLevel)
		d.log = zap.New(core)
		goOn := disk.hangs()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		must(t, os.WriteFile(filepath.Join(d.config.Director.DataDir, "bus"), nil, 0o600)) // opening it fails at once
		go func() { done <- d.reopenBus(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, e := range logs.FilterMessage("the bus cannot be opened").All() {
			if text := e.ContextMap()["error"].(string); !strings.Contains(text, "has not answered") &&
				!strings.Contains(text, "context canceled") {
				t.Errorf("it was opened: %s", text)
			}
		}
		goOn()
	})
}

// TestALookThatDidNotWriteProvesNothing: one that was begun earlier, and hung, is no answer to whether the disk
// can be written.
func TestALookThatDidNotWriteProvesNothing(t *testing.T) {
	d, disk := onBadDisk(t)
	disk.fails(syscall.EIO)
	earlier := make(chan diskState, 1)
	earlier <- d.lookAtDisk(false)
	d.looking, d.lookedAt = earlier, time.Now()
	if l := d.askDisk(t.Context(), true, time.Minute); !errors.Is(l.failed, syscall.EIO) {
		t.Errorf("it found %+v", l)
	}
}

// TestTheDiskOfCheckoutsIsWatched: with director.shared_dir they are on a disk of their own, and what is begun
// fills that one.
func TestTheDiskOfCheckoutsIsWatched(t *testing.T) {
	disk := powercut.New(t)
	d, bad := onBadDisk(t)
	bad.fails(nil)
	d.config.Director.SharedDir, d.config.Director.DiskWatermark = disk.Dir, 99.9
	if note := d.lookAtDisk(true).note; note != "" {
		t.Fatalf("there is room, and it says %q", note)
	}
	f, err := os.Create(filepath.Join(disk.Dir, "large"))
	must(t, err)
	use, err := useOf(disk.Dir)
	must(t, err)
	must(t, unix.Fallocate(int(f.Fd()), 0, 0, use[0].free-4096))
	must(t, f.Close())
	if note := d.lookAtDisk(true).note; !strings.Contains(note, "the disk of director.shared_dir") ||
		!strings.Contains(note, "nothing new is begun") {
		t.Errorf("it is full, and it says %q", note)
	}
	d.config.Director.SharedDir = filepath.Join(disk.Dir, "gone")
	if note := d.lookAtDisk(true).note; !strings.Contains(note, "director.shared_dir is not there") {
		t.Errorf("it is gone, and it says %q", note)
	}
}
