package safefile

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// damagedMark is in the name of every file that was set aside.
const damagedMark = ".damaged-"

// Damaged says that a file is not what was written: another version, a failing disk or a person's hand has
// changed it. It was set aside, so the error is an fs.ErrNotExist, too. Whoever gets it says so in the log, and
// goes on as if there had been no file.
type Damaged struct {
	Path  string // where it was
	Aside string // where it is now
	Why   error
}

func (d *Damaged) Error() string {
	return fmt.Sprintf("%s is damaged (%v): it is kept as %s", d.Path, d.Why, d.Aside)
}

// Is makes it a file that is not there.
func (d *Damaged) Is(target error) bool { return target == fs.ErrNotExist }

func (d *Damaged) Unwrap() error { return d.Why }

// Load reads a file of ours. parse refuses what is not whole: then the file is set aside, and the error is a
// *Damaged. Other errors are those of reading, fs.ErrNotExist among them.
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
		return fmt.Errorf("%s is damaged (%w), and cannot be set aside: %w", path, why, err)
	}
	return &Damaged{Path: path, Aside: aside, Why: why}
}

// SetAside renames a file or folder that is damaged, for a person to look at, to <path>.damaged-<time>.
func SetAside(path string) (aside string, err error) {
	aside = path + damagedMark + time.Now().UTC().Format("20060102T150405.000000Z")
	return aside, Rename(path, aside)
}
