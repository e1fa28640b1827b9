package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestLongLines checks that Read refuses a small compressed file with an endless line, without reading the whole line
// into memory.
func TestLongLines(t *testing.T) {
	header, err := json.Marshal(Header{Format: format, First: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		start []byte
		seq   uint64
	}{
		"the header":  {},
		"a later one": {start: append(header, '\n'), seq: 1},
	} {
		path := filepath.Join(t.TempDir(), "journal.jsonl.zst")
		if err := os.WriteFile(path, zeros(t, c.start, maxLine+1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(path, nil, nil)
		runtime.ReadMemStats(&after)
		if d, ok := errors.AsType[*Damage](err); !ok || d.Seq != c.seq {
			t.Errorf("%s: %v, want damage at batch %d", name, err, c.seq)
		}
		if used := after.TotalAlloc - before.TotalAlloc; c.start == nil && used > 16<<20 {
			t.Errorf("%s: allocated %d MiB", name, used>>20)
		}
	}
}

// zeros returns a compressed file of start, followed by n zero bytes.
func zeros(t *testing.T, start []byte, n int) []byte {
	t.Helper()
	var file bytes.Buffer
	z, err := zstd.NewWriter(&file)
	if err == nil {
		_, err = z.Write(start)
	}
	for part := make([]byte, 1<<20); n > 0 && err == nil; n -= len(part) {
		_, err = z.Write(part)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestHugeWindow checks that Read refuses a file that demands 512 MiB of memory for its decompression.
func TestHugeWindow(t *testing.T) {
	header, err := json.Marshal(Header{Format: format, First: 1})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	z, err := zstd.NewWriter(&file, zstd.WithWindowSize(zstd.MaxWindowSize), zstd.WithEncoderConcurrency(1))
	if err == nil {
		_, err = z.Write(append(header, '\n'))
	}
	path := filepath.Join(t.TempDir(), "journal.jsonl.zst")
	if err == nil {
		err = errors.Join(z.Flush(), z.Close(), os.WriteFile(path, file.Bytes(), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, nil, nil); err == nil || !strings.Contains(err.Error(), "window") {
		t.Errorf("got %v, want a refused window", err)
	}
}
