package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// diskBytes is the size of the file system for director.data_dir. Its image is a sparse file.
const diskBytes = 1 << 30

// disk holds director.data_dir. It is a separate file system if this machine allows one.
type disk struct {
	dir   string // mount point, or an ordinary directory
	image string // image file, or "" for a directory
	why   string // reason for using a directory
}

func openDisk(dir string) (*disk, error) {
	d := &disk{dir: filepath.Join(dir, "disk"), image: filepath.Join(dir, "disk.img")}
	if err := errors.Join(os.Mkdir(d.dir, 0o711), os.Chmod(d.dir, 0o711)); err != nil {
		return nil, err
	}
	if os.Getuid() != 0 {
		d.image, d.why = "", "only root can mount a file system"
		return d, nil
	}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(diskBytes), f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	if err := errors.Join(run("mkfs.ext4", "-q", d.image), d.mount()); err != nil {
		d.why, d.image = "no separate file system: "+err.Error(), ""
	}
	return d, nil
}

func (d *disk) mount() error { return run("mount", "-o", "loop", d.image, d.dir) }

func (d *disk) unmount() error { return run("umount", d.dir) }

func (d *disk) close() error {
	if d.image == "" {
		return nil
	}
	if err := d.unmount(); err != nil {
		return errors.Join(err, run("umount", "-l", d.dir))
	}
	return nil
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
