package workspace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/sys/ring"
)

// A quota gives each checkout a separate file system in the file tasks/<nonce>/checkout.img, mounted at
// tasks/<nonce>/checkout. The file's apparent size is the quota, but it occupies only as much disk space as the data
// written to it.

// mountTime is the maximum time for creating or mounting a file system, which does not depend on its size.
const mountTime = time.Minute

// Quota returns the mount point of a checkout's own file system, or "".
func (w *Workspaces) Quota(nonce string) string {
	t, err := w.tasks.find("quota", nonce)
	if err != nil {
		return ""
	}
	if _, err := os.Lstat(t.image()); err != nil {
		return ""
	}
	if mounted, err := isMount(t.checkout()); err != nil || !mounted {
		return ""
	}
	return t.checkout()
}

// CheckQuota returns an *Error if this machine cannot enforce checkout quotas. It always succeeds if quota is zero.
func CheckQuota(quota int64) error {
	if quota == 0 {
		return nil
	}
	const next = "run the director as root on the host itself, with mount and mkfs.ext4 on the PATH, or set " +
		"checkout.quota to \"\""
	if os.Geteuid() != 0 {
		return refuse("open", next, "checkout quotas require root, but the director runs as another user")
	}
	for _, name := range []string{"mkfs.ext4", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			return refuse("open", next, "checkout quotas are unavailable: %v", err)
		}
	}
	return nil
}

func (t *task) mount(ctx context.Context) error {
	return mountTool(ctx, "mount", "-t", "ext4", "-o", "loop,nosuid,nodev,noatime", t.image(), t.checkout())
}

// mountTool runs an operating system program, such as mount or mkfs.ext4.
func mountTool(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, mountTime)
	defer cancel()
	said := ring.New(tailBytes)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = "/", []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"},
		said, said, pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		return &Error{Kind: Permanent, Op: name, Detail: strings.TrimSpace(err.Error() + ": " +
			essence(said.String())), Err: err, Next: "read the program's message, or set checkout.quota to \"\" " +
			"to work without quotas"}
	}
	return nil
}

// unmount unmounts a checkout's file system, unless the checkout is a plain directory. If files are still open, it only
// detaches the file system, and the kernel releases it when the last of them is closed.
func (t *task) unmount() error {
	mounted, err := isMount(t.checkout())
	if err != nil || !mounted {
		return err
	}
	err = unix.Unmount(t.checkout(), unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(t.checkout(), unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	return err
}

// isMount reports whether a directory is a mount point. A missing directory is not.
func isMount(dir string) (bool, error) {
	var in, around unix.Stat_t
	if err := unix.Lstat(dir, &in); errors.Is(err, unix.ENOENT) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if err := unix.Lstat(filepath.Dir(dir), &around); err != nil {
		return false, err
	}
	return in.Mode&unix.S_IFMT == unix.S_IFDIR && in.Dev != around.Dev, nil
}
