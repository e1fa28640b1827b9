package pdeathsig

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childVariable turns this program into a parent that starts a child and waits for a kill.
const childVariable = "RETAKE_TEST_TIED"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		cmd := exec.Command("sleep", "600")
		if err := Start(cmd); err != nil {
			panic(err)
		}
		println(cmd.Process.Pid)
		select {}
	}
	goleak.VerifyTestMain(m)
}

// The programs must survive while other threads of this process end.
func TestNoThreadTakesAProgramAlong(t *testing.T) {
	var programs []*exec.Cmd
	for range 20 {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := Start(cmd); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, cmd)
	}
	var ending sync.WaitGroup
	for range 200 {
		ending.Go(runtime.LockOSThread) // the thread ends with the goroutine
	}
	ending.Wait()
	time.Sleep(100 * time.Millisecond) // the kernel ends the threads
	for _, cmd := range programs {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		if s := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); s != syscall.SIGTERM {
			t.Errorf("signal %v ended the program", s)
		}
	}
}

func TestItDiesWithThisProgram(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(said))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || len(state) == 0 || containsZombie(string(state)) {
			return
		}
		if time.Now().After(until) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// containsZombie handles containers without an init process that reaps orphans.
func containsZombie(stat string) bool {
	for i := len(stat) - 1; i > 0; i-- {
		if stat[i] == ')' {
			return i+2 < len(stat) && stat[i+2] == 'Z'
		}
	}
	return false
}

// If the program cannot start, Start returns the error of cmd.Start.
func TestNoProgram(t *testing.T) {
	if err := Start(exec.Command("/nowhere/at/all")); err == nil {
		t.Error("a missing program started")
	}
}
