package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// onHost lists attacks on the image's programs, and on the director that runs next to a plain process.
var onHost = map[string]func(args []string) (string, error){"root": root, "beside": beside, "files": files}

// root PATH... tries to write to the root file system, to the agent's program and to the worker's program. The paths
// are world-writable files in world-writable directories, so only a read-only root file system protects them.
func root(paths []string) (string, error) {
	var out strings.Builder
	readonly, others := 0, 0
	tried := func(what, path string, err error) {
		switch {
		case err == nil:
			fmt.Fprintf(&out, "through: %s %s\n", what, path)
		case errors.Is(err, syscall.EROFS):
			readonly++
		case slices.Contains(paths, path):
			fmt.Fprintf(&out, "through: %s %s failed, but not because the file system is read-only: %v\n", what,
				path, err)
		default:
			others++
		}
	}
	appendTo := func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString("x")
			err = errors.Join(err, f.Close())
		}
		return err
	}
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/etc", "/lib", "/root", "/opt"} {
		tried("creating a file in", dir, os.WriteFile(filepath.Join(dir, "planted"), nil, 0o755))
		tried("creating a directory in", dir, os.Mkdir(filepath.Join(dir, "planted.d"), 0o755))
	}
	for _, path := range append([]string{"/agent", "/retake/worker", "/etc/passwd", "/etc/ld.so.preload"}, paths...) {
		tried("appending to", path, appendTo(path))
		tried("changing the mode of", path, os.Chmod(path, 0o777))
		tried("renaming", path, os.Rename(path, path+".old"))
		tried("removing", path, os.Remove(path))
		tried("linking to", path, os.Link(path, filepath.Dir(path)+"/linked"))
	}
	for _, path := range paths {
		tried("creating a file next to", path, os.WriteFile(filepath.Dir(path)+"/planted", nil, 0o755))
	}
	tried("remounting", "/", syscall.Mount("", "/", "", syscall.MS_REMOUNT, ""))
	fmt.Fprintf(&out, "%d refused as read-only, %d for other reasons\n", readonly, others)
	return out.String(), nil
}

// beside PID TEXT tries to access a process on this machine through /proc, signals and ptrace. It also searches every
// process's files in /proc for the text. The argument is the reversed text, so that the search does not find the
// argument itself.
func beside(args []string) (string, error) {
	var out strings.Builder
	pid := int(count(args[0]))
	for _, name := range []string{"environ", "mem", "maps", "auxv", "cmdline", "task", "fd", "root", "cwd", "exe"} {
		path := fmt.Sprintf("/proc/%d/%s", pid, name)
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		_ = f.Close()
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		// in another PID namespace, this number may belong to a different process
		if bytes.Contains(comm, []byte("director")) {
			fmt.Fprintf(&out, "through: opened %s\n", path)
		}
	}
	for name, err := range map[string]error{
		"SIGSTOP": syscall.Kill(pid, syscall.SIGSTOP), "SIGTERM": syscall.Kill(pid, syscall.SIGTERM),
		"PTRACE_ATTACH": syscall.PtraceAttach(pid),
	} {
		if err == nil {
			fmt.Fprintf(&out, "through: %s\n", name)
		}
	}
	looked, token := 0, []byte(args[1])
	slices.Reverse(token)
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		for _, name := range []string{"environ", "cmdline"} {
			data, err := os.ReadFile(filepath.Join(p, name))
			if err != nil {
				continue
			}
			if looked++; bytes.Contains(data, token) {
				fmt.Fprintf(&out, "through: the token is in %s/%s\n", p, name)
			}
		}
	}
	fmt.Fprintf(&out, "%d processes, %d environments and arguments read\n", len(all), looked)
	return out.String(), nil
}

// files PATH... tries to read, write and connect to every file at or below the paths. It skips its own checkout and the
// parent directory of its home.
func files(args []string) (string, error) {
	var out strings.Builder
	checkout, err := os.Getwd()
	if err != nil {
		return "", err
	}
	own := []string{checkout, filepath.Dir(os.Getenv("HOME"))}
	seen := 0
	for _, top := range args {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if slices.Contains(own, path) {
				return fs.SkipDir
			}
			if d == nil {
				return err
			}
			seen++
			for _, way := range touch(path, d) {
				fmt.Fprintf(&out, "through: %s %s\n", way, path)
			}
			return nil // a directory that cannot be listed is not a finding
		})
		if err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	fmt.Fprintf(&out, "%d seen\n", seen)
	return out.String(), nil
}

// touch returns the kinds of access to a file or directory that succeeded.
func touch(path string, d fs.DirEntry) (ways []string) {
	if d.IsDir() {
		if os.WriteFile(filepath.Join(path, "planted"), []byte("x"), 0o644) == nil {
			ways = append(ways, "wrote into")
		}
		return ways
	}
	if f, err := os.Open(path); err == nil {
		if n, _ := f.Read(make([]byte, 1)); n > 0 {
			ways = append(ways, "read")
		}
		_ = f.Close()
	}
	info, err := os.Stat(path)
	if f, failed := os.OpenFile(path, os.O_WRONLY, 0); failed == nil {
		_ = f.Close()
		if err == nil && info.Mode()&fs.ModeDevice == 0 { // hidden files are replaced with /dev/null
			ways = append(ways, "opened for writing")
		}
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		ways = append(ways, "connected to")
	}
	return ways
}
