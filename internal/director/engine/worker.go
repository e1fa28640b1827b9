package engine

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const elfMagic = "\x7fELF"

// FindWorker returns the absolute path of the static worker binary. The default is the file "worker" in this
// program's directory.
func FindWorker(path string) (string, error) {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("director: find the path of this program: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), "worker")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("director: worker binary: %w", err)
	}
	f, err := os.Open(abs)
	if err != nil {
		return "", fmt.Errorf("director: no worker binary at %s: run \"make build\", or set its path with "+
			"--worker-binary",
			abs)
	}
	defer f.Close()
	magic := make([]byte, len(elfMagic))
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != elfMagic {
		return "", fmt.Errorf("director: %s is not a Linux program: run \"make build\", or set the worker's path "+
			"with --worker-binary", abs)
	}
	return abs, nil
}
