package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"retake/internal/safefile"
	"retake/internal/sys/ring"
)

// A quota is a file system of its own for each checkout, in a file beside it: tasks/<nonce>/checkout.img,
// mounted at tasks/<nonce>/checkout. The file is as large as the quota, and takes of the disk what was written
// into it.

// mountTime bounds making or mounting a file system: neither depends on its size.
const mountTime = time.Minute

func (t task) image() string { return filepath.Join(t.dir, "checkout.img") }

// Quota is where the file system of a task's checkout is mounted; empty: it has none of its own.
func (w *Workspaces) Quota(nonce string) string {
	if checkNonce("quota", nonce) != nil {
		return ""
	}
	t := w.task("quota", nonce, nil)
	if _, err := os.Lstat(t.image()); err != nil {
		return ""
	}
	if mounted, err := isMount(t.checkout()); err != nil || !mounted {
		return ""
	}
	return t.checkout()
}

// CheckQuota says what this machine lacks for giving each checkout so many bytes of the disk; 0: nothing is
// wanted. Its error is an *Error.
func CheckQuota(quota int64) error {
	if quota == 0 {
		return nil
	}
	const next = "run the director as root on the host itself, with mount and mkfs.ext4 on the PATH, or set " +
		"checkout.quota to \"\""
	if os.Geteuid() != 0 {
		return refuse("open", next, "checkouts cannot be given a quota: the director does not run as root")
	}
	for _, name := range []string{"mkfs.ext4", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			return refuse("open", next, "checkouts cannot be given a quota: %v", err)
		}
	}
	return nil
}

// makeCheckout makes the folder of a new checkout, with its quota if there is one.
func (w *Workspaces) makeCheckout(ctx context.Context, t task) error {
	if err := os.Mkdir(t.checkout(), 0o755); err != nil || w.quota == 0 {
		return err
	}
	f, err := os.OpenFile(t.image(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(w.quota), f.Close()); err != nil {
		return err
	}
	if err := w.mountTool(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "root_owner=0:0,lazy_itable_init=1",
		t.image()); err != nil {
		return err
	}
	if err := w.mount(ctx, t); err != nil {
		return err
	}
	return os.Remove(filepath.Join(t.checkout(), "lost+found"))
}

// ensureMounted mounts the file system of a checkout that has one, after a restart of the machine.
func (w *Workspaces) ensureMounted(ctx context.Context, t task) error {
	if _, err := os.Lstat(t.image()); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return system(t.op, err)
	}
	mounted, err := isMount(t.checkout())
	if err != nil || mounted {
		return system(t.op, err)
	}
	w.log.Info("mounting a checkout again", zap.String("task", t.nonce))
	return system(t.op, w.mount(ctx, t))
}

func (w *Workspaces) mount(ctx context.Context, t task) error {
	return w.mountTool(ctx, "mount", "-t", "ext4", "-o", "loop,nosuid,nodev,noatime", t.image(), t.checkout())
}

// mountTool runs a program of the system's.
func (w *Workspaces) mountTool(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, mountTime)
	defer cancel()
	said := ring.New(tailBytes)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = "/", []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"},
		said, said, pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		return &Error{Kind: Permanent, Op: name, Detail: strings.TrimSpace(err.Error() + ": " +
			lastLines(said.String())), Next: "see what it says; checkout.quota = \"\" does without", Err: err}
	}
	return nil
}

// unmount takes the file system of a checkout away, if it has one; what is in it goes with its file. Whoever
// still has a file open there keeps it until then.
func (t task) unmount() error {
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

// isMount reports whether a folder is where another file system begins. One that is not there is none.
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

// removeCheckout takes the work tree away, whatever is in it.
func (t task) removeCheckout() error {
	return errors.Join(t.unmount(), safefile.RemoveAll(t.checkout()), safefile.RemoveAll(t.image()))
}
