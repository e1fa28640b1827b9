package worker

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// beInit is the child process of TestAsPID1. It is PID 1 of a new namespace, and runs programs as the worker does.
func beInit() int {
	if os.Getpid() != 1 {
		fmt.Println("not PID 1")
		return 1
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("mount /proc:", err)
		return 1
	}
	if err := Harden(); err != nil {
		fmt.Println(err)
		return 1
	}
	r := startReaper()
	p := &processRunner{reaper: r, masks: newMasks(), stdout: io.Discard, stderr: io.Discard, memory: uncounted}
	for name, want := range map[string]int{"orphans": 3, "daemon": 0} {
		env := environment{programEnv: name, "TEST_DIR": os.Getenv("TEST_DIR")}
		e := p.run(context.Background(), command{
			argv: []string{"/proc/self/exe"}, dir: "/", env: env.list(),
			timeout: time.Minute, grace: 100 * time.Millisecond,
		})
		if e.err != nil || e.code != want {
			fmt.Printf("%s: code %d, want %d (%v)\n%s%s\n", name, e.code, want, e.err, e.stdout.text(1000),
				e.stderr.text(1000))
			return 1
		}
		left, err := filepath.Glob("/proc/[0-9]*") // including zombies
		if err != nil || len(left) != 1 {
			fmt.Printf("%s: left in the namespace: %v (%v), want only PID 1\n", name, left, err)
			return 1
		}
	}
	if r.orphans < 6 {
		fmt.Printf("%d orphans reaped, want 6 at least\n", r.orphans)
		return 1
	}
	fmt.Println("all clear")
	return 0
}

// TestAsPID1 runs stages in a new PID namespace. All processes must end, zombies must be reaped, and exit codes must be
// kept.
func TestAsPID1(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), programEnv+"=init", "TEST_DIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	// Unshareflags makes the mounts of the new namespace private, so that changes do not propagate to ours.
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skipf("namespaces: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "all clear") {
		t.Fatalf("%v\n%s", err, out)
	}
}
