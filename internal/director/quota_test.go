package director

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"retake/internal/bus/wire"
	"retake/internal/director/disk"
	"retake/internal/director/effects"
	"retake/internal/director/failure"
	"retake/internal/fsm"
	"retake/internal/github/githubtest"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// needsLoop skips the test on a machine that cannot mount a file as a file system.
func needsLoop(t *testing.T) {
	t.Helper()
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	out, err := exec.Command("sh", "-c",
		`truncate -s 16M "$1" && mkfs.ext4 -q "$1" && mount -o loop "$1" "$2" && umount "$2"`, "sh", image,
		dir).CombinedOutput()
	if err != nil {
		t.Skipf("no file can be mounted here: %v: %s", err, out)
	}
}

// fillQuota writes to a file until the checkout's quota is used up.
func (a *fakeWorker) fillQuota() error {
	f, err := os.Create(filepath.Join(a.checkout, "full"))
	if err != nil {
		return err
	}
	for chunk := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(chunk)
	}
	for chunk := make([]byte, 1); errors.Is(err, syscall.ENOSPC); { // the rest of the last block
		if _, err = f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			return f.Close()
		}
	}
	return err
}

// TestFullQuotaIsTheTasksOwn checks that a task that fills its quota is blocked for that. It does not count as one of
// many victims of a full disk. A task that runs at the same time is delivered.
func TestFullQuotaIsTheTasksOwn(t *testing.T) {
	needsLoop(t)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Title != "Hog" {
			return a.work(ctx)
		}
		if err := a.fillQuota(); err != nil {
			return 1
		}
		return a.fails(ctx, wire.WorkerError{
			ErrorType: "unknown", Message: "write /work/full: no space left on device",
			IsTransient: true, ShouldRetry: true,
		})
	})
	s.config.Checkout.Quota = "32MiB"
	t.Cleanup(s.unmountAll)
	hog := s.github.CreateIssue(repo, "octocat", "Hog", "", "agent-task")
	honest := s.github.CreateIssue(repo, "octocat", "Honest", "", "agent-task")
	s.start()
	s.until("a verdict", func() bool { return len(s.verdicts(hog)) > 0 })
	if v := s.verdicts(hog); !slices.Equal(v, []string{"scope_violation"}) {
		t.Fatalf("verdicts %q", v)
	}
	s.until("the honest one is delivered", s.labelled(honest, "agent-review"))
	s.until("it says why", func() bool {
		return slices.ContainsFunc(s.github.Issue(hog).Comments, func(c githubtest.Comment) bool {
			return strings.Contains(c.Body, "checkout.quota") && strings.Contains(c.Body, "/agent fresh")
		})
	})
}

// TestFullQuotaMetByTheDirector checks that the task is also at fault when the director cannot write into such a
// checkout. If the quota has room, the host is at fault.
func TestFullQuotaMetByTheDirector(t *testing.T) {
	needsLoop(t)
	const nonce = "k3v9qx2m"
	dir := t.TempDir()
	w, err := workspace.Open(workspace.Options{Dir: dir})
	must(t, err)
	checkout := filepath.Join(dir, "tasks", nonce, "checkout")
	must(t, os.MkdirAll(checkout, 0o700))
	must(t, exec.Command("sh", "-c", `truncate -s 16M "$1.img" && mkfs.ext4 -q "$1.img" && mount -o loop "$1.img" "$1"`,
		"sh", checkout).Run())
	t.Cleanup(func() { must(t, unix.Unmount(checkout, 0)) })
	free := int64(0)
	d := &effects.Disk{Workspace: w, Log: zap.NewNop(), Use: func(string) (u disk.Use, err error) {
		u[0].Used, u[0].Free = 16<<20, free
		return u, nil
	}}
	run := d.WithinQuota(func(context.Context, fsm.Effect) fsm.EffectEnded {
		return failure.Ended(&workspace.Error{
			Kind: workspace.Permanent, Op: "apply", Detail: "no space left on device",
			Err: workspace.ErrDiskFull,
		})
	})
	for _, c := range []struct {
		free         int64
		nonce        string
		want         recovery.Reason
		wantResource string
	}{
		{0, nonce, recovery.ScopeViolation, ""},
		{8 << 20, nonce, recovery.DiskFull, recovery.Host},
		{0, "another1", recovery.DiskFull, recovery.Host},
	} {
		free = c.free
		if f := run(t.Context(), fsm.Effect{Nonce: c.nonce}).Failure; f.Reason != c.want ||
			f.Resource != c.wantResource {
			t.Errorf("%d bytes free, %s: %+v", c.free, c.nonce, f)
		}
	}
}

// unmountAll unmounts the checkouts' file systems, so that the test's directory can be removed.
func (s *harness) unmountAll() {
	s.stop()
	dirs, _ := filepath.Glob(filepath.Join(s.config.Director.DataDir, "tasks", "*", "checkout"))
	for _, dir := range dirs {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	}
}
