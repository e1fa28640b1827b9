package workspace

import (
	"strings"
	"testing"
)

// TestPatch: what an attempt left can be read, whatever became of it; nothing in the checkout can change how.
func TestPatch(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	if patch, err := w.Patch(t.Context(), nonceB); err != nil || patch != "" {
		t.Fatalf("nothing changed: %q, %v", patch, err)
	}
	if unchanged, err := w.Unchanged(t.Context(), nonceB); err != nil || !unchanged {
		t.Errorf("nothing changed: %v, %v", unchanged, err)
	}
	put(t, c.Path, "a.txt", "two\n")
	if unchanged, err := w.Unchanged(t.Context(), nonceB); err != nil || unchanged {
		t.Errorf("something changed: %v, %v", unchanged, err)
	}
	put(t, c.Path, "bin", "\x00\x01")
	put(t, c.Path, ".retake/attempt.json", "{}")
	patch, err := w.Patch(t.Context(), nonceB)
	if err != nil || !strings.Contains(patch, "-one\n+two\n") || !strings.Contains(patch, "Binary files") || strings.Contains(patch, "attempt.json") {
		t.Errorf("%s, %v", patch, err)
	}
	put(t, c.Path, "big.txt", strings.Repeat("a line\n", patchBytes/4))
	if patch, err = w.Patch(t.Context(), nonceB); err != nil || len(patch) != patchBytes {
		t.Errorf("%d bytes, %v", len(patch), err)
	}
	if d := deliver(t, w, o, nonceB); d.ChangedFiles != 3 {
		t.Errorf("%+v", d)
	}
	if _, err := w.Patch(t.Context(), "k3v9qx2m"); err == nil {
		t.Error("a task without a checkout has a patch")
	}
}
