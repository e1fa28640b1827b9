package supervisor

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatIsReadWhateverTheName(t *testing.T) {
	tail := " T 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1000 10"
	for _, name := range []string{"(sh)", "(a b)", "(x) R 1 1 (y)", "())"} {
		p, err := parseStat(42, []byte("42 "+name+tail))
		if err != nil || p != (Process{ID: ID{42, 4711}, Parent: 7, Session: 9, State: 'T'}) || !p.Frozen() {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
	for _, text := range []string{"", "42", "42 (sh)", "42 (sh) R 1 2 3", strings.Replace("42 (sh)"+tail, "4711", "x", 1)} {
		if p, err := parseStat(42, []byte(text)); err == nil {
			t.Errorf("%q: got %+v", text, p)
		}
	}
}

func TestDescendants(t *testing.T) {
	is := func(pid, parent int) Process { return Process{ID: ID{PID: pid}, Parent: parent} }
	all := []Process{is(1, 0), is(2, 1), is(3, 2), is(4, 3), is(5, 1), is(6, 7), is(7, 6)} // 6 and 7: a listing that changed
	got := descendants(all, func(p Process) bool { return p.PID == 2 })
	if len(got) != 2 || got[0].PID != 3 || got[1].PID != 4 {
		t.Errorf("got %v, want 3 and 4", got)
	}
}

func TestIDIsOneProcess(t *testing.T) {
	self, lives := Find(os.Getpid())
	if !lives || self.Start == 0 || self.Parent != os.Getppid() {
		t.Fatalf("got %+v", self)
	}
	for _, other := range []ID{{self.PID, self.Start + 1}, {0, 0}, {-1, self.Start}, {1 << 30, self.Start}} {
		if _, lives := other.Lives(); lives {
			t.Errorf("%v lives", other)
		}
		if sent, err := other.Signal(0); sent {
			t.Errorf("signalled %v, %v", other, err)
		}
	}
	if sent, err := self.Signal(0); !sent || err != nil {
		t.Errorf("got %v, %v", sent, err)
	}
}

// What holds the lock is the open file, not the process that took it; and to ask is not to take.
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
		t.Errorf("passed on and lost: %v, %v", held, err)
	}
	hold.Close()
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	if held, err := Locked(dir); held || err != nil {
		t.Errorf("held by nobody: %v, %v", held, err)
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
