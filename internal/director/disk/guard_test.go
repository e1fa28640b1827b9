package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"retake/internal/sys/powercut"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// guard returns a guard of a healthy disk.
func guard(t *testing.T) *Guard {
	dir := t.TempDir()
	return &Guard{
		Dir: dir, Shared: dir, Log: zap.NewNop(), Watermark: func() float64 { return 0 },
		Renew: func() error { return nil }, Probe: func(string) error { return nil },
	}
}

// TestALookThatDidNotWriteProvesNothing checks that an earlier, hung check without a write does not count as a
// successful write.
func TestALookThatDidNotWriteProvesNothing(t *testing.T) {
	d := guard(t)
	d.Probe = func(string) error { return syscall.EIO }
	earlier := make(chan State, 1)
	earlier <- d.look(false)
	d.looking, d.lookedAt = earlier, time.Now()
	if l := d.Ask(t.Context(), true, time.Minute); !errors.Is(l.Failed, syscall.EIO) {
		t.Errorf("it found %+v", l)
	}
}

// TestTheDiskOfCheckoutsIsWatched checks that the guard reports a full disk of director.shared_dir, if that is not the
// disk of the data directory.
func TestTheDiskOfCheckoutsIsWatched(t *testing.T) {
	disk := powercut.New(t)
	d := guard(t)
	d.Shared, d.SharedKey, d.Watermark = disk.Dir, "director.shared_dir", func() float64 { return 99.9 }
	if note := d.look(true).Note; note != "" {
		t.Fatalf("the disk has room, but the guard says %q", note)
	}
	f, err := os.Create(filepath.Join(disk.Dir, "large"))
	must(t, err)
	use, err := UseOf(disk.Dir)
	must(t, err)
	must(t, unix.Fallocate(int(f.Fd()), 0, 0, use[Bytes].Free-4096))
	must(t, f.Close())
	if note := d.look(true).Note; !strings.Contains(note, "the disk holding director.shared_dir") ||
		!strings.Contains(note, "no new work starts") {
		t.Errorf("the disk is full, but the guard says %q", note)
	}
	d.Shared = filepath.Join(disk.Dir, "gone")
	if note := d.look(true).Note; !strings.Contains(note, "director.shared_dir is missing") {
		t.Errorf("the disk is gone, but the guard says %q", note)
	}
}
