package bundle

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func writeParts(t *testing.T, parts [][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i, p := range parts {
		if len(p) > 1<<20 {
			t.Errorf("part %d has %d bytes", i, len(p))
		}
		if err := os.WriteFile(filepath.Join(dir, PartName(i)), p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func packed(t *testing.T, b Bundle) [][]byte {
	t.Helper()
	parts, err := Pack(b)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func TestPackAndUnpack(t *testing.T) {
	for _, b := range []Bundle{{}, {
		Env: []string{"A=1"}, Input: bytes.Repeat([]byte("x"), 3<<20),
		Files: []File{{"f", []byte{0, 1}}},
	}} {
		got, err := unpack(writeParts(t, packed(t, b)))
		if err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("%v; %d bytes of input, want %d", err, len(got.Input), len(b.Input))
		}
	}
}

// Unpack refuses parts of different bundles, because an attempt's second start may have another input.
func TestPartsOfTwoStarts(t *testing.T) {
	one, two := packed(t, Bundle{Input: bytes.Repeat([]byte("1"), 1<<20)}),
		packed(t, Bundle{Input: bytes.Repeat([]byte("2"), 1<<20)})
	if _, err := unpack(writeParts(t, [][]byte{one[0], two[1]})); err == nil ||
		!strings.Contains(err.Error(), "different starts") {
		t.Errorf("got %v", err)
	}
	for _, parts := range [][][]byte{{}, {nil}, one[:1]} {
		if _, err := unpack(writeParts(t, parts)); err == nil {
			t.Errorf("%d parts: no error", len(parts))
		}
	}
}

// Input leaves an empty file for processes that open it again. A pipe works as usual.
func TestInputIsEmptied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, []byte("the plan"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got, err := io.ReadAll(Input(file)); err != nil || string(got) != "the plan" {
		t.Errorf("got %q, %v", got, err)
	}
	if left, err := os.ReadFile(path); err != nil || len(left) > 0 {
		t.Errorf("the file contains %q, %v", left, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.WriteString("more")
	w.Close()
	if got, err := io.ReadAll(Input(r)); err != nil || string(got) != "more" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestVariablesOfOursWin(t *testing.T) {
	got := merged([]string{"PATH=/image", "A=image"}, []string{"A=ours", "B=b=c"})
	if want := []string{"PATH=/image", "A=ours", "B=b=c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
