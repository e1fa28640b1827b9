package output

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"retake/internal/safefile"
)

// openText opens one of an attempt's files, compressed or not.
func openText(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, sealedSuffix) {
		return f, err
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return unpacked{z, f}, nil
}

type unpacked struct {
	*zstd.Decoder
	f *os.File
}

func (u unpacked) Close() error {
	u.Decoder.Close()
	return u.f.Close()
}

// readHeader reads the first line of a file.
func readHeader(path string) (h header, err error) {
	text, err := openText(path)
	if err != nil {
		return h, err
	}
	defer func() { _ = text.Close() }()
	line, err := bufio.NewReader(text).ReadBytes('\n')
	if err != nil {
		return h, err
	}
	err = json.Unmarshal(line, &h)
	if err == nil && h.Schema != schema {
		err = fmt.Errorf("output: read %s: unknown version %q", path, h.Schema)
	}
	return h, err
}

// seal combines the parts of an attempt's output into one compressed file, and removes the parts.
func seal(dir, id string, truncated bool) error {
	parts := []string{filepath.Join(dir, id+olderSuffix), filepath.Join(dir, id+partSuffix)}
	h, err := readHeader(parts[1])
	if errors.Is(err, fs.ErrNotExist) {
		h, err = readHeader(parts[0])
	}
	if err != nil {
		return err
	}
	h.Live = false
	h.Truncated = truncated || firstNumber(parts) > 1
	err = safefile.Fill(filepath.Join(dir, id+sealedSuffix), 0o600, func(f *os.File) error {
		z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if err := json.NewEncoder(z).Encode(h); err != nil {
			return err
		}
		for _, part := range parts {
			if err := copyRows(z, part); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return z.Close()
	})
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// copyRows copies the complete lines after the header.
func copyRows(to io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewReaderSize(f, 64<<10)
	for first := true; ; first = false {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a crash may have truncated the last line
			return nil
		}
		if err == nil && !first {
			_, err = to.Write(line)
		}
		if err != nil {
			return err
		}
	}
}

// firstNumber returns the number of the oldest stored line, or 0 if there are no lines.
func firstNumber(parts []string) int64 {
	for _, part := range parts {
		f, err := os.Open(part)
		if err != nil {
			continue
		}
		lines := bufio.NewReader(f)
		var l row
		_, _ = lines.ReadBytes('\n')
		line, err := lines.ReadBytes('\n')
		_ = f.Close()
		if err == nil && json.Unmarshal(line, &l) == nil {
			return l.N
		}
	}
	return 0
}

// digest describes a finished file.
func digest(dir, path string) (Stored, error) {
	f, err := os.Open(filepath.Join(dir, path))
	if err != nil {
		return Stored{}, err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return Stored{}, err
	}
	h, err := readHeader(filepath.Join(dir, path))
	return Stored{
		Path: filepath.ToSlash(path), SHA256: hex.EncodeToString(sum.Sum(nil)), Bytes: n,
		Truncated: h.Truncated,
	}, err
}
