package container

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
)

// TestOnlyAFullDiskIsTheDisks: the engine's errors about a container's files do not count as errors of the
// machine's disk.
func TestOnlyAFullDiskIsTheDisks(t *testing.T) {
	said := func(text string) error {
		return fmt.Errorf("Error response from daemon: %s: %w", text, cerrdefs.ErrInternal)
	}
	for err, disk := range map[error]bool{
		said("mkdir /var/lib/docker/overlay2/x: no space left on device"):      true,
		said("write /var/lib/docker/x: disk quota exceeded"):                   true,
		said("OCI runtime create failed: mkdir /work: read-only file system"):  false,
		said("read /mnt/data/image.tar: input/output error"):                   false,
		errors.New("invalid name: no space left on device is no internal one"): false,
	} {
		e := failure("start x", err)
		if errors.Is(e, ErrDisk) != disk || !errors.Is(e, ErrDaemon) || !e.Transient {
			t.Errorf("%v; disk error: %t, want %t", e, !disk, disk)
		}
	}
	for code, disk := range map[syscall.Errno]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EROFS: false,
		syscall.EIO: false, syscall.ESTALE: false,
	} {
		e := hostFailure("open", &os.PathError{Op: "write", Path: "/data/x", Err: code})
		if errors.Is(e, ErrDisk) != disk || errors.Is(e, ErrHost) == disk || !e.Transient {
			t.Errorf("%v; disk error: %t, want %t", e, !disk, disk)
		}
	}
}
