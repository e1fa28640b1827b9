// Package tied starts programs that die with this one, however it ends.
//
// Linux ends them with the thread that has started them, not with its process (prctl(2), PR_SET_PDEATHSIG), and
// Go ends a thread with the goroutine that has locked it, as the probe for namespaces does. So each program
// gets a thread that stays until it has ended.
package tied

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start is cmd.Start for a program that gets SIGKILL when this one ends. Other fields of SysProcAttr stay unchanged.
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
