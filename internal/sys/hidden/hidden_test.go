package hidden

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// helper is the variable that turns this test's program into the observed process.
const helper = "HIDDEN_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helper) == "" {
		os.Exit(m.Run())
	}
	err := Process()
	dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	var core unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &core)
	fmt.Println(err, os.Getenv("TEST_SECRET"), dumpable, core.Cur, core.Max)
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func TestAProcessShowsNoVariables(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{helper + "=1", "TEST_SECRET=hunter2", "OTHER=" + strings.Repeat("x", 1<<16)}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	n, _ := out.Read(said)
	if got := string(said[:n]); got != "<nil> hunter2 0 0 0\n" {
		t.Errorf("output %q", got)
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
	if err == nil && len(bytes.Trim(environ, "\x00")) > 0 {
		t.Errorf("/proc shows %.100q", environ)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestVariablesAreFoundByThisProcessOnly(t *testing.T) {
	t.Setenv("TEST_MODEL_KEY", "hunter2")
	t.Setenv("TEST_PLAIN", "plain")
	if err := Variables(func(name string) bool { return name == "TEST_MODEL_KEY" }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clear(taken) })
	if got, ok := Lookup("TEST_MODEL_KEY"); !ok || got != "hunter2" || Getenv("TEST_MODEL_KEY") != got ||
		Getenv("TEST_PLAIN") != "plain" {
		t.Errorf("Lookup returned %q", got)
	}
	if !slices.Contains(Environ(), "TEST_MODEL_KEY=hunter2") || !slices.Contains(Environ(), "TEST_PLAIN=plain") {
		t.Error("Environ omits a variable")
	}
	out, err := exec.Command("/usr/bin/env").Output()
	if err != nil || bytes.Contains(out, []byte("hunter2")) || !bytes.Contains(out, []byte("TEST_PLAIN=plain")) {
		t.Errorf("a child sees %s, %v", out, err)
	}
}
