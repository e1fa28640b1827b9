package containertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"retake/internal/container"
)

// watch runs Watch until the test ends, and returns a channel that signals reported changes.
func (s harness) watch() <-chan struct{} {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	changes := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.Watch(ctx, func() {
			select {
			case changes <- struct{}{}:
			default: // an earlier call is still unread, which has the same effect
			}
		})
		if !errors.Is(err, context.Canceled) {
			s.Errorf("Watch = %v, want the context's error", err)
		}
	})
	s.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	s.awaitChange(changes, "the first call", func() bool { return true })
	return changes
}

// awaitChange checks a condition after each call by Watch, and returns once it holds.
func (s harness) awaitChange(changes <-chan struct{}, what string, ok func() bool) {
	s.Helper()
	deadline := time.After(patience)
	for {
		select {
		case <-changes:
			if ok() {
				return
			}
		case <-deadline:
			s.Fatalf("Watch did not report %s within %v", what, patience)
		}
	}
}

// Watch usually reports a kill within a tenth of a second, but sometimes later on a busy machine. If it missed
// events, the kill would show only in the director's next list of containers, half a minute later.
const (
	triesForSpeed = 5
	soonEnough    = 5 * time.Second
)

func killedFromOutside(s harness) {
	changes := s.watch()
	var took time.Duration
	for range triesForSpeed {
		if took = s.killAndSee(changes); took <= soonEnough {
			return
		}
		s.Logf("seen after %v", took)
	}
	s.Errorf("Watch reported %d kills too late, the last after %v; want at most %v", triesForSpeed, took, soonEnough)
}

// killAndSee kills a worker from outside and returns how long Watch took to report it.
func (s harness) killAndSee(changes <-chan struct{}) (took time.Duration) {
	s.Helper()
	spec := s.spec("wait")
	s.ensure(spec)
	s.awaitReady(spec)
	began := time.Now()
	s.Kill(s, spec.AttemptID)
	s.awaitChange(changes, "the kill", func() bool {
		status, _ := s.status(spec.AttemptID)
		return status.State == container.StateExited
	})
	took = time.Since(began)
	exit := s.stop(s.Runtime, spec.AttemptID, time.Minute)
	if !exit.Known || exit.Signal != "SIGKILL" || exit.Killed || exit.OOM {
		s.Errorf("got %+v, want a SIGKILL from outside", exit)
	}
	s.wantStreams(exit, "ready\n", "ready too\n")
	s.awaitChange(changes, "the removal", func() bool {
		_, listed := s.status(spec.AttemptID)
		return !listed
	})
	return took
}

// awaitHeld waits until a process detached by the worker holds its lock. It returns the open lock file, which remains
// usable if the attempt's directory is removed.
func (s harness) awaitHeld(spec container.Spec) (lock *os.File) {
	s.Helper()
	eventually(s, "the detached process holds its lock", func() bool {
		file, err := os.Open(filepath.Join(s.workdir(spec), "held"))
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		if err != nil {
			s.Fatal(err)
		}
		if lock = file; !held(lock) {
			file.Close()
			return false
		}
		s.Cleanup(func() { file.Close() })
		return true
	})
	return lock
}

// held reports whether a process holds the lock. The kernel releases a lock when its holder ends, so the answer does
// not depend on the runtime.
func held(lock *os.File) bool {
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil {
		return true
	}
	_ = syscall.Flock(int(lock.Fd()), syscall.LOCK_UN)
	return false
}

func nothingOutlivesAStop(s harness) {
	for _, grace := range []time.Duration{0, 300 * time.Millisecond} {
		spec := s.spec("detach", "stay")
		s.ensure(spec)
		lock := s.awaitHeld(spec)
		s.awaitReady(spec)
		if exit := s.stop(s.Runtime, spec.AttemptID, grace); exit.Signal != "SIGKILL" || !exit.Killed {
			s.Errorf("got %+v", exit)
		}
		if held(lock) {
			s.Errorf("grace %v: a detached process remains", grace)
		}
	}
}

func nothingOutlivesItsWorker(s harness) {
	spec := s.spec("detach", "leave")
	s.ensure(spec)
	s.awaitState(spec.AttemptID, container.StateExited)
	lock, err := os.Open(filepath.Join(s.workdir(spec), "held"))
	if err != nil {
		s.Fatal(err)
	}
	defer lock.Close()
	if exit := s.stop(s.Runtime, spec.AttemptID, time.Minute); !exit.Known || exit.ExitCode != 0 || exit.Killed {
		s.Errorf("got %+v, want a normal exit", exit)
	}
	if held(lock) {
		s.Error("a detached process remains")
	}
}

func nothingOutlivesAKilledWorker(s harness) {
	spec := s.spec("detach", "stay")
	s.ensure(spec)
	lock := s.awaitHeld(spec)
	s.Kill(s, spec.AttemptID)
	s.awaitState(spec.AttemptID, container.StateExited)
	if exit := s.stop(s.Runtime, spec.AttemptID, time.Minute); exit.Signal != "SIGKILL" || exit.Killed {
		s.Errorf("got %+v, want a SIGKILL from outside", exit)
	}
	if held(lock) {
		s.Error("a detached process remains")
	}
}

func foreignFleetIsInvisible(s harness) {
	other := s.Fleet + "-other" // a filter by prefix would show it
	foreign := s.Open(s, other)
	defer foreign.Close()
	spec := s.spec("wait")
	theirs := s.Spec(s, other)
	theirs.AttemptID, theirs.Entrypoint = Name("theirs")+"-1", spec.Entrypoint
	if err := foreign.Ensure(s.Context(), theirs); err != nil {
		s.Fatal(err)
	}
	stopped := false
	defer func() {
		if _, err := foreign.Stop(context.Background(), theirs.AttemptID, 0, nil); err != nil && !stopped {
			s.Errorf("clean up: %v", err)
		}
	}()
	s.ensure(spec)
	if _, ok := s.status(theirs.AttemptID); ok {
		s.Error("listed a foreign fleet's container")
	}
	if _, err := s.Stop(s.Context(), theirs.AttemptID, 0, nil); err == nil || !s.Exists(s, theirs.AttemptID) {
		s.Errorf("stopped a foreign fleet's container (error: %v)", err)
	}
	if _, err := foreign.Stop(s.Context(), theirs.AttemptID, 0, nil); err != nil {
		s.Fatal(err)
	}
	stopped = true
	s.awaitState(spec.AttemptID, container.StateRunning)
}

func pausedIsStoppedQuickly(s harness) {
	spec := s.spec("ignore")
	s.ensure(spec)
	s.awaitReady(spec)
	s.Freeze(s, spec.AttemptID)
	s.awaitState(spec.AttemptID, container.StatePaused)
	began := time.Now()
	exit := s.stop(s.Runtime, spec.AttemptID, time.Minute)
	if took := time.Since(began); took > patience {
		s.Errorf("took %v; a paused container must end without waiting for grace", took)
	}
	if exit.Signal != "SIGKILL" || !exit.Killed || string(exit.Stdout) != "ready\n" {
		s.Errorf("got %+v, want our SIGKILL and no SIGTERM", exit)
	}
}

func adoptedTails(s harness) {
	spec := s.spec("obey")
	s.ensure(spec)
	s.awaitReady(spec)
	if err := s.Close(); err != nil {
		s.Fatal(err)
	}
	heir := s.Open(s, s.Fleet)
	defer heir.Close()
	for range 2 {
		if err := heir.Adopt(s.Context(), spec.AttemptID); err != nil {
			s.Fatal(err)
		}
	}
	if exit := s.stop(heir, spec.AttemptID, patience); string(exit.Stdout) != "ready\nbye\n" {
		s.Errorf("stdout = %q, want the output from before and after adoption", exit.Stdout)
	}
}

func neverAdoptedTails(s harness) {
	spec := s.spec("obey")
	s.ensure(spec)
	s.awaitReady(spec)
	heir := s.Open(s, s.Fleet)
	defer heir.Close()
	if exit := s.stop(heir, spec.AttemptID, patience); string(exit.Stdout) != "ready\nbye\n" {
		s.Errorf("stdout = %q, want all of it", exit.Stdout)
	}
}

func endedBeforeAdoption(s harness) {
	spec := s.spec("flood", fmt.Sprint(floodLines))
	s.ensure(spec)
	s.awaitState(spec.AttemptID, container.StateExited)
	heir := s.Open(s, s.Fleet)
	defer heir.Close()
	if err := heir.Adopt(s.Context(), spec.AttemptID); err != nil {
		s.Fatal(err)
	}
	exit := s.stop(heir, spec.AttemptID, 0)
	if !exit.Known || exit.ExitCode != 0 {
		s.Errorf("got %+v", exit)
	}
	wantFlood(s, exit)
}

const smallMemory = 32 << 20

func memoryLimitIsVisible(s harness) {
	spec := s.spec("limits")
	spec.Memory = smallMemory
	if exit := s.runSpec(spec); !slices.Contains(strings.Fields(string(exit.Stdout)), fmt.Sprint(smallMemory)) {
		s.Errorf("memory limit in the container is %q (%s), want %d", exit.Stdout, exit.Stderr, smallMemory)
	}
}

// triesForOOM is the number of OOM kills. The runtime must report at least one of them. The kernel's report can get
// lost (measured on Docker: 1 in 20), so only a runtime that misses all of them is at fault.
const triesForOOM = 4

func outOfMemory(s harness) {
	for range triesForOOM {
		spec := s.spec("eat", "256")
		spec.Memory = smallMemory
		exit := s.runSpec(spec)
		if !exit.Known || exit.Signal != "SIGKILL" || exit.Killed {
			s.Fatalf("got %+v, want a SIGKILL from outside", exit)
		}
		if exit.OOM {
			return
		}
		s.Log("OOM not set; trying again")
	}
	s.Errorf("%d out-of-memory kills, but OOM was never set", triesForOOM)
}

// The first process survives its child, so only the flag or the event shows the kill.
func childOutOfMemory(s harness) {
	for range triesForOOM {
		spec := s.spec("feed", "256")
		spec.Memory = smallMemory
		exit := s.runSpec(spec)
		if exit.ExitCode != 7 || exit.Signal != "" || !strings.Contains(string(exit.Stdout), "signal: killed") {
			s.Fatalf("got %+v, want a killed child and exit code 7", exit)
		}
		if exit.OOM {
			return
		}
		s.Log("OOM not set; trying again")
	}
	s.Errorf("%d out-of-memory kills, but OOM was never set", triesForOOM)
}

func confinement(s harness) {
	spec := s.spec("status")
	exit := s.runSpec(spec)
	fields := map[string]string{}
	for line := range strings.Lines(string(exit.Stdout)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.Join(strings.Fields(value), " ")
	}
	uid, gid, _ := strings.Cut(spec.User, ":")
	four := func(id string) string { return strings.Join([]string{id, id, id, id}, " ") }
	for name, want := range map[string]string{
		"Uid": four(uid), "Gid": four(gid), "NoNewPrivs": "1", "Pid": "1", "Seccomp": "2",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
	} {
		if fields[name] != want {
			s.Errorf("%s is %q, want %q", name, fields[name], want)
		}
	}
}

func tmpExecutes(s harness) {
	if exit := s.run("runtmp"); exit.ExitCode != 0 || string(exit.Stdout) != "from /tmp\n" {
		s.Errorf("got %d, %q, %s", exit.ExitCode, exit.Stdout, exit.Stderr)
	}
}

func imageMissing(s harness) {
	spec := s.spec("exit", "0")
	spec.Image = Name("retake-no-such-image") + ":none"
	err := s.Ensure(s.Context(), spec)
	if !errors.Is(err, container.ErrImageMissing) || !strings.Contains(err.Error(), spec.Image) {
		s.Errorf("got %v, want ErrImageMissing naming %s", err, spec.Image)
	}
	if s.Exists(s, spec.AttemptID) {
		s.Error("a container remains")
	}
}

// If the node pulls the image only after Ensure, the attempt stays pending and shows the node's message.
func imageMissingIsSeenLater(s harness) {
	spec := s.spec("exit", "0")
	spec.Image = "localhost/" + Name("retake-no-such-image") + ":none"
	s.ensure(spec)
	eventually(s, "List reports the missing image", func() bool {
		status, _ := s.status(spec.AttemptID)
		return status.State == container.StatePending && strings.Contains(status.Waiting, spec.Image)
	})
	exit := s.stop(s.Runtime, spec.AttemptID, time.Minute)
	if !exit.Known || exit.ExitCode == 0 || !strings.Contains(exit.StartError, spec.Image) || exit.Killed {
		s.Errorf("got %+v, want a failed start", exit)
	}
}
