package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// obstacles are the cases of TestSyncWhatGitDoesNotKnow.
var obstacles = map[string]struct {
	agent   func(t *testing.T, dir, outside string)
	theirs  map[string]string
	blocked []string
	want    string // content of the first file in theirs
}{
	"ignored file gives way": {
		func(t *testing.T, dir, _ string) { put(t, dir, "ign-file", "agent's") },
		map[string]string{"ign-file": "theirs"},
		nil, "theirs",
	},
	"ignored folder does not": {
		func(t *testing.T, dir, _ string) { put(t, dir, "ign-folder/x", "agent's") },
		map[string]string{"ign-folder": "theirs"},
		[]string{"ign-folder"},
		"",
	},
	"empty folder does": {
		func(_ *testing.T, dir, _ string) { _ = os.MkdirAll(filepath.Join(dir, "empty/er"), 0o755) },
		map[string]string{"empty": "theirs"},
		nil, "theirs",
	},
	"ignored file for a folder": {
		func(t *testing.T, dir, _ string) { put(t, dir, "ign-file", "agent's") },
		map[string]string{"ign-file/x": "theirs"},
		[]string{"ign-file/x"},
		"",
	},
	"ignored link out for a folder": {
		func(_ *testing.T, dir, outside string) { _ = os.Symlink(outside, filepath.Join(dir, "ign-link")) },
		map[string]string{"ign-link/victim": "theirs"},
		[]string{"ign-link/victim"},
		"",
	},
	"ignored link within for a folder": {
		func(_ *testing.T, dir, _ string) { _ = os.Symlink("src", filepath.Join(dir, "ign-link")) },
		map[string]string{"ign-link/a.txt": "theirs"},
		[]string{"ign-link/a.txt"},
		"",
	},
	"ignored link for a file": {
		func(_ *testing.T, dir, outside string) {
			_ = os.Symlink(filepath.Join(outside, "victim"), filepath.Join(dir, "ign-link"))
		},
		map[string]string{"ign-link": "theirs"},
		nil, "theirs",
	},
	"pipe for a file": {
		func(_ *testing.T, dir, _ string) { _ = syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600) },
		map[string]string{"pipe": "theirs"},
		nil, "theirs",
	},
	"the agent's repository": {
		func(t *testing.T, dir, _ string) {
			put(t, dir, "nested/x.txt", "agent's")
			sh(t, filepath.Join(dir, "nested"), "init", "-q")
		},
		map[string]string{"nested/y.txt": "theirs"},
		nil, "theirs",
	},
}

// TestSyncWhatGitDoesNotKnow: the base branch now has entries at the paths of ignored files and links.
func TestSyncWhatGitDoesNotKnow(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	put(t, outside, "victim", "untouched")
	for name, c := range obstacles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, map[string]string{".gitignore": "ign-*\n", "src/a.txt": "a\n"})
			w := open(t, Options{})
			dir := checkout(t, w, o, nonceB).Path
			c.agent(t, dir, outside)
			o.change(t, c.theirs)
			_, err := w.Sync(t.Context(), syncRequest(o), SyncOptions{})
			switch {
			case len(c.blocked) == 0 && err != nil:
				t.Fatal(err)
			case len(c.blocked) > 0 && (!errors.Is(err, ErrMergeConflict) ||
				!strings.Contains(err.Error(), "in "+strings.Join(c.blocked, ", ")+" (")):
				t.Fatalf("%v, want a conflict in %q", err, c.blocked)
			}
			for name := range c.theirs {
				info, err := os.Lstat(filepath.Join(dir, name))
				if len(c.blocked) == 0 && (err != nil || !info.Mode().IsRegular()) {
					t.Errorf("%s: %v, %v", name, info, err)
				}
				if got, _ := os.ReadFile(filepath.Join(dir, name)); c.want != "" && string(got) != c.want {
					t.Errorf("%s: %q", name, got)
				}
			}
			if got, _ := os.ReadFile(filepath.Join(dir, "src/a.txt")); string(got) != "a\n" {
				t.Errorf("a link inside the tree was followed: %q", got)
			}
			if got, _ := os.ReadFile(filepath.Join(outside, "victim")); string(got) != "untouched" {
				t.Errorf("a link out of the tree was followed: %q", got)
			}
		})
	}
}
