package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestSpooled checks that Spooled returns only regular files with a worker's names, in order and up to a size. It must
// not follow an agent's links or wait for its pipes.
func TestSpooled(t *testing.T) {
	t.Parallel()
	w := &Workspaces{tasks: &tasks{dir: t.TempDir()}}
	const nonce, attempt = "k3v9qx2m", "k3v9qx2m-2"
	read := func(want ...string) error {
		t.Helper()
		found, err := w.Spooled(nonce, attempt, 8)
		var got []string
		for _, data := range found {
			got = append(got, string(data))
		}
		if !slices.Equal(got, want) {
			t.Errorf("found %q, want %q (%v)", got, want, err)
		}
		return err
	}
	if err := read(); err != nil {
		t.Errorf("no checkout: %v", err)
	}
	spool := filepath.Join(w.tasks.at("", nonce).checkout(), ".retake", "spool")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(spool, attempt+".0005.json"), 0o755),
		os.WriteFile(filepath.Join(spool, attempt+".0002.json"), []byte("second"), 0o600),
		os.WriteFile(filepath.Join(spool, attempt+".0001.json"), []byte("first"), 0o600),
		os.WriteFile(filepath.Join(spool, "k3v9qx2m-1.0001.json"), []byte("earlier"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := read("first", "second"); err != nil {
		t.Error(err)
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(spool, attempt+".0001.json"), []byte("too large"), 0o600),
		syscall.Mkfifo(filepath.Join(spool, attempt+".0003.json"), 0o600),
		os.Symlink(attempt+".0002.json", filepath.Join(spool, attempt+".0004.json")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := read("second"); err == nil {
		t.Error("no error about the unreadable ones")
	}
	outside := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, attempt+".0001.json"), []byte("outside"), 0o600), os.RemoveAll(spool),
		os.Symlink(outside, spool),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := read(); err == nil {
		t.Error("Spooled followed a link out of the checkout")
	}
}
