package container_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"retake/internal/container"
)

// playDirector is the main function of a process that starts an attempt, prints "started", and waits to be killed.
func playDirector(order string) int {
	var o struct {
		container.Options
		Spec  container.Spec
		Input int // bytes of Spec.Stdin
	}
	err := json.Unmarshal([]byte(order), &o)
	if err == nil {
		var r container.Runtime
		if o.Network != "" {
			r, err = container.OpenDocker(context.Background(), o.Options)
		} else {
			r, err = container.OpenProcesses(context.Background(), o.Options)
		}
		if err == nil {
			o.Spec.Stdin = bytes.Repeat([]byte("x"), o.Input)
			err = r.Ensure(context.Background(), o.Spec)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("started")
	select {}
}

// startDirector starts a director process with an input of the given size for its worker.
func startDirector(t *testing.T, o container.Options, s container.Spec, input int) (director *exec.Cmd, out io.Reader) {
	t.Helper()
	order, err := json.Marshal(map[string]any{
		"Dir": o.Dir, "Fleet": o.Fleet, "Network": o.Network,
		"SameUser": o.SameUser, "Spec": s, "Input": input,
	})
	if err != nil {
		t.Fatal(err)
	}
	director = exec.Command("/proc/self/exe")
	director.Env = append(os.Environ(), directorEnv+"="+string(order))
	director.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if out, err = director.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := director.Start(); err != nil {
		t.Fatal(err)
	}
	return director, out
}

// If a director is killed while its worker reads the input, the worker still sees the end of the input. In a
// container, the input ends early if pipe, socket and daemon cannot hold all of it. A plain process gets all of it
// from its supervisor.
func TestInputOfAKilledDirector(t *testing.T) {
	const plan, tooMuch = 100 << 10, 3 << 20
	for _, c := range []struct {
		docker bool
		size   int
	}{{true, plan}, {true, tooMuch}, {false, tooMuch}} {
		docker, size := c.docker, c.size
		s := spec(t, "lateinput")
		o := container.Options{Fleet: engine.fleet, Dir: processDir(), SameUser: os.Geteuid() != 0}
		var r container.Runtime = openProcesses(t, engine.fleet)
		if docker {
			if engine.why != "" {
				t.Log("not in a container: " + engine.why)
				continue
			}
			o.Network, r = engine.network, open(t, engine.fleet)
		}
		director, _ := startDirector(t, o, s, size)
		awaitReady(t, s)
		kill(t, -director.Process.Pid, syscall.SIGKILL)
		_ = director.Wait()
		if err := os.WriteFile(filepath.Join(s.Checkout, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the worker's end", func() bool {
			list, err := r.List(t.Context())
			return err == nil && slices.ContainsFunc(list, func(c container.Status) bool {
				return c.AttemptID == s.AttemptID && c.State == container.StateExited
			})
		})
		exit, err := r.Stop(t.Context(), s.AttemptID, 0, nil)
		var got int
		if _, scanErr := fmt.Sscanf(string(exit.Stdout), "ready\n%d bytes", &got); err != nil || scanErr != nil ||
			exit.ExitCode != 0 {
			t.Fatalf("docker %v: %+v, %v, %v", docker, exit, err, scanErr)
		}
		if whole, want := got == size, !docker || size == plan; whole != want {
			t.Errorf("docker %v: the worker got %d of %d bytes", docker, got, size)
		}
	}
}

func TestProcessSurvivesItsDirector(t *testing.T) {
	s := spec(t, "obey")
	director, out := startDirector(t, container.Options{
		Dir: processDir(), Fleet: engine.fleet,
		SameUser: os.Geteuid() != 0,
	}, s, 0)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "started\n" {
		t.Errorf("the director printed %q, %v", line, err)
	}
	kill(t, -director.Process.Pid, syscall.SIGKILL) // kill its whole group, as a terminal or the demo does
	_ = director.Wait()

	heir := openProcesses(t, engine.fleet)
	if err := heir.Ensure(t.Context(), s); err != nil {
		t.Errorf("Ensure: %v", err)
	}
	awaitReady(t, s)
	exit, err := heir.Stop(t.Context(), s.AttemptID, 30*time.Second, nil)
	if err != nil || !exit.Known || exit.ExitCode != 0 || !exit.Killed || string(exit.Stdout) != "ready\nbye\n" {
		t.Errorf("got %+v, %v; want its complete output", exit, err)
	}
}
