package ring

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The test compares the buffer with a slice of all written bytes.
func TestTailKeepsTheNewestBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		r := New(limit)
		var all []byte
		for _, p := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 100)).Draw(t, "writes") {
			for i := range p {
				p[i] &= 0x7f // ASCII, so every cut is at a boundary
			}
			if n, err := r.Write(p); n != len(p) || err != nil {
				t.Fatalf("Write = %d, %v; want %d, nil", n, err, len(p))
			}
			all = append(all, p...)
		}
		want := all[max(0, len(all)-limit):]
		if got, dropped := r.Tail(); !bytes.Equal(got, want) || dropped != int64(len(all)-len(want)) {
			t.Fatalf("tail = %q, %d, want %q", got, dropped, want)
		}
	})
}

func TestTailStartsAtARune(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit    int
		in, want string
	}{
		{"without a loss, a broken start stays", 8, "\x80\x80ab", "\x80\x80ab"},
		{"cut within two bytes", 7, "xxé234567", "234567"},
		{"cut within four bytes", 8, "x\U0001F60012345", "12345"},
		{"a whole rune stays", 7, "xé23456", "é23456"},
		{"other bytes than UTF-8 stay", 8, strings.Repeat("\x80", 12), strings.Repeat("\x80", 8)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(c.limit)
			mustWrite(t, r, c.in)
			if got := r.String(); got != c.want {
				t.Errorf("tail = %q, want %q", got, c.want)
			}
		})
	}
}

func TestTailIsACopy(t *testing.T) {
	r := New(8)
	mustWrite(t, r, "abc")
	r.Bytes()[0] = 'X'
	if got := r.String(); got != "abc" {
		t.Errorf("tail = %q, want abc", got)
	}
}

func mustWrite(t *testing.T, r *Buffer, text string) {
	t.Helper()
	if n, err := r.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
}
