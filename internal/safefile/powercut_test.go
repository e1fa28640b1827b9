package safefile_test

import (
	"os"
	"path/filepath"
	"testing"

	"retake/internal/safefile"
	"retake/internal/sys/powercut"
)

// TestPowerCut checks that files of this package survive a power cut completely, even in new directories. Files written
// in the usual way do not survive, which shows that the simulated cut works.
func TestPowerCut(t *testing.T) {
	disk := powercut.New(t)
	at := func(name string) string { return filepath.Join(disk.Dir, name) }
	for _, err := range []error{
		safefile.MkdirAll(at("a/b"), 0o700), safefile.Write(at("a/b/new"), 0o600, []byte("whole")),
		safefile.Write(at("a/b/new"), 0o600, []byte("again")),
		safefile.MkdirAll(at("c/d"), 0o700), safefile.Write(at("moved"), 0o600, []byte("moved")),
		safefile.Rename(at("moved"), at("c/d/moved")),
		safefile.WriteNew(at("first"), 0o600, []byte("whole")),
		os.WriteFile(at("usual"), []byte("whole"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	disk.Cut()
	disk.Restore()
	for name, want := range map[string]string{"a/b/new": "again", "c/d/moved": "moved", "first": "whole"} {
		if got, err := os.ReadFile(at(name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := os.ReadFile(at("usual")); err == nil && len(got) > 0 {
		t.Errorf("an unsynced file survived: the power was not cut: %q", got)
	}
}
