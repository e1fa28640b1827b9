package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPatch: people can read an attempt's work however it ended, and files in the checkout cannot prevent that.
func TestPatch(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	if patch, err := w.Patch(t.Context(), nonceB); err != nil || patch != "" {
		t.Fatalf("without changes: %q, %v", patch, err)
	}
	if unchanged, err := w.Unchanged(t.Context(), nonceB); err != nil || !unchanged {
		t.Errorf("without changes: %v, %v", unchanged, err)
	}
	put(t, c.Path, "a.txt", "two\n")
	if unchanged, err := w.Unchanged(t.Context(), nonceB); err != nil || unchanged {
		t.Errorf("with changes: %v, %v", unchanged, err)
	}
	put(t, c.Path, "bin", "\x00\x01")
	put(t, c.Path, ".retake/attempt.json", "{}")
	patch, err := w.Patch(t.Context(), nonceB)
	if err != nil || !strings.Contains(patch, "-one\n+two\n") || !strings.Contains(patch, "Binary files") ||
		strings.Contains(patch, "attempt.json") {
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

// TestCheckSeesWhatWouldBePushed: Check gets every path with its size, content and earlier content.
func TestCheckSeesWhatWouldBePushed(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", "gone.txt": "x\n", "same.txt": "same\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "a.txt", "two\n\nno end")
	put(t, c.Path, "empty", "")
	put(t, c.Path, "z/big", strings.Repeat("x", batchBytes+1))
	put(t, c.Path, "z/small", "small\n")
	if err := errors.Join(os.Remove(filepath.Join(c.Path, "gone.txt")),
		os.Symlink("/etc/passwd", filepath.Join(c.Path, "link"))); err != nil {
		t.Fatal(err)
	}
	var got []string
	refused := errors.New("not that")
	q := request(o, nonceB)
	q.Check = func(ctx context.Context, p *Patch) error {
		files, err := p.Files(ctx)
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(f PatchFile) bool { return f.Gone })
		if err := p.Read(ctx, files, func(f PatchFile, content string) error {
			before, err := p.ReadBase(ctx, f)
			got = append(got, fmt.Sprintf("%s %d %t %.20q before %q", f.Path, f.Bytes, f.Link, content, before))
			return err
		}); err != nil {
			return err
		}
		return refused
	}
	_, err := w.Deliver(t.Context(), q)
	want := []string{
		`a.txt 11 false "two\n\nno end" before "one\n"`,
		`empty 0 false "" before ""`,
		`link 11 true "/etc/passwd" before ""`,
		`z/big 8388609 false "xxxxxxxxxxxxxxxxxxxx" before ""`,
		`z/small 6 false "small\n" before ""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !errors.Is(err, refused) || KindOf(err) != Permanent {
		t.Errorf("%v", err)
	}
	if heads := sh(t, o.bare, "branch", "--list"); strings.Contains(heads, "retake") {
		t.Errorf("the push happened despite the error: %s", heads)
	}
	q.Check = nil
	if _, err := w.Deliver(t.Context(), q); err == nil {
		t.Error("pushed without a check")
	}
}
