package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFullDisk runs an agent that writes into its checkout without end. data_dir is a file system of 512 MB, and each
// checkout has a quota. The director must still accept reports, and another worker must start.
func TestFullDisk(t *testing.T) {
	if !*all {
		t.Skip("make attacks runs the attack that fills the disk of director.data_dir")
	}
	row := attack{
		name: "a full disk for director.data_dir", kind: onCheckout, before: "not seen: first tried with this suite",
		does: "writes without end into its checkout; data_dir is a file system of 512 MB, a checkout has a " +
			"quota of 64 MiB",
		run: func(b *battle) error {
			said, err := b.agent("fill", strconv.Itoa(4<<30))
			if err != nil {
				return err
			}
			b.note("%s", strings.TrimSpace(said))
			if !strings.Contains(said, "no space left") {
				return errors.New("4 GB were written")
			}
			var fs syscall.Statfs_t
			if err := syscall.Statfs(b.data(), &fs); err != nil {
				return err
			}
			b.note("%d of %d MB of data_dir free", int(fs.Bavail)*int(fs.Bsize)>>20, int(fs.Blocks)*int(fs.Bsize)>>20)
			if err := b.me.report(b.me.result()); err != nil {
				return err
			}
			b.me.end(0)
			if err := b.newcomer(); err != nil {
				return err
			}
			return until("it is decided", 60*time.Second, func() bool {
				return b.has(b.me.Task, "agent-review") || b.has(b.me.Task, "agent-blocked")
			})
		},
	}
	if !chosen(row) {
		t.Skip("not chosen")
	}
	dir := smallDisk(t, row)
	w := newWorld(t, worldOptions{dir: dir, sections: "[checkout]\nquota = \"64MiB\"\n"})
	judge(t, row, w.fight)
}

// smallDisk returns a directory with a file system of 512 MB as its data directory, or skips the test.
func smallDisk(t *testing.T, row attack) (dir string) {
	dir = t.TempDir()
	must(t, os.Chmod(dir, 0o711), os.Chmod(filepath.Dir(dir), 0o711))
	data := filepath.Join(dir, "data")
	err := os.Mkdir(data, 0o711)
	if err == nil && os.Getuid() != 0 {
		err = errors.New("only root mounts")
	}
	if err == nil {
		_, err = os.Stat("/dev/loop-control")
	}
	if err == nil {
		err = syscall.Mount("attack", data, "tmpfs", 0, "size=512m,mode=0711")
	}
	if err != nil {
		fmt.Printf("| %-9s | %-54s | skipped: no file system can be mounted: %v\n", row.kind, row.name, err)
		t.Skip("no file system can be mounted:", err)
	}
	t.Cleanup(func() { // after the director has ended
		mounts, _ := filepath.Glob(filepath.Join(data, "tasks", "*", "checkout"))
		for _, m := range mounts {
			_ = syscall.Unmount(m, syscall.MNT_DETACH) // it may not be mounted
		}
		if err := until("data_dir is unmounted", 20*time.Second,
			func() bool { return syscall.Unmount(data, 0) == nil }); err != nil {
			t.Error(err)
		}
	})
	return dir
}
