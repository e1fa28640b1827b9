package safefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	for _, text := range []string{"one", "two"} {
		if err := Write(path, 0o600, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	onlyThese(t, path, "a.json")
}

func TestFailureLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	full := errors.New("disk full")
	if err := Write(path, 0o600, []byte("old")); err != nil {
		t.Fatal(err)
	}
	err := Fill(path, 0o600, func(f *os.File) error {
		_, _ = f.WriteString("ha")
		return full
	})
	if got, _ := os.ReadFile(path); !errors.Is(err, full) || string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	onlyThese(t, path, "a.json")
}

func TestWriteNewReplacesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	if err := WriteNew(path, 0o600, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(path, 0o600, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "first" {
		t.Errorf("%q, %v", got, err)
	}
	onlyThese(t, path, "a.json")
}

func TestNoLinkLeadsOutside(t *testing.T) {
	inside, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(inside, "out")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if err := WriteIn(root, "out/a", 0o600, []byte("x")); err == nil {
		t.Error("wrote through a link")
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("outside: %v", entries)
	}
}

func TestRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, text := range []string{"a", "b", "c", "d"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Rotate(path, 2); err != nil {
			t.Fatal(err)
		}
	}
	onlyThese(t, path, "log.1", "log.2")
	for name, want := range map[string]string{".1": "d", ".2": "c"} {
		if got, _ := os.ReadFile(path + name); string(got) != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if err := errors.Join(os.WriteFile(path, nil, 0o600), Rotate(path, 0)); err != nil {
		t.Error(err)
	}
	onlyThese(t, path, "log.1", "log.2")
}

func onlyThese(t *testing.T, beside string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(beside))
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("in the directory: %v, %v; want %v", got, err, want)
	}
}

func TestTail(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	file := filepath.Join(dir, "a.log")
	for _, err := range []error{
		os.WriteFile(file, []byte("0123456789"), 0o600), os.Symlink("a.log", filepath.Join(dir, "link")),
		os.Mkdir(filepath.Join(dir, "folder"), 0o700),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		from, most int64
		want       string
		whole      bool
	}{
		{0, 100, "0123456789", true},
		{0, 10, "0123456789", true},
		{0, 4, "6789", false},
		{8, 4, "89", true},
		{5, 4, "6789", false},
		{20, 4, "", true},
	} {
		if data, whole, err := Tail(root, "a.log", row.from, row.most); err != nil || string(data) != row.want ||
			whole != row.whole {
			t.Errorf("%+v: %q, %v, %v", row, data, whole, err)
		}
	}
	for _, name := range []string{"link", "folder", "pipe", "none", "../" + filepath.Base(dir) + "/a.log"} {
		if data, _, err := Tail(root, name, 0, 10); err == nil {
			t.Errorf("%s: %q", name, data)
		}
	}
}

// forks is a reader that checks whether a process can be forked while it is read.
type forks struct {
	from  io.Reader
	could bool
}

func (f *forks) Read(p []byte) (int, error) {
	if syscall.ForkLock.TryLock() {
		f.could = true
		syscall.ForkLock.Unlock()
	}
	return f.from.Read(p)
}

// TestCreatedProgramIsNotBusy: a child forked while a program is being written keeps it open a little longer,
// and then the program cannot be run.
func TestCreatedProgramIsNotBusy(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	from := &forks{from: strings.NewReader("#!/bin/sh\nexit 7\n")}
	if err := Create(program, 0o500, from); err != nil {
		t.Fatal(err)
	}
	if from.could {
		t.Error("a process could be forked while the program was written")
	}
	var exit *exec.ExitError
	if err := exec.Command(program).Run(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("%v, want exit code 7", err)
	}
	if err := Create(program, 0o500, from); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create: %v, want fs.ErrExist", err)
	}
}
