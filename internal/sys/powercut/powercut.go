// Package powercut simulates power cuts for tests. Each disk is a file system in a file, and loses all unsynced data at
// a cut.
//
// A cut uses ext4's shutdown without flushing the log, so it loses unsynced data and the names of new files without
// fsync(2). Data already handed to the disk survives, so the cut simulates a disk without a cache, or with a cache that
// obeys flushes. The next mount replays the log, as after a real cut.
package powercut

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disk is a mounted file system.
type Disk struct {
	Dir   string // mount point, the same before and after a cut
	t     testing.TB
	image string
}

const imageBytes = 512 << 20

// New mounts a new disk. It skips the test unless root privileges, mkfs.ext4 and a loop device are available.
func New(t testing.TB) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a power cut requires root to mount a file system")
	}
	d := &Disk{Dir: filepath.Join(t.TempDir(), "disk"), t: t, image: filepath.Join(t.TempDir(), "image")}
	file, err := os.Create(d.image)
	if err == nil {
		err = file.Truncate(imageBytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if err := os.Mkdir(d.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0",
		d.image).CombinedOutput(); err != nil {
		t.Skipf("a power cut needs mkfs.ext4: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.Dir).CombinedOutput(); err != nil {
		t.Skipf("a power cut requires a loop device and mount: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = unix.Unmount(d.Dir, unix.MNT_DETACH) })
	return d
}

// From linux/fs.h and fs/ext4/ext4.h.
const (
	ioctlShutdown = 0x8004587d // FS_IOC_SHUTDOWN
	noLogFlush    = 2
)

// Cut cuts the power. Every operation on the disk fails, and open files keep failing after Restore.
func (d *Disk) Cut() {
	d.t.Helper()
	dir, err := os.Open(d.Dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	how := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), ioctlShutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		d.t.Skipf("a power cut requires the ext4 shutdown ioctl: %v", errno)
	}
}

// Restore mounts a copy of the disk after the cut. The disk itself would keep its errors while it is mounted elsewhere,
// for example in a running container.
func (d *Disk) Restore() {
	d.t.Helper()
	if err := unix.Unmount(d.Dir, unix.MNT_DETACH); err != nil {
		d.t.Fatal(err)
	}
	after := d.image + "+"
	if out, err := exec.Command("cp", "--sparse=always", d.image, after).CombinedOutput(); err != nil {
		d.t.Fatalf("copy the disk after the cut: %v: %s", err, out)
	}
	d.image = after
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.Dir).CombinedOutput(); err != nil {
		d.t.Fatalf("mount after the cut: %v: %s", err, out)
	}
}
