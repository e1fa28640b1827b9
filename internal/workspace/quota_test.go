package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const testQuota = 64 << 20

// openWithQuota skips the test with the reason if no loop device can be mounted.
func openWithQuota(t *testing.T, dir string) *Workspaces {
	t.Helper()
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices: " + err.Error())
	}
	w, err := Open(Options{Dir: dir, Quota: testQuota, Owner: &Owner{UID: 1000, GID: 1000}})
	if err != nil {
		t.Skip("no quotas here: " + err.Error())
	}
	t.Cleanup(func() {
		for _, nonce := range []string{nonceA, nonceB} {
			if err := w.Remove(t.Context(), nonce); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
			_ = w.tasks.at("", nonce).unmount()
		}
	})
	return w
}

// fill writes a file until the quota is exhausted.
func fill(t *testing.T, full string) (written int) {
	t.Helper()
	f, err := os.Create(full)
	if err != nil {
		t.Fatal(err)
	}
	for chunk := make([]byte, 1<<20); err == nil && written < 4*testQuota; {
		var n int
		n, err = f.Write(chunk)
		written += n
	}
	_ = f.Close()
	t.Logf("%d MiB of %d could be written: %v", written>>20, testQuota>>20, err)
	if !errors.Is(err, syscall.ENOSPC) || written > testQuota {
		t.Errorf("%d bytes: %v", written, err)
	}
	return written
}

// TestQuota: the quota stops an agent's writes without affecting other checkouts. Delivery still works, the files
// survive a restart of the machine, and Remove removes everything.
func TestQuota(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	dir := t.TempDir()
	w := openWithQuota(t, dir)
	c, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"})
	if kind, ok := errors.AsType[*Error](err); ok && kind.Op == "mount" {
		t.Skip("no loop device can be mounted here: " + err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(c.Path); err != nil || len(entries) != 2 { // .retake
		t.Errorf("a new checkout has %v, %v", entries, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(c.Path, &st); err != nil || st.Uid != 1000 {
		t.Errorf("the checkout belongs to %d: %v", st.Uid, err)
	}
	put(t, c.Path, "b.txt", "x")
	full := filepath.Join(c.Path, "full")
	written := fill(t, full)
	if used, err := w.Used(t.Context(), nonceB); err != nil || !used.Whole || used.Bytes < int64(written)/2 ||
		used.Bytes > testQuota {
		t.Errorf("the checkout uses %+v of the disk: %v", used, err)
	}
	put(t, checkout(t, w, o, nonceA).Path, "c.txt", "other checkouts have room")
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}

	task := w.tasks.at("", nonceB)
	if err := task.unmount(); err != nil { // as a restart of the machine does
		t.Fatal(err)
	}
	if names, err := os.ReadDir(c.Path); err != nil || len(names) != 0 {
		t.Fatalf("still mounted: %v, %v", names, err)
	}
	deliver(t, w, o, nonceB)
	if got := o.files(t, branch); got != "a.txt\nb.txt" {
		t.Errorf("files: %q", got)
	}
	if err := w.Fresh(t.Context(), nonceB); err != nil {
		t.Fatal(err)
	}
	if again := checkout(t, w, o, nonceB); again.Reused {
		t.Error("Checkout reused the discarded work tree")
	}
	if mounted, err := isMount(c.Path); err != nil || !mounted {
		t.Errorf("without a quota after Fresh: %v", err)
	}
	removeAll(t, w, dir, nonceA, nonceB)
}

// removeAll removes tasks, and fails if files or mounts remain.
func removeAll(t *testing.T, w *Workspaces, dir string, nonces ...string) {
	t.Helper()
	for _, nonce := range nonces {
		if err := w.Remove(t.Context(), nonce); err != nil {
			t.Error(err)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("still mounted: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tasks")); err != nil || len(left) > 0 {
		t.Errorf("remaining: %v, %v", left, err)
	}
}

// TestQuotaNeedsWhatItNeeds: Open reports missing programs.
func TestQuotaNeedsWhatItNeeds(t *testing.T) {
	requireGit(t)
	git := t.TempDir()
	if err := os.Symlink(gitPath(t), filepath.Join(git, "git")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", git)
	_, err := Open(Options{Dir: t.TempDir(), Quota: testQuota})
	wantKind(t, err, Permanent, "checkout.quota")
}

func gitPath(t *testing.T) string {
	t.Helper()
	p, err := findGit(zap.NewNop(), Limits{}.orDefaults())
	if err != nil {
		t.Fatal(err)
	}
	return p.path
}
