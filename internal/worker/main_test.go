package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"retake/internal/sys/powercut"
)

// programEnv turns the test binary into one of the stage programs below.
const programEnv = "TEST_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(programEnv); name != "" {
		os.Exit(stagePrograms[name]())
	}
	powercut.InMemory(1 << 30)
	goleak.VerifyTestMain(cleaner{m})
}

// cleaner runs the tests and then removes their shared files.
type cleaner struct{ *testing.M }

func (c cleaner) Run() int {
	defer func() { removeBuilt() }()
	return c.M.Run()
}

// stagePrograms are the small programs that play the stages.
var stagePrograms = map[string]func() int{
	"speak":    speak,
	"stubborn": stubborn,
	"orphans":  orphans,
	"rings":    rings,
	"daemon":   daemonise,
	"sleeper":  func() int { select {} },
	"init":     beInit,
	"fixer":    fixer,
	"checker":  checker,
	"asker":    asker,
	"waiter":   waiter,
	"leaser":   leaser,
	"talker":   talker,
	"leaver":   leaver,
}

// speak prints TEST_OUT, TEST_ERR and, if asked to, the environment. It returns TEST_EXIT.
func speak() int {
	fmt.Print(os.Getenv("TEST_OUT"))
	fmt.Fprint(os.Stderr, os.Getenv("TEST_ERR"))
	if os.Getenv("TEST_ENV") != "" {
		fmt.Println(strings.Join(os.Environ(), "\n"))
	}
	code, _ := strconv.Atoi(os.Getenv("TEST_EXIT"))
	return code
}

// stubborn ignores SIGTERM, like one known agent, and reports when it is ready.
func stubborn() int {
	signal.Ignore(syscall.SIGTERM)
	note("stubborn")
	select {}
}

// orphans starts children that end at once and must be reaped, and does not wait for them.
func orphans() int {
	for range 5 {
		cmd := self("speak")
		if err := cmd.Start(); err != nil {
			return 1
		}
		// without a wait, the child becomes an orphan, or a zombie until this process ends
	}
	return 3
}

// daemonise starts a process in a new session that ignores SIGTERM and holds our streams open, and ends.
func daemonise() int {
	cmd := self("stubborn")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 1
	}
	await("stubborn")
	fmt.Println("left a daemon")
	return 0
}

// fixer plays an agent that succeeds in round TEST_RIGHT_IN. It copies the message about the last failure.
func fixer() int {
	if data, err := os.ReadFile(failureText); err == nil {
		fmt.Printf("was told: %s\n", data)
	}
	round := os.Getenv("RETAKE_FIX_ROUND")
	if err := os.WriteFile("work-"+round, nil, 0o644); err != nil {
		return 1
	}
	return 0
}

// checker succeeds once the fixer was in round TEST_RIGHT_IN.
func checker() int {
	if _, err := os.Stat("work-" + os.Getenv("TEST_RIGHT_IN")); err != nil {
		fmt.Println("--- FAIL: TestWidget (0.00s)\nFAIL")
		return 1
	}
	return 0
}

// asker writes a question.
func asker() int {
	if err := os.WriteFile(questionFile, []byte("Which of the two formats is meant?\n"), 0o644); err != nil {
		return 1
	}
	return 1
}

// waiter succeeds when the test allows it.
func waiter() int {
	note("stubborn")
	await("go")
	return 0
}

// leaser takes a lease, reports that its call was limited, and does not return the lease.
func leaser() int {
	var out strings.Builder
	if code := BudgetCommand([]string{"acquire", "--wait", "20"}, os.Getenv, &out, os.Stderr); code != 0 {
		return code
	}
	fmt.Print(out.String())
	var a leaseAnswer
	if err := json.Unmarshal([]byte(out.String()), &a); err != nil {
		return 3
	}
	return BudgetCommand([]string{"report", "--status", "rate_limited", "--retry-after", "3600", a.GrantID}, os.Getenv,
		os.Stdout, os.Stderr)
}

// talker plays an agent that prints its state. It is limited, continues when the test allows it, and finishes. Its
// prompt is its last argument.
func talker() int {
	fmt.Println(`{"type":"progress","step":"reading"}` + "\n" +
		`{"type":"rate_limited","status":429,"retry_after_seconds":3600}`)
	note("stubborn")
	await("go")
	if !strings.Contains(os.Args[len(os.Args)-1], "> mend it") {
		return 7
	}
	fmt.Println(`{"type":"usage","tokens":1234,"cost_usd":0.5}` + "\n" + `{"type":"final","ok":true,"text":"done"}`)
	return 0
}

// leaver writes the files of TEST_LEAVES (JSON: name → text; "~/" is HOME), appending to existing files, and then acts
// like speak.
func leaver() int {
	var files map[string]string
	if err := json.Unmarshal([]byte(os.Getenv("TEST_LEAVES")), &files); err != nil {
		return 9
	}
	for name, text := range files {
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			name = filepath.Join(os.Getenv("HOME"), rest)
		}
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return 9
		}
		_, _ = f.WriteString(text)
		_ = f.Close()
	}
	return speak()
}

// note and await synchronise two programs through a file in TEST_DIR with the pid of its writer.
func note(name string) {
	file := filepath.Join(os.Getenv("TEST_DIR"), name)
	_ = os.WriteFile(file+".new", []byte(strconv.Itoa(os.Getpid())), 0o644)
	_ = os.Rename(file+".new", file)
}

func await(name string) {
	for {
		if _, err := os.Stat(filepath.Join(os.Getenv("TEST_DIR"), name)); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func self(program string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), programEnv+"="+program)
	return cmd
}

// stubbornPID waits for the note of a stubborn program.
func stubbornPID(t *testing.T, dir string) (pid int) {
	t.Helper()
	eventually(t, "a stubborn program", func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "stubborn"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(string(data))
		return err == nil
	})
	return pid
}

// eventually waits for a condition that depends on real processes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
