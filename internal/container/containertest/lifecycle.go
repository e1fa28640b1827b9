package containertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"retake/internal/container"
)

func streamsAreKeptApart(s harness) {
	exit := s.run("say", "to stdout", "to stderr")
	if got := string(exit.Stdout); got != "to stdout\n" {
		s.Errorf("stdout = %q", got)
	}
	if got := string(exit.Stderr); got != "to stderr\n" {
		s.Errorf("stderr = %q", got)
	}
}

func streamsComeAsOne(s harness) {
	exit := s.run("say", "to stdout", "to stderr")
	s.wantStreams(exit, "to stdout\n", "to stderr\n")
}

// wantStreams checks for a line on each stream. If the runtime merges the streams, their order is undefined.
func (s harness) wantStreams(exit container.Exit, stdout, stderr string) {
	s.Helper()
	got := string(exit.Stdout)
	if s.Streams && (got != stdout || string(exit.Stderr) != stderr) || !s.Streams &&
		(len(exit.Stderr) > 0 || got != stdout+stderr && got != stderr+stdout) {
		s.Errorf("stdout = %q, stderr = %q, want %q and %q", exit.Stdout, exit.Stderr, stdout, stderr)
	}
}

// floodLines is the number of lines in a flood of about 5 MB: more than a ring keeps, but less than the log file.
const floodLines = 100_000

func wantFlood(s harness, exit container.Exit) {
	s.Helper()
	last := fmt.Sprintf("line %d of the flood, padded to make the output long\n", floodLines-1)
	if n := len(exit.Stdout); n > 32<<10 || n < 31<<10 || !bytes.HasSuffix(exit.Stdout, []byte(last)) {
		s.Errorf("stdout: %d bytes, ends with %q; want the newest 32 KiB", n, exit.Stdout[max(0, n-60):])
	}
	if got := string(exit.Stderr); s.Streams && got != "the one line on stderr\n" {
		s.Errorf("stderr = %q, want its line despite the flood on stdout", got)
	}
}

func newestIsKeptUnderAFlood(s harness) {
	wantFlood(s, s.run("flood", fmt.Sprint(floodLines)))
}

func exitCodes(s harness) {
	for _, code := range []int{0, 3} {
		exit := s.run("exit", fmt.Sprint(code))
		if !exit.Known || exit.ExitCode != code || exit.Signal != "" || exit.Killed || exit.OOM {
			s.Errorf("exit %d: got %+v", code, exit)
		}
	}
}

func planIsReadAndRemoved(s harness) {
	plan := container.Dir + "/plan.json"
	spec := s.spec("readonce", plan)
	spec.Files = []container.File{{Name: "plan.json", Data: []byte("the plan")}}
	exit := s.runSpec(spec)
	if exit.ExitCode != 0 || string(exit.Stdout) != "the plan" {
		s.Errorf("got %d, %q, %s", exit.ExitCode, exit.Stdout, exit.Stderr)
	}
}

func inputComesWholeAndEnds(s harness) {
	for _, size := range []int{0, 1, 3 << 20} { // empty, one byte, and more than a pipe buffers
		spec := s.spec("input")
		spec.Stdin = bytes.Repeat([]byte("x"), size)
		exit := s.runSpec(spec)
		if want := fmt.Sprintf("%d bytes %x\n", size, sha256.Sum256(spec.Stdin)); exit.ExitCode != 0 ||
			string(exit.Stdout) != want {
			s.Errorf("%d bytes: got %d, %q, %s; want %q", size, exit.ExitCode, exit.Stdout, exit.Stderr, want)
		}
	}
	spec := s.spec("obey") // an unread input delays the start only briefly
	spec.Stdin = []byte("an unread input")
	s.ensure(spec)
	s.awaitReady(spec)
	s.ensure(spec)
	if exit := s.stop(s.Runtime, spec.AttemptID, patience); string(exit.Stdout) != "ready\nbye\n" {
		s.Errorf("stdout = %q, want the output of one start", exit.Stdout)
	}
}

func environmentAndWorkdir(s harness) {
	spec := s.spec("env")
	spec.Env = []string{"RETAKE_A=1", "RETAKE_B=x=y z"}
	exit := s.runSpec(spec)
	for _, want := range []string{"DIR=" + s.Workdir(spec), "RETAKE_A=1", "RETAKE_B=x=y z"} {
		if !strings.Contains(string(exit.Stdout), want+"\n") {
			s.Errorf("no line %q in %q", want, exit.Stdout)
		}
	}
}

// workdirWithoutACheckout starts attempts whose spec omits Checkout, as for a remote engine. Each attempt gets a
// separate, empty directory that belongs to the worker.
func workdirWithoutACheckout(s harness) {
	for _, readOnly := range []bool{false, true} {
		for range 2 {
			spec := s.spec("inside")
			spec.Checkout, spec.ReadOnly = "", readOnly
			exit := s.runSpec(spec)
			uid, _, _ := strings.Cut(spec.User, ":")
			if own := fmt.Sprintf("%s empty, owner %s\nwritten\n", s.Workdir(spec), uid); exit.ExitCode != 0 ||
				string(exit.Stdout) != own && os.Geteuid() == 0 {
				s.Errorf("read-only %v: got %d, %q, %s; want %q", readOnly, exit.ExitCode, exit.Stdout, exit.Stderr,
					own)
			}
		}
	}
}

func ensureTwiceIsOnce(s harness) {
	spec := s.spec("obey")
	s.ensure(spec)
	s.awaitReady(spec)
	s.ensure(spec)
	if listed := s.awaitState(spec.AttemptID, container.StateRunning); listed.Task != spec.Task {
		s.Errorf("listed as %+v", listed)
	}
	if exit := s.stop(s.Runtime, spec.AttemptID, patience); string(exit.Stdout) != "ready\nbye\n" {
		s.Errorf("stdout = %q, want the output of one start", exit.Stdout)
	}
}

func ensureDoesNotRestart(s harness) {
	spec := s.spec("say", "once", "-")
	s.ensure(spec)
	ended := s.awaitState(spec.AttemptID, container.StateExited)
	s.ensure(spec)
	if now, _ := s.status(spec.AttemptID); now != ended {
		s.Errorf("changed from %+v to %+v", ended, now)
	}
	s.wantStreams(s.stop(s.Runtime, spec.AttemptID, 0), "once\n", "-\n")
}

func ensureAtOnce(s harness) {
	spec := s.spec("obey")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.Ensure(s.Context(), spec); err != nil {
				s.Errorf("Ensure: %v", err)
			}
		})
	}
	wg.Wait()
	s.awaitReady(spec)
	if exit := s.stop(s.Runtime, spec.AttemptID, patience); string(exit.Stdout) != "ready\nbye\n" {
		s.Errorf("stdout = %q, want the output of one start", exit.Stdout)
	}
}

func badEntrypoint(s harness) {
	spec := s.spec()
	spec.Entrypoint = []string{container.Dir + "/no-such-program"}
	for range 2 { // a second Ensure has the same result
		err := s.Ensure(s.Context(), spec)
		if !errors.Is(err, container.ErrSpec) || container.Transient(err) ||
			!strings.Contains(err.Error(), "no-such-program") {
			s.Fatalf("got %v, want a permanent ErrSpec naming the program", err)
		}
	}
	if status, ok := s.status(spec.AttemptID); ok && status.State.Live() {
		s.Errorf("listed as %+v", status)
	}
	began := time.Now()
	exit := s.stop(s.Runtime, spec.AttemptID, 2*patience)
	if exit.Known && (exit.StartError == "" || exit.ExitCode == 0) {
		s.Errorf("got %+v, want a start error", exit)
	}
	if took := time.Since(began); took > patience {
		s.Errorf("took %v to stop an attempt that never ran", took)
	}
}

func badEntrypointIsSeenLater(s harness) {
	spec := s.spec()
	spec.Entrypoint = []string{container.Dir + "/no-such-program"}
	for range 2 {
		s.ensure(spec)
		s.awaitState(spec.AttemptID, container.StateExited)
	}
	exit := s.stop(s.Runtime, spec.AttemptID, time.Minute)
	if !exit.Known || exit.ExitCode == 0 || exit.Killed || !strings.Contains(exit.StartError, "no-such-program") {
		s.Errorf("got %+v, want a start error", exit)
	}
}

func stopObeyed(s harness) {
	spec := s.spec("obey")
	s.ensure(spec)
	s.awaitReady(spec)
	began := time.Now()
	exit := s.stop(s.Runtime, spec.AttemptID, 2*patience)
	if !exit.Known || exit.ExitCode != 0 || exit.Signal != "" || !exit.Killed {
		s.Errorf("got %+v, want exit 0 after our SIGTERM", exit)
	}
	if took := time.Since(began); took > patience {
		s.Errorf("took %v of a grace period of %v", took, 2*patience)
	}
	if !strings.HasSuffix(string(exit.Stdout), "bye\n") {
		s.Errorf("stdout = %q, want it to include the last line", exit.Stdout)
	}
}

func stopIgnored(s harness) {
	spec := s.spec("ignore")
	s.ensure(spec)
	s.awaitReady(spec)
	exit := s.stop(s.Runtime, spec.AttemptID, 3*time.Second) // time to record the signal
	if !exit.Known || exit.Signal != "SIGKILL" || !exit.Killed || exit.OOM {
		s.Errorf("got %+v, want our SIGKILL", exit)
	}
	if string(exit.Stdout) != "ready\nno\n" {
		s.Errorf("stdout = %q, want the SIGTERM first", exit.Stdout)
	}
}

func stopAtOnce(s harness) {
	spec := s.spec("ignore")
	s.ensure(spec)
	s.awaitReady(spec)
	exit := s.stop(s.Runtime, spec.AttemptID, 0)
	if exit.Signal != "SIGKILL" || !exit.Killed || string(exit.Stdout) != "ready\n" {
		s.Errorf("got %+v, want SIGKILL without SIGTERM", exit)
	}
}

func stopSoon(s harness) {
	spec := s.spec("ignore")
	s.ensure(spec)
	s.awaitReady(spec)
	began := time.Now()
	exit := s.stop(s.Runtime, spec.AttemptID, 0)
	if !exit.Known || exit.Signal != "SIGKILL" || !exit.Killed || !strings.HasPrefix(string(exit.Stdout), "ready\n") {
		s.Errorf("got %+v, want SIGKILL", exit)
	}
	if took := time.Since(began); took > patience/2 {
		s.Errorf("took %v", took)
	}
}

func stopAbsent(s harness) {
	spec := s.spec("exit", "0")
	if exit := s.stop(s.Runtime, spec.AttemptID, time.Minute); exit.Known {
		s.Errorf("never existed, but got %+v", exit)
	}
	s.runSpec(spec)
	if exit := s.stop(s.Runtime, spec.AttemptID, time.Minute); exit.Known {
		s.Errorf("already stopped, but got %+v", exit)
	}
}

// If a Stop times out, a second Stop must return the complete Exit.
func stopCancelledIsResumed(s harness) {
	spec := s.spec("ignore")
	s.ensure(spec)
	s.awaitReady(spec)
	ctx, cancel := context.WithTimeout(s.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Stop(ctx, spec.AttemptID, patience, nil); !container.Transient(err) {
		s.Errorf("got %v, want a transient error", err)
	}
	exit := s.stop(s.Runtime, spec.AttemptID, 0)
	if !exit.Killed || exit.Signal != "SIGKILL" || !strings.HasPrefix(string(exit.Stdout), "ready\n") {
		s.Errorf("got %+v, want the complete tail", exit)
	}
}
