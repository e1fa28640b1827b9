package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// detach WHAT starts a child in a separate session, with an empty environment. With the argument "stay", it then
// ignores SIGTERM; otherwise it exits.
func detach(args []string) int { return leave([]string{}, true, args[0]) }

// mark WHAT works like detach, but its child keeps the environment.
func mark(args []string) int { return leave(os.Environ(), true, args[0]) }

// session starts a child with an empty environment in the same session. It then starts a second child, which keeps the
// environment and waits forever for the first child's lock. Then session ignores SIGTERM.
func session([]string) int {
	if code := leave([]string{}, false, "leave"); code != 0 {
		return code
	}
	if err := exec.Command("/proc/self/exe", "hold").Start(); err != nil {
		return fail(err)
	}
	return ignore(nil)
}

func leave(env []string, setsid bool, what string) int {
	child := exec.Command("/proc/self/exe", "hold")
	child.Env = env
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
	out, err := child.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := child.Start(); err != nil {
		return fail(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return fail(err)
	}
	if what == "stay" {
		return ignore(nil)
	}
	return 0
}

// readOnly creates directories below HOME and makes them read-only.
func readOnly([]string) int {
	dir := os.Getenv("HOME") + "/go/pkg/mod/m"
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(dir+"/m.go", nil, 0o444)
	}
	for ; err == nil && dir != os.Getenv("HOME"); dir = filepath.Dir(dir) {
		err = os.Chmod(dir, 0o555)
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// hold locks the file "held" and sleeps forever.
func hold([]string) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	file, err := os.Create("held")
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return fail(err)
	}
	fmt.Print("!")
	for {
		time.Sleep(time.Hour)
	}
}

// env prints its environment, working directory and PID.
func env([]string) int {
	dir, _ := os.Getwd()
	fmt.Printf("PID=%d\nDIR=%s\n%s\n", os.Getpid(), dir, strings.Join(os.Environ(), "\n"))
	return 0
}

// reach tries all addresses concurrently and prints whether each was reached. An address is "tcp HOST:PORT" or "udp
// HOST:PORT" of a server that runs answer.
func reach(args []string) int {
	said := make([]string, len(args))
	var all sync.WaitGroup
	for i, a := range args {
		all.Go(func() {
			network, where, _ := strings.Cut(a, " ")
			if err := word(network, where); err != nil {
				said[i] = "not " + a + ": " + err.Error()
			} else {
				said[i] = "reached " + a
			}
		})
	}
	all.Wait()
	return emit([]byte(strings.Join(said, "\n") + "\n"))
}

// word sends a byte to an address and waits for an answer. Over UDP, only an answer proves that the address is
// reachable.
func word(network, address string) error {
	c, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// answer PORT replies to every client on a port, over TCP and UDP.
func answer(args []string) int {
	l, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return fail(err)
	}
	p, err := net.ListenPacket("udp", ":"+args[0])
	if err != nil {
		return fail(err)
	}
	ready()
	go func() {
		for buffer := make([]byte, 16); ; {
			if _, from, err := p.ReadFrom(buffer); err == nil {
				_, _ = p.WriteTo([]byte("x"), from)
			}
		}
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return fail(err)
		}
		_, _ = c.Write([]byte("x"))
		_ = c.Close()
	}
}
