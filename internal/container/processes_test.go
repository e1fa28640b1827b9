package container_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"retake/internal/container"
	"retake/internal/container/containertest"
	"retake/internal/container/supervisor"
	"retake/internal/sys/procfs"
)

// Variables with which this test program runs itself.
const (
	probeEnv    = "RETAKE_TEST_PROBE"    // path of the built probe
	directorEnv = "RETAKE_TEST_DIRECTOR" // an order to playDirector
)

// processDir returns the directory that all runtimes of a test run share, as the directors of a machine do.
func processDir() string { return filepath.Join(engine.dir, "processes") }

func openProcesses(t testing.TB, fleet string) *container.Processes {
	t.Helper()
	p, err := container.OpenProcesses(context.Background(), container.Options{
		Fleet: fleet, Dir: processDir(),
		SameUser: os.Geteuid() != 0,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcessConformance(t *testing.T) {
	containertest.Run(t, containertest.Subject{
		Capabilities: containertest.Capabilities{
			Adoption: true, Pause: true, Streams: true, Starts: true,
			KillsAtOnce: true,
		},
		Fleet:  engine.fleet,
		Open:   func(t testing.TB, fleet string) container.Runtime { return openProcesses(t, fleet) },
		Spec:   func(t testing.TB, _ string) container.Spec { return spec(t) },
		Kill:   func(t testing.TB, attemptID string) { kill(t, workerOf(t, attemptID).PID, syscall.SIGKILL) },
		Freeze: func(t testing.TB, attemptID string) { kill(t, workerOf(t, attemptID).PID, syscall.SIGSTOP) },
		Exists: func(t testing.TB, attemptID string) bool {
			_, err := os.Lstat(filepath.Join(processDir(), attemptID))
			left, lookErr := supervisor.Leftovers(attemptID, nil)
			if lookErr != nil {
				t.Fatal(lookErr)
			}
			return err == nil || len(left) > 0
		},
	})
}

// An ordinary user has fewer rights than root. For example, it cannot remove files in read-only directories.
func TestProcessConformanceAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this run already has an ordinary user")
	}
	if raced {
		t.Skip("the race detector covers this code as root, and the run without it covers the rights")
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(engine.dir, "ordinary.test")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestProcess", "-test.v", "-test.timeout=5m")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), probeEnv+"="+engine.probe, "DOCKER_HOST=unix:///nonexistent",
		"RETAKE_REQUIRE_DOCKER=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestProcessConformance/NothingOutlivesAStop")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// started returns the pids that the supervisor recorded in the attempt's directory.
func started(t testing.TB, attemptID string) *supervisor.Started {
	t.Helper()
	s, err := supervisor.ReadStarted(filepath.Join(processDir(), attemptID))
	if err != nil || s == nil {
		t.Fatalf("%s has not been started: %v", attemptID, err)
	}
	return s
}

func workerOf(t testing.TB, attemptID string) procfs.ID {
	t.Helper()
	return started(t, attemptID).Worker
}

func kill(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// begin starts the probe with a command and stops it at the end of the test.
func begin(t testing.TB, p *container.Processes, act ...string) container.Spec {
	t.Helper()
	s := spec(t, act...)
	return beginSpec(t, p, s)
}

func beginSpec(t testing.TB, p *container.Processes, s container.Spec) container.Spec {
	t.Helper()
	t.Cleanup(func() {
		if _, err := p.Stop(context.Background(), s.AttemptID, 0, nil); err != nil {
			t.Errorf("clean up %s: %v", s.AttemptID, err)
		}
	})
	if err := p.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func end(t testing.TB, p *container.Processes, s container.Spec) container.Exit {
	t.Helper()
	eventually(t, "it has ended", func() bool {
		list, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list, func(is container.Status) bool {
			return is.AttemptID == s.AttemptID && is.State == container.StateExited
		})
	})
	exit, err := p.Stop(t.Context(), s.AttemptID, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

func held(t testing.TB, s container.Spec) bool {
	t.Helper()
	file, err := os.Open(filepath.Join(s.Checkout, "held"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return false
	}
	defer file.Close()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// After a kill of the supervisor, the worker's end is unknown, but Stop ends all its processes.
func TestProcessSupervisorKilled(t *testing.T) {
	for name, act := range map[string][]string{
		"marked":                             {"mark", "stay"},
		"in the session of a marked process": {"session"},
	} {
		t.Run(name, func(t *testing.T) {
			p := openProcesses(t, engine.fleet)
			s := begin(t, p, act...)
			eventually(t, "the worker is ready", func() bool {
				said, _ := os.ReadFile(filepath.Join(processDir(), s.AttemptID, supervisor.StdoutFile))
				return string(said) == "ready\n" && held(t, s)
			})
			was := started(t, s.AttemptID)
			kill(t, was.Supervisor.PID, syscall.SIGKILL)
			eventually(t, "the worker died with its supervisor", func() bool {
				_, lives := was.Worker.Lives()
				return !lives
			})
			if exit := end(t, p, s); exit.Known || exit.Killed || string(exit.Stdout) != "ready\n" {
				t.Errorf("got %+v, want its output and an unknown end", exit)
			}
			eventually(t, "its processes are gone", func() bool { return !held(t, s) })
		})
	}
}

func TestProcessFrozenWithItsSupervisor(t *testing.T) {
	p := openProcesses(t, engine.fleet)
	s := begin(t, p, "ignore")
	awaitReady(t, s)
	was := started(t, s.AttemptID)
	kill(t, was.Worker.PID, syscall.SIGSTOP)
	kill(t, was.Supervisor.PID, syscall.SIGSTOP)
	began := time.Now()
	exit, err := p.Stop(t.Context(), s.AttemptID, time.Minute, nil)
	if err != nil || exit.Signal != "SIGKILL" || !exit.Killed {
		t.Errorf("got %+v, %v", exit, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestProcessFrozenWhileItIsBeingStopped(t *testing.T) {
	p := openProcesses(t, engine.fleet)
	s := begin(t, p, "ignore")
	awaitReady(t, s)
	worker := workerOf(t, s.AttemptID)
	began := time.Now()
	stopped := make(chan container.Exit)
	go func() {
		exit, err := p.Stop(context.Background(), s.AttemptID, time.Minute, nil)
		if err != nil {
			t.Error(err)
		}
		stopped <- exit
	}()
	eventually(t, "the worker has received SIGTERM", func() bool {
		said, _ := os.ReadFile(filepath.Join(processDir(), s.AttemptID, supervisor.StdoutFile))
		return string(said) == "ready\nno\n"
	})
	kill(t, worker.PID, syscall.SIGSTOP)
	if exit := <-stopped; exit.Signal != "SIGKILL" || !exit.Killed {
		t.Errorf("got %+v", exit)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v of its grace", took)
	}
}

// A pid in an old attempt's directory may belong to another process now.
func TestProcessReusedNumberIsNobodysBusiness(t *testing.T) {
	boot, err := procfs.Boot()
	if err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(*supervisor.Started){
		"another start": func(s *supervisor.Started) { s.Worker.Start--; s.Supervisor.Start-- },
		"another boot":  func(s *supervisor.Started) { s.Boot = "earlier" },
	} {
		t.Run(name, func(t *testing.T) {
			bystander := exec.Command(engine.probe, "hold")
			bystander.Dir = checkout(t)
			bystander.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := bystander.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = bystander.Process.Kill()
				_ = bystander.Wait()
			}()
			now, _ := procfs.Find(bystander.Process.Pid)
			past := supervisor.Started{Boot: boot, Supervisor: now.ID, Worker: now.ID}
			forge(&past)

			p := openProcesses(t, engine.fleet)
			attempt := containertest.Name("past") + "-1"
			dir := filepath.Join(processDir(), attempt)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, v := range map[string]any{
				"attempt.json": map[string]string{
					"attempt_id": attempt, "fleet": engine.fleet,
					"task": "acme/widgets#21",
				}, "started.json": past,
			} {
				if err := supervisor.WriteFile(dir, name, v); err != nil {
					t.Fatal(err)
				}
			}
			exit, err := p.Stop(t.Context(), attempt, time.Minute, nil)
			if err != nil || exit.Known || exit.Killed {
				t.Errorf("Stop = %+v, %v; want an unknown end", exit, err)
			}
			if _, lives := now.Lives(); !lives {
				t.Error("killed a bystander")
			}
		})
	}
}

// processesLeft reports and kills the remaining processes of the run.
func processesLeft() error {
	entries, err := os.ReadDir(processDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, fmt.Errorf("process %s", e.Name()))
		left, _ := supervisor.Leftovers(e.Name(), nil)
		for _, l := range left {
			_, _ = l.Signal(syscall.SIGKILL)
		}
	}
	return err
}
