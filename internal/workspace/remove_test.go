package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSweepKeepsWhatIsWanted(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	dir := t.TempDir()
	before := open(t, Options{Dir: dir})
	for _, nonce := range []string{"orphan22", "wanted22", "stubborn"} {
		checkout(t, before, o, nonce)
	}
	// Module caches have read-only directories, and hostile agents create inaccessible ones.
	closed := filepath.Join(before.tasks.at("", "stubborn").dir, "checkout", "mod", "cache")
	put(t, closed, "file", "x")
	if err := errors.Join(os.Chmod(closed, 0), os.Chmod(filepath.Dir(closed), 0o500)); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "tasks/not a nonce/x", "a person's")
	put(t, dir, "locks/task-leftover", "")

	after := open(t, Options{Dir: dir})
	found, err := after.Found()
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "tasks/another2/x", "started since")
	removed, err := after.Sweep(t.Context(), found, []string{"wanted22"})
	if err != nil || !slices.Equal(removed, []string{"leftover", "orphan22", "stubborn"}) {
		t.Errorf("removed %q, %v", removed, err)
	}
	var left []string
	entries, _ := os.ReadDir(filepath.Join(dir, "tasks"))
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if !slices.Equal(left, []string{"another2", "not a nonce", "wanted22"}) {
		t.Errorf("remaining: %q", left)
	}
	if found, err = after.Found(); err != nil || !slices.Equal(found, []string{"another2", "wanted22"}) {
		t.Errorf("found %q, %v", found, err)
	}
	if removed, err := after.Sweep(t.Context(), found, found); len(removed) != 0 || err != nil {
		t.Errorf("again: %q, %v", removed, err)
	}
}

func TestRemoveIsIdempotent(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	checkout(t, w, o, nonceB)
	for range 2 {
		if err := w.Remove(t.Context(), nonceB); err != nil {
			t.Error(err)
		}
	}
	for _, sub := range []string{"tasks", "locks"} {
		entries, _ := os.ReadDir(filepath.Join(w.tasks.dir, sub))
		for _, e := range entries {
			if e.Name() != "mirror-acme+widgets" {
				t.Errorf("%s/%s remains", sub, e.Name())
			}
		}
	}
	wantKind(t, w.Remove(t.Context(), ".."), Permanent)
}
