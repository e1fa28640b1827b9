// Package pdeathsig starts programs that the kernel kills when this process ends for any reason.
//
// The kernel kills such a program when the thread that started it ends (PR_SET_PDEATHSIG in prctl(2)), even if the
// process continues. Go ends a thread when a goroutine that has locked it returns, as in the namespace probe. So Start
// uses a separate thread for each program, and keeps the thread until the program has ended.
package pdeathsig

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start is like cmd.Start, but the program gets SIGKILL when this one ends. Other fields of SysProcAttr stay unchanged.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		} // a caller of cmd.Wait still gets the result
	}()
	return <-started
}
