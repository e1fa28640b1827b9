package safefile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestRestrict checks that other users lose all permissions that they can use, except for passing to checkouts. Files
// inside of checkouts stay unchanged.
func TestRestrict(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	folder := func(name string, mode fs.FileMode) error {
		path := filepath.Join(dir, name)
		return errors.Join(os.MkdirAll(path, 0o700), os.Chmod(path, mode))
	}
	file := func(name string, mode fs.FileMode) error {
		path := filepath.Join(dir, name)
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode))
	}
	for _, err := range []error{
		folder("tasks/a/checkout/in", 0o777), folder("tasks/a/checkout", 0o755), folder("tasks/a", 0o777),
		folder("tasks", 0o711), folder("mirrors/all", 0o777), folder("mirrors", 0o700), folder("bus", 0o750),
		file("tasks/a/checkout/work", 0o666), file("tasks/a/index", 0o666), file("mirrors/HEAD", 0o666),
		file("bus/key", 0o640), file("lock", 0o600), file("reserve", 0o644),
		os.WriteFile(outside, nil, 0o600), os.Chmod(outside, 0o644), os.Symlink(outside, filepath.Join(dir, "link")),
		os.Chmod(dir, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := os.Chmod(filepath.Join(dir, "sock"), 0o777); err != nil {
		t.Fatal(err)
	}
	found, err := Restrict(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range found {
		names = append(names, e.String())
	}
	if want := []string{
		" (mode 0755)", "bus (mode 0750)", "bus/key (mode 0640)", "reserve (mode 0644)", "sock (mode 0777)",
		"tasks/a (mode 0777)", "tasks/a/checkout (mode 0755)", "tasks/a/index (mode 0666)",
	}; !slices.Equal(names, want) {
		t.Errorf("exposed: %q\nwant %q", names, want)
	}
	for name, want := range map[string]fs.FileMode{
		".": 0o711, "tasks": 0o711, "tasks/a": 0o711, "tasks/a/checkout": 0o700, "tasks/a/checkout/work": 0o666,
		"tasks/a/index": 0o600, "bus": 0o710, "bus/key": 0o600, "reserve": 0o600, "sock": 0o700,
		"mirrors/HEAD": 0o666,
	} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %04o", name, info.Mode(), err, want)
		}
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("a link was followed: %v, %v", info.Mode(), err)
	}
	if again, err := Exposed(dir); err != nil || len(again) > 0 {
		t.Errorf("afterwards: %v, %v", again, err)
	}
}
