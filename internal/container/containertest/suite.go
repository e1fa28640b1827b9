package containertest

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/container"
	"retake/internal/testbed/program"
)

// Capabilities are a runtime's promises beyond running, stopping and listing.
type Capabilities struct {
	Adoption    bool // attempts outlive the Runtime; a new Runtime lists them, stops them and returns their output
	MemoryLimit bool // Spec.Memory is enforced and visible inside, and an out-of-memory kill is reported as OOM
	Pause       bool // Subject.Freeze works, and a paused attempt can be stopped
	Confinement bool // a separate user, no capabilities, no new privileges, a private executable /tmp
	Images      bool // the runtime uses Spec.Image, and refuses a missing image
	Streams     bool // stdout and stderr are separate; otherwise both are stdout
	Starts      bool // Ensure waits until the first process runs or fails; if false, List reports the failure later
	KillsAtOnce bool // a stop without grace does not send a SIGTERM
}

// Subject is a runtime under test, with operations that bypass it.
type Subject struct {
	Capabilities
	Open func(t testing.TB, fleet string) container.Runtime // opens another Runtime, which the caller closes
	// Spec returns a valid spec with a Checkout on this host, writable by Spec.User. The suite sets the rest.
	Spec   func(t testing.TB, fleet string) container.Spec
	Kill   func(t testing.TB, attemptID string)              // kills the first process without using the runtime
	Freeze func(t testing.TB, attemptID string)              // pauses the attempt without using the runtime
	Exists func(t testing.TB, attemptID string) (exist bool) // checks for the attempt without using the runtime
	Fleet  string                                            // name that is unique to this run

	// If set, Where returns the path of an attempt's checkout on this host. Otherwise the path is Spec.Checkout.
	Where func(t testing.TB, spec container.Spec) (workdir string)

	Parallel bool // several Runtimes may be open and start attempts at once, so the tests run in parallel
}

// patience is the maximum wait for an expected event. A busy machine with two cores can need tens of seconds.
const patience = 30 * time.Second

// harness is one test's runtime and fleet.
type harness struct {
	Subject
	container.Runtime
	testing.TB
}

// Run runs the suite. Each test creates separate attempts and removes them.
func Run(t *testing.T, s Subject) {
	for _, c := range []struct {
		name     string
		promised bool
		test     func(harness)
	}{
		{"StreamsAreKeptApart", s.Streams, streamsAreKeptApart},
		{"StreamsComeAsOne", !s.Streams, streamsComeAsOne},
		{"NewestIsKeptUnderAFlood", true, newestIsKeptUnderAFlood},
		{"OutputIsFollowedFromTheBeginning", true, outputIsFollowedFromTheBeginning},
		{"OutputOfAnEndedAttempt", true, outputOfAnEndedAttempt},
		{"ExitCodes", true, exitCodes},
		{"PlanIsReadAndRemoved", true, planIsReadAndRemoved},
		{"InputComesWholeAndEnds", true, inputComesWholeAndEnds},
		{"EnvironmentAndWorkdir", true, environmentAndWorkdir},
		{"WorkdirWithoutACheckout", true, workdirWithoutACheckout},
		{"EnsureTwiceIsOnce", true, ensureTwiceIsOnce},
		{"EnsureDoesNotRestart", true, ensureDoesNotRestart},
		{"EnsureAtOnce", true, ensureAtOnce},
		{"BadEntrypoint", s.Starts, badEntrypoint},
		{"BadEntrypointIsSeenLater", !s.Starts, badEntrypointIsSeenLater},
		{"StopObeyed", true, stopObeyed},
		{"StopIgnored", true, stopIgnored},
		{"StopAtOnce", s.KillsAtOnce, stopAtOnce},
		{"StopSoon", !s.KillsAtOnce, stopSoon},
		{"StopAbsent", true, stopAbsent},
		{"StopCancelledIsResumed", true, stopCancelledIsResumed},
		{"KilledFromOutside", true, killedFromOutside},
		{"NothingOutlivesAStop", true, nothingOutlivesAStop},
		{"NothingOutlivesItsWorker", true, nothingOutlivesItsWorker},
		{"NothingOutlivesAKilledWorker", true, nothingOutlivesAKilledWorker},
		{"ForeignFleetIsInvisible", true, foreignFleetIsInvisible},
		{"PausedIsStoppedQuickly", s.Pause, pausedIsStoppedQuickly},
		{"AdoptedTails", s.Adoption, adoptedTails},
		{"NeverAdoptedTails", s.Adoption, neverAdoptedTails},
		{"EndedBeforeAdoption", s.Adoption, endedBeforeAdoption},
		{"MemoryLimitIsVisible", s.MemoryLimit, memoryLimitIsVisible},
		{"OutOfMemory", s.MemoryLimit, outOfMemory},
		{"ChildOutOfMemory", s.MemoryLimit, childOutOfMemory},
		{"Confinement", s.Confinement, confinement},
		{"TmpExecutes", s.Confinement, tmpExecutes},
		{"ImageMissing", s.Images && s.Starts, imageMissing},
		{"ImageMissingIsSeenLater", s.Images && !s.Starts, imageMissingIsSeenLater},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.promised {
				t.Skip("the runtime does not guarantee this")
			}
			if s.Parallel {
				t.Parallel()
			}
			r := s.Open(t, s.Fleet)
			t.Cleanup(func() { r.Close() })
			c.test(harness{Subject: s, Runtime: r, TB: t})
		})
	}
}

// BuildProbe builds the suite's program and returns its path.
func BuildProbe(dir string) (string, error) {
	out := filepath.Join(dir, "probe")
	return out, program.Build(context.Background(), "", "retake/internal/container/containertest/probe", out)
}

// Name returns a name that is unique to this call.
func Name(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:8]) }

// spec returns a valid spec with a unique attempt id. The attempt is stopped at the end of the test.
func (s harness) spec(args ...string) container.Spec {
	s.Helper()
	spec := s.Spec(s, s.Fleet)
	spec.AttemptID = Name("attempt") + "-1"
	spec.Entrypoint = append([]string{container.WorkerPath}, args...)
	s.Cleanup(func() {
		if !s.Exists(s, spec.AttemptID) {
			return
		}
		r := s.Open(s, s.Fleet)
		defer r.Close()
		if _, err := r.Stop(context.Background(), spec.AttemptID, 0, nil); err != nil {
			s.Errorf("clean up %s: %v", spec.AttemptID, err)
		}
	})
	return spec
}

func (s harness) ensure(spec container.Spec) {
	s.Helper()
	if err := s.Ensure(s.Context(), spec); err != nil {
		s.Fatalf("Ensure: %v", err)
	}
}

// stop ends an attempt and makes sure that it is gone.
func (s harness) stop(r container.Runtime, attemptID string, grace time.Duration) container.Exit {
	s.Helper()
	exit, err := r.Stop(s.Context(), attemptID, grace, nil)
	if err != nil {
		s.Fatalf("Stop: %v", err)
	}
	if s.Exists(s, attemptID) {
		s.Fatalf("Stop returned, but %s still exists", attemptID)
	}
	return exit
}

// run runs the probe until it exits.
func (s harness) run(args ...string) container.Exit {
	s.Helper()
	return s.runSpec(s.spec(args...))
}

func (s harness) runSpec(spec container.Spec) container.Exit {
	s.Helper()
	s.ensure(spec)
	s.awaitState(spec.AttemptID, container.StateExited)
	return s.stop(s.Runtime, spec.AttemptID, 0)
}

// status returns an attempt's entry in List, if any. It also checks that Find agrees with List.
func (s harness) status(attemptID string) (container.Status, bool) {
	s.Helper()
	list, err := s.List(s.Context())
	if err != nil {
		s.Fatalf("List: %v", err)
	}
	alone, found, err := s.Find(s.Context(), attemptID)
	if err != nil {
		s.Fatalf("Find: %v", err)
	}
	for _, status := range list {
		if status.AttemptID == attemptID {
			if !found || alone.Task != status.Task {
				s.Errorf("inspected: %v, %+v; listed: %+v", found, alone, status)
			}
			return status, true
		}
	}
	return container.Status{}, false
}

func (s harness) awaitState(attemptID string, want container.State) (last container.Status) {
	s.Helper()
	eventually(s, "state "+string(want), func() bool {
		last, _ = s.status(attemptID)
		return last.State == want
	})
	return last
}

// awaitReady waits until the probe is ready. Some runtimes show the output only after the attempt has ended, so the
// probe also writes a file to its checkout.
func (s harness) awaitReady(spec container.Spec) {
	s.Helper()
	eventually(s, "the program is ready", func() bool {
		_, err := os.Stat(filepath.Join(s.workdir(spec), "ready"))
		return err == nil
	})
}

func (s harness) workdir(spec container.Spec) string {
	if s.Where == nil {
		return spec.Checkout
	}
	return s.Where(s, spec)
}

// eventually polls until a condition that depends on another process is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
