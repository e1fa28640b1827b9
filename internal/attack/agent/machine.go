package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// onMachine lists attacks on the environment: the first process, the kernel, the bus, and the worker's directory and
// socket. In the results, a line that begins with "through:" reports a success.
var onMachine = map[string]func(args []string) (string, error){
	"firstprocess": firstProcess,
	"trace":        trace,
	"signal":       signalFirst,
	"search":       search,
	"privileges":   privileges,
	"sockets":      sockets,
	"readonly":     readonly,
	"forkbomb":     forkBomb,
	"hang":         func([]string) (string, error) { time.Sleep(time.Hour); return "", nil },
	"eat":          eat,
	"feed":         feed,
	"flood":        flood,
	"print": func(args []string) (string, error) {
		fmt.Fprint(os.Stderr, args[0])
		fmt.Print(args[0])
		return "", nil
	},
	"question": question,
	"folder":   folder,
	"logfile":  logFile,
	"leases":   leases,
	"bus":      bus,
	"detach":   detach,
	"ticking":  ticking,
	"ticks":    ticks,
	"filltmp":  fillTmp,
	"stdin":    stdin,
}

// firstProcess tries to read the files of process 1 in /proc.
func firstProcess([]string) (string, error) {
	var out strings.Builder
	for _, name := range []string{
		"environ", "mem", "maps", "smaps", "auxv", "io", "stack", "syscall", "task/1/environ",
		"task/1/mem", "map_files", "fd", "fdinfo", "root", "cwd", "exe", "ns/net",
	} {
		path := "/proc/1/" + name
		var err error
		var got string
		switch name {
		case "fd", "fdinfo", "map_files":
			var list []os.DirEntry
			list, err = os.ReadDir(path)
			got = fmt.Sprintf("%d entries", len(list))
		case "root", "cwd", "exe", "ns/net":
			got, err = os.Readlink(path)
		default:
			var f *os.File
			if f, err = os.OpenFile(path, os.O_RDONLY, 0); err == nil {
				buffer := make([]byte, 4096)
				var n int
				n, err = f.Read(buffer)
				_ = f.Close()
				got = fmt.Sprintf("%d bytes", n)
			}
		}
		if err == nil {
			fmt.Fprintf(&out, "through: /proc/1/%s: %s\n", name, got)
		}
	}
	for i := range 64 {
		if f, err := os.Open("/proc/1/fd/" + strconv.Itoa(i)); err == nil {
			fmt.Fprintf(&out, "through: opened descriptor %d\n", i)
			_ = f.Close()
		}
	}
	argv, _ := os.ReadFile("/proc/1/cmdline")
	fmt.Fprintf(&out, "argv %q\n", argv)
	return out.String(), nil
}

// trace tries to access process 1 with ptrace and similar system calls.
func trace([]string) (string, error) {
	var out strings.Builder
	buffer := make([]byte, 64)
	local := [2]uintptr{uintptr(unsafe.Pointer(&buffer[0])), 64}
	remote := [2]uintptr{0x400000, 64}
	const (
		attach, seize                                         = 16, 0x4206
		vmRead, vmWrite, pidfdOpen, pidfdGet, kcmp, perf, mad = 310, 311, 434, 438, 312, 298, 440
	)
	for _, c := range []struct {
		name string
		args [7]uintptr
	}{
		{"PTRACE_ATTACH", [7]uintptr{syscall.SYS_PTRACE, attach, 1}},
		{"PTRACE_SEIZE", [7]uintptr{syscall.SYS_PTRACE, seize, 1}},
		{"process_vm_readv", [7]uintptr{
			vmRead, 1, uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)),
			1,
		}},
		{"process_vm_writev", [7]uintptr{
			vmWrite, 1, uintptr(unsafe.Pointer(&local)), 1,
			uintptr(unsafe.Pointer(&remote)), 1,
		}},
		{"kcmp", [7]uintptr{kcmp, 1, uintptr(os.Getpid()), 0, 0, 0}},
		{"perf_event_open", [7]uintptr{perf, uintptr(unsafe.Pointer(&local)), 1, ^uintptr(0), ^uintptr(0), 0}},
	} {
		_, _, e := syscall.Syscall6(c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5], c.args[6])
		if e == 0 {
			fmt.Fprintf(&out, "through: %s\n", c.name)
		} else {
			fmt.Fprintf(&out, "%s: %v\n", c.name, e)
		}
	}
	if pidfd, _, e := syscall.Syscall(pidfdOpen, 1, 0, 0); e == 0 {
		for i := range uintptr(64) {
			if _, _, e := syscall.Syscall(pidfdGet, pidfd, i, 0); e == 0 {
				fmt.Fprintf(&out, "through: obtained descriptor %d\n", i)
			}
		}
	}
	return out.String(), nil
}

// signalFirst sends process 1 every signal except SIGTERM, SIGINT and SIGHUP, which end it by design.
func signalFirst([]string) (string, error) {
	sent := 0
	for s := syscall.Signal(1); s < 65; s++ {
		if s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGHUP {
			continue
		}
		if syscall.Kill(1, s) == nil {
			sent++
		}
	}
	time.Sleep(time.Second)
	status, err := os.ReadFile("/proc/1/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "State:") {
			return fmt.Sprintf("%d signals; %s", sent, line), err
		}
	}
	return "", err
}

// patterns match credentials in plans and in memory.
var patterns = [][]byte{
	[]byte(`"sign_key":"`), []byte(`"seed":"SU`), []byte("eyJ0eXAiOiJKV1Qi"),
	[]byte(`"password":"`), []byte("BEGIN NATS USER JWT"),
}

// search reports credentials in readable files and environments.
func search([]string) (string, error) {
	var out strings.Builder
	files := 0
	look := func(path string) {
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		buffer := make([]byte, 32<<20)
		n, _ := f.Read(buffer)
		files++
		if self, _ := os.Executable(); path == self {
			return // the agent's program contains the patterns
		}
		for _, p := range patterns {
			if i := bytes.Index(buffer[:n], p); i >= 0 && path != "/retake/worker" {
				fmt.Fprintf(&out, "through: %s contains %q\n", path, buffer[i:min(i+40, n)])
			}
		}
	}
	_ = filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // an unreadable file is not a finding
		case path == "/proc" || path == "/sys" || path == "/dev":
			return fs.SkipDir
		case strings.HasSuffix(path, "/plan.json"):
			fmt.Fprintf(&out, "through: %s exists\n", path)
		}
		if d.Type().IsRegular() {
			look(path)
		}
		return nil
	})
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		for _, name := range []string{"environ", "cmdline"} {
			look(p + "/" + name)
		}
	}
	fmt.Fprintf(&out, "%d files, %d processes\n", files, len(processes))
	return out.String(), nil
}

// readonly DIR tries to write to a read-only directory.
func readonly(args []string) (string, error) {
	err := os.WriteFile(filepath.Join(args[0], "x"), nil, 0o644)
	if err == nil {
		return "through: wrote", nil
	}
	return err.Error(), nil
}

// forkBomb starts copies of this program until one fails to start.
func forkBomb([]string) (string, error) {
	self, err := os.Executable()
	n := 0
	for ; err == nil && n < 5000; n++ {
		cmd := exec.Command(self, "hang")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = cmd.Start()
	}
	said := fmt.Sprintf("%d processes: %v", n, err)
	if n >= 1000 {
		said = "through: " + said
	}
	return said, nil
}

// eat allocates memory until it is killed.
func eat([]string) (string, error) {
	var all [][]byte
	for range 1 << 14 {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		all = append(all, block)
	}
	return fmt.Sprintf("through: %d MB", len(all)), nil
}

// feed starts a child that runs eat.
func feed([]string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(self, "eat").Output()
	return fmt.Sprintf("%s %v", out, err), nil
}

// flood MB KIND writes to stdout and stderr, with or without newlines.
func flood(args []string) (string, error) {
	block := bytes.Repeat([]byte("y"), 1<<20)
	if args[1] == "lines" {
		block = bytes.Repeat([]byte("yes\n"), 1<<18)
	}
	for range count(args[0]) {
		if _, err := os.Stdout.Write(block); err != nil {
			return "", err
		}
		if _, err := os.Stderr.Write(block); err != nil {
			return "", err
		}
	}
	return "", nil
}

// question KIND writes a question for a person as a huge file, a pipe, a link or the given text.
func question(args []string) (string, error) {
	_ = os.MkdirAll(".retake", 0o755)
	const path = ".retake/question.md"
	_ = os.RemoveAll(path)
	switch args[0] {
	case "huge":
		return "", os.WriteFile(path, bytes.Repeat([]byte("why? "), 20<<20), 0o644)
	case "fifo":
		return "", syscall.Mkfifo(path, 0o644)
	case "link":
		return "", os.Symlink(args[1], path)
	case "text":
		return "", os.WriteFile(path, []byte(args[1]), 0o644)
	}
	return "", errors.New("unknown kind")
}

// folder KIND damages the worker's directory in the checkout.
func folder(args []string) (string, error) {
	var err error
	switch args[0] {
	case "fifos":
		_ = os.RemoveAll(".retake/spool")
		err = syscall.Mkfifo(".retake/spool", 0o644)
		for _, name := range []string{"last_failure.txt", "sync_required.json", "attempt.json"} {
			_ = os.RemoveAll(".retake/" + name)
			err = errors.Join(err, syscall.Mkfifo(".retake/"+name, 0o644))
		}
	case "links":
		_ = os.RemoveAll(".retake/spool")
		err = os.Symlink("/retake", ".retake/spool")
		for _, name := range []string{"last_failure.txt", "sync_required.json", "attempt.json"} {
			_ = os.RemoveAll(".retake/" + name)
			err = errors.Join(err, os.Symlink("/workspace/overwritten", ".retake/"+name))
		}
	case "gone":
		err = errors.Join(os.RemoveAll(".retake"), os.WriteFile(".retake", []byte("x"), 0))
	}
	return "", err
}

// logFile KIND replaces the log files listed in the agent's profile with a pipe, links, many files or a huge file.
func logFile(args []string) (string, error) {
	_ = os.RemoveAll("logs") // left by an earlier attempt
	_ = os.MkdirAll("logs", 0o755)
	switch args[0] {
	case "fifo":
		return "", syscall.Mkfifo("logs/a.log", 0o644)
	case "link":
		return "", errors.Join(os.Symlink("/proc/1/environ", "logs/b.log"), os.Symlink("/proc/self/mem", "logs/c.log"))
	case "many":
		for i := range 5000 {
			if err := os.WriteFile(fmt.Sprintf("logs/%d.log", i), []byte("x\n"), 0o644); err != nil {
				return "", err
			}
		}
	}
	f, err := os.Create("logs/d.log")
	if err == nil {
		err = errors.Join(f.Truncate(1<<40), f.Close())
	}
	return "", err
}

// detach starts a process in a new session and leaves it running.
func detach([]string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(self, "ticking")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	time.Sleep(300 * time.Millisecond)
	_, err = os.Stat("/tmp/ticks")
	return "", err
}

// ticking is the process that detach starts. It writes the time to /tmp/ticks until it is killed.
func ticking([]string) (string, error) {
	for {
		_ = os.WriteFile("/tmp/ticks", []byte(time.Now().Format(time.RFC3339Nano)), 0o644)
		time.Sleep(20 * time.Millisecond)
	}
}

// ticks reports whether the ticking process is still alive.
func ticks([]string) (string, error) {
	before, _ := os.ReadFile("/tmp/ticks")
	time.Sleep(500 * time.Millisecond)
	after, err := os.ReadFile("/tmp/ticks")
	if err == nil && !bytes.Equal(before, after) {
		return "through: the process survived into the next stage", nil
	}
	return "the process is gone", nil
}

// fillTmp fills /tmp.
func fillTmp([]string) (string, error) { return fill([]string{strconv.Itoa(20 << 30), "/tmp"}) }

// stdin reads the rest of standard input, and lists the open file descriptors.
func stdin([]string) (string, error) {
	buffer := make([]byte, 65536)
	n, _ := os.Stdin.Read(buffer)
	if n > 0 {
		return fmt.Sprintf("through: %d bytes on stdin", n), nil
	}
	to, _ := os.Readlink("/proc/self/fd/0")
	var others []string
	for i := 3; i < 256; i++ {
		if l, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(i)); err == nil &&
			!strings.HasPrefix(l, "anon_inode:") && !strings.HasPrefix(l, "socket:") && !strings.HasPrefix(l,
			"/proc/") && !strings.HasPrefix(l, "pipe:") && !strings.HasPrefix(l, "/sys/fs/cgroup/cpu") {
			others = append(others, l)
		}
	}
	return fmt.Sprintf("stdin is %s, others %q", to, others), nil
}
