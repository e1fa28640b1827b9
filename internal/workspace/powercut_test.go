package workspace

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/safefile"
	"retake/internal/sys/powercut"
)

// wantSound checks all repositories in a data directory.
func wantSound(t *testing.T, dir, when string) {
	t.Helper()
	repositories, _ := filepath.Glob(filepath.Join(dir, "tasks", "*", "git"))
	mirrors, _ := filepath.Glob(filepath.Join(dir, "mirrors", "*", "*.git"))
	for _, r := range append(repositories, mirrors...) {
		sh(t, r, "--git-dir=.", "fsck", "--no-dangling", "--strict")
	}
	if len(repositories) == 0 || len(mirrors) == 0 {
		t.Errorf("%s: %d repositories and %d mirrors remain", when, len(repositories), len(mirrors))
	}
}

// TestPowerCutKeepsCheckouts cuts the power right after a checkout, after a small fetch, and after a delivery. The
// files must be complete, and git must accept the repositories.
func TestPowerCutKeepsCheckouts(t *testing.T) {
	t.Parallel()
	disk := powercut.New(t)
	o := newOrigin(t, map[string]string{"a.txt": "a\n", "b/c.txt": "c\n"})
	dir := filepath.Join(disk.Dir, "data")
	wanted := Request{Nonce: nonceA, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"}
	delivery := request(o, nonceA)
	open := func() *Workspaces { return open(t, Options{Dir: dir}) }
	w := open()
	c, err := w.Checkout(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	before := files(t, c.Path)
	disk.Cut()
	disk.Restore()
	wantSound(t, dir, "after the checkout")
	if after := files(t, c.Path); after != before {
		t.Errorf("files before:\n%s\nafter:\n%s", before, after)
	}

	w = open()
	if again, err := w.Checkout(t.Context(), wanted); err != nil || !again.Reused {
		t.Fatalf("%+v, %v", again, err)
	}
	o.change(t, map[string]string{"later.txt": "later\n"})
	if _, err := w.Sync(t.Context(), wanted, SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	before = files(t, c.Path)
	disk.Cut()
	disk.Restore()
	wantSound(t, dir, "after a merge")
	if after := files(t, c.Path); after != before || !strings.Contains(after, "later.txt") {
		t.Errorf("files before:\n%s\nafter:\n%s", before, after)
	}

	w = open()
	if err := os.WriteFile(filepath.Join(c.Path, "work.txt"), []byte("work\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := safefile.SyncDisk(c.Path); err != nil { // as a worker does before it reports a success
		t.Fatal(err)
	}
	d, err := w.Deliver(t.Context(), delivery)
	if err != nil {
		t.Fatal(err)
	}
	disk.Cut()
	disk.Restore()
	wantSound(t, dir, "after a delivery")
	again, err := open().Deliver(context.Background(), delivery)
	if err != nil || again.SHA != d.SHA {
		t.Errorf("delivered %+v, again %+v, %v", d, again, err)
	}
}

// files lists the files of a checkout with their contents.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		b.WriteString(strings.TrimPrefix(path, dir) + ": " + string(data) + "\n")
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return b.String()
}
