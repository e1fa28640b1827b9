package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// rings requests io_uring after it was blocked.
func rings() int {
	setup := func() error {
		if _, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0); e != 0 {
			return e
		}
		return nil
	}
	if err := refuseRings(); err != nil {
		fmt.Println("without no_new_privs:", err)
		return 1
	}
	if err := errors.Join(prctl(unix.PR_SET_NO_NEW_PRIVS, 1), refuseRings()); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := setup(); !errors.Is(err, unix.EPERM) {
		fmt.Println("io_uring_setup:", err)
		return 1
	}
	for _, number := range []uintptr{unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
		if _, _, e := unix.Syscall6(number, 1<<20, 0, 0, 0, 0, 0); e != unix.EPERM {
			fmt.Println(number, e)
			return 1
		}
	}
	if _, _, e := unix.Syscall(unix.SYS_PIDFD_SEND_SIGNAL, 1<<20, 0, 0); e != unix.EBADF { // 424 is the number below
		fmt.Println("pidfd_send_signal:", e)
		return 1
	}
	return 0
}

// TestNoRings checks that stages cannot use io_uring.
func TestNoRings(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), programEnv+"=rings")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
