package procfs

import (
	"os"
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
	for _, text := range []string{"", "42", "42 (sh)", "42 (sh) R 1 2 3", strings.Replace("42 (sh)"+tail, "4711", "x",
		1)} {
		if p, err := parseStat(42, []byte(text)); err == nil {
			t.Errorf("%q: got %+v", text, p)
		}
	}
}

func TestDescendants(t *testing.T) {
	is := func(pid, parent int) Process { return Process{ID: ID{PID: pid}, Parent: parent} }
	// 6 and 7 come from a list that changed during reading
	all := []Process{is(1, 0), is(2, 1), is(3, 2), is(4, 3), is(5, 1), is(6, 7), is(7, 6)}
	got := Descendants(all, func(p Process) bool { return p.PID == 2 })
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
