// Command probe is the program that the conformance suite runs as an attempt's worker. Its first argument is the
// command.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/container/bundle"
	"retake/internal/container/fence"
	"retake/internal/container/supervisor"
)

// commands maps names to functions that return the exit code.
var commands = map[string]func(args []string) int{
	"exit":      exitWith,
	"say":       say,
	"flood":     flood,
	"wait":      wait,
	"obey":      obey,
	"ignore":    ignore,
	"eat":       eat,
	"feed":      feed,
	"status":    status,
	"limits":    limits,
	"runtmp":    runTmp,
	"readonce":  readOnce,
	"input":     input,
	"lateinput": lateInput,
	"writefile": writeFile,
	"writable":  writable,
	"env":       env,
	"dial":      dial,
	"detach":    detach,
	"mark":      mark,
	"session":   session,
	"hold":      hold,
	"readonly":  readOnly,
	"inside":    inside,

	"reach":  reach,
	"answer": answer,

	supervisor.Command: supervisor.Main, supervisor.ApartCommand: supervisor.BecomeWorker,
	bundle.UnpackCommand: func(args []string) int { return bundle.UnpackMain(args, os.Stderr) },
	bundle.EnterCommand:  func(args []string) int { return bundle.EnterMain(args, os.Stdout, os.Stderr) },
	fence.Command:        func(args []string) int { return fence.Main(args, os.Stdout, os.Stderr) },
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "probe: unknown command", os.Args[1:])
		os.Exit(99)
	}
	os.Exit(commands[os.Args[1]](os.Args[2:]))
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "probe:", err)
	return 98
}

// inside checks that its working directory is empty, and writes to it.
func inside([]string) int {
	dir, err := os.Getwd()
	if err != nil {
		return fail(err)
	}
	left, err := os.ReadDir(".")
	if err != nil {
		return fail(err)
	}
	if len(left) > 0 {
		return fail(fmt.Errorf("the directory contains %v", left))
	}
	var st unix.Stat_t
	if err := unix.Stat(".", &st); err != nil {
		return fail(err)
	}
	fmt.Printf("%s empty, owner %d\n", dir, st.Uid)
	if err := os.MkdirAll("a/b", 0o755); err != nil {
		return fail(err)
	}
	if err := os.WriteFile("a/b/f", []byte("x"), 0o755); err != nil {
		return fail(err)
	}
	fmt.Println("written")
	return 0
}

func emit(text []byte) int {
	if _, err := os.Stdout.Write(text); err != nil {
		return fail(err)
	}
	return 0
}

// ready reports readiness both in the output and in the checkout.
func ready() {
	fmt.Println("ready")
	if err := os.WriteFile("ready", nil, 0o600); err != nil {
		os.Exit(fail(err))
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		os.Exit(fail(err))
	}
	return n
}

func exitWith(args []string) int { return number(args[0]) }

// say OUT ERR writes one line to each stream.
func say(args []string) int {
	fmt.Println(args[0])
	fmt.Fprintln(os.Stderr, args[1])
	return 0
}

// flood LINES writes one line to stderr, then many to stdout.
func flood(args []string) int {
	fmt.Fprintln(os.Stderr, "the one line on stderr")
	var b strings.Builder
	for i := range number(args[0]) {
		fmt.Fprintf(&b, "line %d of the flood, padded to make the output long\n", i)
	}
	return emit([]byte(b.String()))
}

// wait reports that it is ready and sleeps forever. As PID 1 without a handler it ignores SIGTERM.
func wait([]string) int {
	fmt.Fprintln(os.Stderr, "ready too")
	ready()
	for {
		time.Sleep(time.Hour)
	}
}

// obey exits as soon as it gets SIGTERM.
func obey([]string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	ready()
	<-term
	fmt.Println("bye")
	return 0
}

// ignore records a SIGTERM and continues.
func ignore([]string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	ready()
	for range term {
		fmt.Println("no")
	}
	return 0
}

// eat MIB allocates that much memory, unless it is killed first.
func eat(args []string) int {
	var eaten [][]byte
	for range number(args[0]) {
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = byte(i)
		}
		eaten = append(eaten, block)
	}
	fmt.Println("ate it all", len(eaten))
	return 0
}

// feed MIB runs eat in a child process, prints the result and exits with code 7.
func feed(args []string) int {
	out, err := exec.Command(os.Args[0], "eat", args[0]).CombinedOutput()
	fmt.Printf("child: %v %s\n", err, out)
	return 7
}

func status([]string) int { return cat("/proc/self/status") }

// limits prints the memory limit from cgroup v2 or v1.
func limits([]string) int {
	if cat("/sys/fs/cgroup/memory.max") == 0 {
		return 0
	}
	return cat("/sys/fs/cgroup/memory/memory.limit_in_bytes")
}

func cat(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return fail(err)
	}
	return emit(text)
}

// runTmp executes a copy of the probe in /tmp.
func runTmp([]string) int {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return fail(err)
	}
	if err := os.WriteFile("/tmp/copy", self, 0o700); err != nil {
		return fail(err)
	}
	out, err := exec.Command("/tmp/copy", "say", "from /tmp", "-").Output()
	if err != nil {
		return fail(err)
	}
	return emit(out)
}

// readOnce FILE prints a file and removes it.
func readOnce(args []string) int {
	if code := cat(args[0]); code != 0 {
		return code
	}
	if err := os.Remove(args[0]); err != nil {
		return fail(err)
	}
	return 0
}

// input prints the length and the digest of the standard input.
func input([]string) int {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("%d bytes %x\n", len(data), sha256.Sum256(data))
	return 0
}

// lateInput reports that it is ready when the first byte of the input arrives, but reads the input only after the file
// "go" appears.
func lateInput([]string) int {
	for waiting := 0; waiting == 0; time.Sleep(10 * time.Millisecond) {
		var err error
		if waiting, err = unix.IoctlGetInt(0, unix.TIOCINQ); err != nil {
			return fail(err)
		}
	}
	ready()
	for {
		if _, err := os.Stat("go"); err == nil {
			return input(nil)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// writable FILE... prints the files that it could write.
func writable(args []string) int {
	for _, file := range args {
		if os.WriteFile(file, []byte("x"), 0o600) == nil {
			fmt.Println(file)
		}
	}
	return 0
}

// writeFile FILE TEXT writes a file.
func writeFile(args []string) int {
	if err := os.WriteFile(args[0], []byte(args[1]), 0o600); err != nil {
		return fail(err)
	}
	return 0
}

// dial ADDRESS prints the server's answer.
func dial(args []string) int {
	conn, err := net.DialTimeout("tcp", args[0], 10*time.Second)
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		return fail(err)
	}
	return 0
}
