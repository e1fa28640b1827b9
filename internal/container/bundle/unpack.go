package bundle

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// UnpackCommand is the first argument that makes the worker's program unpack a bundle. The remaining arguments are FROM
// TO FOLDER…; see Unpack.
const UnpackCommand = "unpack"

// Names in the unpacked directory.
const (
	Dir       = "retake" // becomes container.Dir
	Program   = "worker" // the worker's program
	inputFile = ".input"
	environ   = ".environ"
	FirstLine = "retake: the output begins here" // printed first by Enter, so a log without it has lost its beginning
	// NotStarted prefixes the message of an attempt that could not start its program.
	NotStarted = "retake: not started: "
)

// UnpackMain implements UnpackCommand. It also creates each FOLDER, writable by all users.
func UnpackMain(args []string, stderr io.Writer) int {
	if len(args) < 2 {
		fmt.Fprintln(stderr, "usage: worker", UnpackCommand, "FROM TO FOLDER…")
		return 2
	}
	if err := Unpack(args[0], args[1], args[2:]); err != nil {
		fmt.Fprintln(stderr, NotStarted+err.Error())
		_ = lastWords(NotStarted + err.Error())
		return 1
	}
	return 0
}

// Unpack reads the parts in the first directory and writes the files for Enter below the second. All files belong to
// this process's user.
func Unpack(from, to string, folders []string) error {
	syscall.Umask(0)
	for _, dir := range folders {
		if err := os.Mkdir(dir, 0o777|fs.ModeSticky); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil { // Mkdir ignores the sticky bit
			return err
		}
	}
	b, err := unpack(from)
	if err != nil {
		return err
	}
	if err := copySelf(filepath.Join(to, Program)); err != nil {
		return err
	}
	dir := filepath.Join(to, Dir)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	variables, err := json.Marshal(b.Env)
	if err != nil {
		return err
	}
	for _, f := range append(b.Files, File{environ, variables}, File{inputFile, b.Input}) {
		if err := put(filepath.Join(dir, f.Name), 0o600, f.Data); err != nil {
			return err
		}
	}
	return nil
}

// put creates a file without syncing it, because the volume is removed with its pod.
func put(path string, mode fs.FileMode, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func copySelf(to string) error {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return put(to, 0o555, self)
}

// terminationLog is the file from which the cluster reads a container's last message.
const terminationLog = "/dev/termination-log"

func lastWords(text string) error {
	f, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
