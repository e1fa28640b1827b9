package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWhatIsNotTaken checks that a scan skips git directories in any spelling, special files, and Retake's own
// directory except for this attempt's reports.
func TestWhatIsNotTaken(t *testing.T) {
	dir, s, _ := made(t, map[string]string{
		"a/.git/config": "x", "a/.GIT": "x", ".git/hooks/x": "x", "work": "x", ".retake/attempt.json": "x",
		".retake/spool/abc-1.0001.json": "report",
		".retake/spool/abc-2.0001.json": "another's", ".retake/spool/deep/abc-1.0001.json": "x",
		".retake/home/abc-1.x": "x", "b/.retake/x": "not ours",
	})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for spool, want := range map[string][]string{
		"": {"a", "b", "b/.retake", "b/.retake/x", "work"},
		"abc-1.": {
			".retake", ".retake/spool", ".retake/spool/abc-1.0001.json", "a", "b", "b/.retake", "b/.retake/x",
			"work",
		},
	} {
		s.Spool = spool
		tree, err := s.Scan(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		if got := paths(tree); !slices.Equal(got, want) {
			t.Errorf("spool %q: got %q, want %q", spool, got, want)
		}
		if err := tree.Check(limits); err != nil {
			t.Error(err)
		}
	}
}

// TestNothingIsHandedOutTwice checks that unchanged and renamed files cost nothing, and that one changed file
// of many costs little.
func TestNothingIsHandedOutTwice(t *testing.T) {
	files := map[string]string{}
	for i := range 2000 {
		files[fmt.Sprintf("d%d/f%d", i%50, i)] = strings.Repeat(fmt.Sprint(i), 100)
	}
	dir, s, _ := made(t, files)
	var handed int
	names := map[Digest]bool{}
	s.Emit = func(d Digest, data []byte) error {
		if !names[d] {
			handed += len(data)
		}
		names[d] = true
		return nil
	}
	cost := func(whole bool) int {
		t.Helper()
		handed = 0
		tree, err := s.Scan(t.Context(), whole)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Encode(s.Emit); err != nil {
			t.Fatal(err)
		}
		s.Keep(tree)
		return handed
	}
	all := cost(false)
	for _, whole := range []bool{false, true} {
		if n := cost(whole); n != 0 {
			t.Errorf("no change costs %d bytes, whole: %v", n, whole)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "d7/f7"), []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	one := cost(false)
	if err := os.Rename(filepath.Join(dir, "d7"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	moved := cost(false)
	t.Logf("2000 files: %d bytes; one of them: %d; 40 that were moved: %d", all, one, moved)
	if one > 60<<10 || moved > 100<<10 {
		t.Errorf("%d bytes for one file, %d for a moved directory", one, moved)
	}
}

// TestAChangeThatTheClockDoesNotTell reads a file again if it was written twice within one step of the file system's
// clock, or if an agent reset its times.
func TestAChangeThatTheClockDoesNotTell(t *testing.T) {
	dir, s, _ := made(t, map[string]string{"f": "one"})
	file := filepath.Join(dir, "f")
	scan := func() Digest {
		t.Helper()
		tree, err := s.Scan(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		s.Keep(tree)
		return tree.Entries[0].Sum
	}
	for i := range 50 {
		text := fmt.Sprintf("%3d", i)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if scan() != DigestOf([]byte(text)) {
			t.Fatalf("change %d was not seen", i)
		}
	}
	time.Sleep(tellable + 100*time.Millisecond)
	scan()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(file, []byte("set"), 0o644),
		os.Chtimes(file, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	if scan() != DigestOf([]byte("set")) {
		t.Error("a file with its old time was not read")
	}
}

// TestDeadChunksAreLeft checks that unused content is not kept for the sake of small files in the same chunk.
func TestDeadChunksAreLeft(t *testing.T) {
	dir, s, _ := made(t, nil)
	for round := range 200 {
		name := filepath.Join(dir, fmt.Sprint("big", round))
		data := bytes.Repeat([]byte{byte(round)}, ChunkBytes-100)
		if err := errors.Join(os.WriteFile(name, data, 0o644),
			os.WriteFile(filepath.Join(dir, fmt.Sprint("small", round)), []byte(fmt.Sprint(round)),
				0o644)); err != nil {
			t.Fatal(err)
		}
		tree, err := s.Scan(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		s.Keep(tree)
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		tree, err := s.Scan(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		s.Keep(tree)
		var named int64
		for _, n := range tree.chunkSizes() {
			named += n
		}
		if named > 2*tree.Bytes()+deadBytes+ChunkBytes {
			t.Errorf("%d bytes are named, %d are used", named, tree.Bytes())
		}
	}
}

// TestLimitsOfAScan enforces the limits at the sender, and names the exceeded limit.
func TestLimitsOfAScan(t *testing.T) {
	dir, s, _ := made(t, map[string]string{"a/b/c/d": "x", "e": "12345"})
	for want, l := range map[string]Limits{
		"checkout.max_files":      {Files: 4, Entries: 9, Depth: 9, PathBytes: 99, Bytes: 99},
		"checkout.max_entries":    {Files: 9, Entries: 1, Depth: 9, PathBytes: 99, Bytes: 99},
		"checkout.max_depth":      {Files: 9, Entries: 9, Depth: 3, PathBytes: 99, Bytes: 99},
		"checkout.max_path_bytes": {Files: 9, Entries: 9, Depth: 9, PathBytes: 6, Bytes: 99},
		"checkout.max_bytes":      {Files: 9, Entries: 9, Depth: 9, PathBytes: 99, Bytes: 5},
	} {
		s.Limits = l
		_, err := s.Scan(t.Context(), false)
		if over, ok := errors.AsType[*Exceeded](err); !ok || !strings.Contains(over.Text, want) {
			t.Errorf("%s: %v", want, err)
		}
		s.Limits = limits
		tree, err := s.Scan(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		if over, ok := errors.AsType[*Exceeded](tree.Check(l)); !ok || !strings.Contains(over.Text, want) {
			t.Errorf("%s: the receiver says %v", want, over)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), make([]byte, maxRules+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Scan(t.Context(), false); err == nil || !strings.Contains(err.Error(),
		"git would read all of them") {
		t.Errorf("a long .gitignore: %v", err)
	}
}
