package terminal

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestTerminal checks that no text controls a terminal, however it is split into writes.
func TestTerminal(t *testing.T) {
	const text = "a\x1b[2Jb\u009bc\u202ed\re\x00f\x7f\tg\nß€😀\xff"
	const want = `a\u001b[2Jb\u009bc\u202ed\u000de\u0000f\u007f` + "\tg\nß€😀\ufffd"
	for size := 1; size <= len(text); size++ {
		var got strings.Builder
		to := &Writer{To: &got}
		for at := 0; at < len(text); at += size {
			if n, err := to.Write([]byte(text[at:min(at+size, len(text))])); err != nil || n == 0 {
				t.Fatal(n, err)
			}
		}
		if got.String() != want {
			t.Errorf("in writes of %d bytes: %q, want %q", size, got.String(), want)
		}
	}
	const value = "x\u009b31m\u202e"
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal([]byte(Escaped(string(data))), &back); err != nil || back != value {
		t.Errorf("%q, %v", back, err)
	}
}
