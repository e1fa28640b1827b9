package supervisor

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The lock belongs to the open file, not to the process that took it. Locked does not take the lock.
func TestLockIsPassedOn(t *testing.T) {
	dir := t.TempDir()
	if held, err := Locked(dir); held || err != nil {
		t.Errorf("got %v, %v", held, err)
	}
	lock, ours, err := Lock(dir)
	if err != nil || !ours {
		t.Fatalf("got %v, %v", ours, err)
	}
	if _, again, err := Lock(dir); again || err != nil {
		t.Errorf("taken twice (%v)", err)
	}
	holder := exec.Command("cat")
	holder.ExtraFiles = []*os.File{lock}
	hold, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if held, err := Locked(dir); !held || err != nil {
		t.Errorf("lost after it was passed on: %v, %v", held, err)
	}
	hold.Close()
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	if held, err := Locked(dir); held || err != nil {
		t.Errorf("held without a holder: %v, %v", held, err)
	}
}

func TestStreamIsBoundedAndKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	s := &stream{path: filepath.Join(dir, StdoutFile)}
	line := bytes.Repeat([]byte("x"), 1023)
	for i := range 5000 {
		if n, err := s.Write(append(line, byte('0'+i%10))); n != 1024 || err != nil {
			t.Fatal(n, err)
		}
	}
	s.close()
	var kept bytes.Buffer
	if err := CopyStream(&kept, dir, StdoutFile); err != nil {
		t.Fatal(err)
	}
	if n := kept.Len(); n < partBytes || n > 2*partBytes || !bytes.HasSuffix(kept.Bytes(), []byte("xx9")) {
		t.Errorf("kept %d bytes, want between %d and twice that, and the end", n, partBytes)
	}
}

func TestStreamOutlivesItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := &stream{path: filepath.Join(dir, StdoutFile)}
	if n, err := s.Write([]byte("lost")); n != 4 || err != nil {
		t.Errorf("got %d, %v: a worker must not notice", n, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("kept")); err != nil {
		t.Error(err)
	}
	s.close()
	if data, err := os.ReadFile(filepath.Join(dir, StdoutFile)); string(data) != "kept" {
		t.Errorf("got %q, %v", data, err)
	}
}
