package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Only the director's own user reads what workers printed.
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// tempMark is in the name of every file that is not finished. What a crash left is swept when the writer opens.
const tempMark = ".tmp-"

// disk writes files. Its one seam is the write itself: that is where a disk is full.
type disk struct {
	write func(f *os.File, data []byte) (int, error)
}

var realDisk = disk{write: (*os.File).Write}

// replace makes path hold data: a reader sees the old content or the new, also after a power cut.
func (d disk) replace(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+tempMark+"*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = d.write(f, data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// replaceJSON is replace for a document that people may read.
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

// add appends whole lines to path, which holds only whole lines afterwards: what a crash or a full disk cut in half goes.
func (d disk) add(path string, lines []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
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

// wholeLines returns where the last whole line ends, and cuts off what stands behind it. What is no regular file has no end.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, err
	}
	size, block := info.Size(), make([]byte, 4096)
	for at := size; at > 0; {
		n := min(at, int64(len(block)))
		if _, err := f.ReadAt(block[:n], at-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(block[:n], '\n'); i >= 0 {
			end := at - n + int64(i) + 1
			if end == size {
				return end, nil
			}
			return end, f.Truncate(end)
		}
		at -= n
	}
	return 0, f.Truncate(0)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// lockDir holds a folder against other processes of ours until the returned function is called.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// sweep removes unfinished files below dir. Where others of ours write, too, it waits for them.
func sweep(dir string, shared bool) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.Type().IsRegular() && strings.Contains(e.Name(), tempMark):
			if shared {
				unlock, err := lockDir(filepath.Dir(path))
				if err != nil {
					return err
				}
				defer unlock()
			}
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// most is the largest file of ours that is read back.
const most = 4 << 20

// errTooLarge: a file that none of ours is.
var errTooLarge = errors.New("audit: the file is larger than any that is written here")

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

// readJSON reads a document of ours.
func readJSON(path string, v any) error {
	data, err := readFile(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	return err
}
