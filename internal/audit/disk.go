package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"retake/internal/safefile"
)

// Only the director's user may read workers' output.
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// disk writes files. Tests replace the write to simulate a full disk.
type disk struct {
	write func(f *os.File, data []byte) (int, error)
}

var realDisk = disk{write: (*os.File).Write}

// replace writes path atomically. Readers see either the old or the new content, even after a power cut.
func (d disk) replace(path string, data []byte) error {
	if err := safefile.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	return safefile.Fill(path, fileMode, func(f *os.File) error {
		_, err := d.write(f, data)
		return err
	})
}

// replaceJSON replaces a file with v as JSON, indented for people.
func (d disk) replaceJSON(path string, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	return d.replace(path, b.Bytes())
}

// literal matches a string in a JSON document.
var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// cleaned returns a copy of a document, and applies clean to every string in it. Call it before the strings are cut or
// quoted, because clean might not recognise part of a secret.
func cleaned[T any](v T, clean func(string) string) (out T, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	text = literal.ReplaceAllFunc(text, func(quoted []byte) []byte {
		var s string
		_ = json.Unmarshal(quoted, &s) // cannot fail, because json just wrote it
		quoted, _ = json.Marshal(clean(s))
		return quoted
	})
	return out, json.Unmarshal(text, &out)
}

// add appends whole lines to path. It first removes an incomplete line left by a crash or a full disk.
func (d disk) add(path string, lines []byte) (err error) {
	if err := safefile.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := wholeLines(f)
	if err != nil {
		return err
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return err
	}
	if _, err := d.write(f, lines); err != nil {
		return errors.Join(err, f.Truncate(end))
	}
	return nil
}

// wholeLines truncates the file after its last complete line, and returns its size. Devices and pipes have size 0.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, err
	}
	size, last := info.Size(), make([]byte, 1)
	if size == 0 {
		return 0, nil
	}
	if _, err := f.ReadAt(last, size-1); err != nil || last[0] == '\n' {
		return size, err
	}
	data, err := io.ReadAll(f)
	end := int64(bytes.LastIndexByte(data, '\n') + 1)
	return end, errors.Join(err, f.Truncate(end))
}

// sweep removes incomplete files left below dir by a crash.
func sweep(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.Type().IsRegular() && strings.Contains(e.Name(), safefile.TempMark):
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// most limits the size of files that this package reads.
const most = 4 << 20

// errTooLarge means that a file is larger than any file that Retake writes.
var errTooLarge = errors.New("audit: larger than any file that Retake writes")

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(data) > most {
		err = errTooLarge
	}
	return data, err
}

// readJSON reads one of this package's documents.
func readJSON(path string, v any) error {
	data, err := readFile(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
