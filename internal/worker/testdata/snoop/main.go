// Command snoop runs as a stage and searches for the worker's secrets: the plan, the credential, the key. It returns 0
// if it found none. As CODE it starts a daemon, and as VALIDATE it searches for that daemon.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "daemon" {
		select {}
	}
	var found []string
	note := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if len(os.Args) > 1 { // as root of a user namespace
		for _, arg := range os.Args[1:] {
			pid, _ := strconv.Atoi(arg)
			lookInto(pid, note)
			attack(pid, note)
		}
		fmt.Print(strings.Join(found, "; "))
		return
	}
	fmt.Println("uid", os.Getuid())
	for _, pid := range ancestors() {
		if pid == 1 && os.Getppid() != 1 {
			continue // the stage runs as a plain process of this machine
		}
		lookInto(pid, note)
		attack(pid, note)
		asRootOfANamespace(pid, note)
	}
	search(note)
	if os.Getppid() == 1 {
		if procs, _ := filepath.Glob("/proc/[0-9]*"); len(procs) != 2 {
			note("processes: %v", procs)
		}
	}
	out, err := exec.Command(os.Getenv("RETAKE_WORKER"), "budget", "acquire").CombinedOutput()
	fmt.Printf("lease: %s", out)
	if err != nil {
		note("no lease: %v", err)
	}
	if os.Getenv("RETAKE_STAGE") == "CODE" {
		cmd := exec.Command(os.Args[0], "daemon")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			note("no daemon: %v", err)
		}
	}
	for _, what := range found {
		fmt.Println("FOUND", what)
	}
	os.Exit(min(len(found), 1))
}

// ancestors returns the worker and, for a plain process, its supervisor.
func ancestors() []int {
	worker := os.Getppid()
	above := []int{worker}
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(worker) + "/stat"); err == nil {
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if fields := strings.Fields(string(rest)); len(fields) > 1 {
			if parent, _ := strconv.Atoi(fields[1]); parent > 1 {
				above = append(above, parent)
			}
		}
	}
	return above
}

// lookInto reads what /proc shows of a process.
func lookInto(pid int, note func(string, ...any)) {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	for _, name := range []string{"environ", "mem", "maps", "smaps", "auxv", "pagemap", "stack", "syscall", "io"} {
		data := make([]byte, 1)
		file, err := os.Open(dir + name)
		if err == nil {
			_, err = file.Read(data)
			_ = file.Close()
		}
		if err == nil {
			note("%s is readable", dir+name)
		}
	}
	for _, name := range []string{"fd", "fdinfo", "map_files"} {
		if list, err := os.ReadDir(dir + name); err == nil {
			note("%s lists %d", dir+name, len(list))
		}
	}
	for _, name := range []string{"fd/0", "exe", "cwd", "root"} {
		if to, err := os.Readlink(dir + name); err == nil {
			note("%s leads to %s", dir+name, to)
		}
	}
	if input, err := os.Open(dir + "fd/0"); err == nil {
		note("%sfd/0 opens", dir)
		_ = input.Close()
	}
	if file, err := os.OpenFile(dir+"mem", os.O_RDWR, 0); err == nil {
		note("%smem is writable", dir)
		_ = file.Close()
	}
}

// attack tries system calls for data that /proc refuses.
func attack(pid int, note func(string, ...any)) {
	const seize = 0x4206 // PTRACE_SEIZE
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, seize, uintptr(pid), 0, 0, 0, 0); errno == 0 {
		note("PTRACE_SEIZE of %d works", pid)
	}
	if err := syscall.PtraceAttach(pid); err == nil {
		note("PTRACE_ATTACH to %d works", pid)
		_ = syscall.PtraceDetach(pid)
	}
	buffer := make([]byte, 64)
	local := []unix.Iovec{{Base: &buffer[0]}}
	local[0].SetLen(len(buffer))
	// A wrong address would give EFAULT, because the kernel checks the permission first.
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&buffer[0])), Len: len(buffer)}}
	if _, err := unix.ProcessVMReadv(pid, local, remote, 0); !errors.Is(err, unix.EPERM) &&
		!errors.Is(err, unix.ENOSYS) {
		note("process_vm_readv of %d: %v", pid, err)
	}
	if _, err := unix.ProcessVMWritev(pid, local, remote, 0); !errors.Is(err, unix.EPERM) &&
		!errors.Is(err, unix.ENOSYS) {
		note("process_vm_writev of %d: %v", pid, err)
	}
	if handle, err := unix.PidfdOpen(pid, 0); err == nil {
		for fd := range 16 {
			if got, err := unix.PidfdGetfd(handle, fd, 0); err == nil {
				note("descriptor %d of %d: taken", fd, pid)
				_ = unix.Close(got)
			}
		}
		_ = unix.Close(handle)
	}
}

// asRootOfANamespace repeats the attack with every capability in a new user namespace. It fails where the engine
// forbids one.
func asRootOfANamespace(pid int, note func(string, ...any)) {
	cmd := exec.Command(os.Args[0], strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	fmt.Println("in a user namespace:", err)
	if len(out) > 0 {
		note("as root of a user namespace: %s", out)
	}
}

// search examines its environment, its descriptors, every command line and every file.
func search(note func(string, ...any)) {
	var secrets [][]byte
	for _, reversed := range strings.Fields(os.Getenv("TEST_REVERSED")) {
		s := []byte(reversed)
		slices.Reverse(s)
		secrets = append(secrets, s)
	}
	if len(secrets) == 0 {
		note("nothing to look for")
	}
	in := func(where string, data []byte) {
		for i, s := range secrets {
			if bytes.Contains(data, s) {
				note("secret %d in %s", i, where)
			}
		}
	}
	in("the environment", []byte(strings.Join(os.Environ(), "\n")))
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		data, _ := os.ReadFile(name)
		in(name, data)
	}
	if input, err := os.ReadFile("/proc/self/fd/0"); err != nil || len(input) > 0 {
		note("standard input has %d bytes, %v", len(input), err)
	}
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, "socket:") {
			note("descriptor %s is %s", fd.Name(), to)
		}
	}
	home, _ := os.UserHomeDir()
	wd, _ := os.Getwd()
	self := filepath.Dir(os.Getenv("RETAKE_WORKER"))
	for _, root := range slices.Compact([]string{
		"/retake", self, wd, "/tmp", "/run", "/var/run", "/dev/shm",
		"/dev/mqueue", home,
	}) {
		if root == "/" || root == "" || os.Getppid() != 1 && root != wd && root != self && root != home {
			continue
		}
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				data, _ := os.ReadFile(path)
				in(path, data)
			}
			return nil
		})
	}
}
