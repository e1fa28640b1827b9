package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// passableLevels is the number of directory levels below a data directory that other users may enter but not list.
// Workers that are plain processes of another user need these directories to reach their checkout.
const passableLevels = 2

// Exposure is a file or directory that users other than its owner can read, write or list.
type Exposure struct {
	Name string // relative to the data directory
	Mode fs.FileMode
	Keep fs.FileMode // permissions that Restrict sets
}

func (e Exposure) String() string { return fmt.Sprintf("%s (mode %04o)", e.Name, e.Mode.Perm()) }

// Exposed lists exposures in a data directory. It does not search directories that other users cannot enter.
func Exposed(dir string) (found []Exposure, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // removed, or inaccessible to us
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.Type() == fs.ModeSymlink {
			return nil //nolint:nilerr // it is gone
		}
		name, excess := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/"), fs.FileMode(0o077)
		passable := d.IsDir() && strings.Count(name, "/") < passableLevels
		if passable {
			excess = 0o066
		}
		if mode := info.Mode(); mode&excess != 0 {
			found = append(found, Exposure{name, mode, mode.Perm() &^ excess})
		}
		if d.IsDir() && (!passable || info.Mode()&0o011 == 0) {
			return fs.SkipDir
		}
		return nil
	})
	return found, err
}

// Restrict removes the excess permissions that Exposed finds in a data directory, and returns the exposures. It does
// not follow links out of the directory.
func Restrict(dir string) (found []Exposure, err error) {
	found, err = Exposed(dir)
	if err != nil || len(found) == 0 {
		return found, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return found, err
	}
	for _, e := range found {
		name := e.Name
		if name == "" {
			name = "."
		}
		if info, gone := root.Lstat(name); gone == nil && info.Mode().Type() == e.Mode.Type() {
			err = errors.Join(err, root.Chmod(name, e.Keep))
		}
	}
	return found, errors.Join(err, root.Close())
}
