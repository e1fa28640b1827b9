package safefile

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// damagedMark is part of the name of every file renamed by SetAside.
const damagedMark = ".damaged-"

// Damaged reports a file with unexpected content, caused by another version, a failing disk or a manual edit. The file
// is set aside, so the error also matches fs.ErrNotExist. The caller should log the error and continue as if the file
// did not exist.
type Damaged struct {
	Path  string // original path
	Aside string // current path
	Why   error
}

func (d *Damaged) Error() string {
	return fmt.Sprintf("%s is damaged (%v) and was moved to %s", d.Path, d.Why, d.Aside)
}

// Is matches fs.ErrNotExist.
func (d *Damaged) Is(target error) bool { return target == fs.ErrNotExist }

func (d *Damaged) Unwrap() error { return d.Why }

// Load reads a file and passes its content to parse. If parse returns an error, Load sets the file aside and
// returns a *Damaged. Read errors, including fs.ErrNotExist, are returned unchanged.
func Load(path string, parse func(data []byte) error) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	why := parse(data)
	if why == nil {
		return nil
	}
	aside, err := SetAside(path)
	if err != nil {
		return fmt.Errorf("%s is damaged (%w) and cannot be set aside: %w", path, why, err)
	}
	return &Damaged{Path: path, Aside: aside, Why: why}
}

// SetAside renames a damaged file or directory to <path>.damaged-<time>, so that a person can inspect it.
func SetAside(path string) (aside string, err error) {
	aside = path + damagedMark + time.Now().UTC().Format("20060102T150405.000000Z")
	return aside, Rename(path, aside)
}
