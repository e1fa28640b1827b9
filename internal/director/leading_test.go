package director

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/bustest"
	"retake/internal/container"
	"retake/internal/patience"
)

// newPair returns a leader and a standby. They share bus, GitHub, runtime and storage, and have separate data
// directories.
func newPair(t *testing.T, play func(ctx context.Context, a *fakeWorker) int) (first, second *harness) {
	first = newHarness(t, play)
	dir := filepath.Dir(first.config.Director.DataDir)
	server := bustest.New(t, dir)
	first.config.AgentBus.URL, first.config.AgentBus.Credentials = server.URL, server.Credentials()
	first.config.Director.SharedDir, first.config.Director.Lease = filepath.Join(dir, "shared"), 10*time.Second
	second = &harness{t: t, github: first.github, runtime: first.runtime, config: first.config, token: first.token}
	second.config.Director.DataDir = filepath.Join(dir, "data2")
	core, logs := observer.New(zap.InfoLevel)
	second.logs, second.log = logs, zap.New(core)
	t.Cleanup(first.stop) // before the server ends
	t.Cleanup(second.stop)
	return first, second
}

func (s *harness) logged(message string) func() bool {
	return func() bool { return s.logs.FilterMessage(message).Len() > 0 }
}

// TestTakeoverIsTriedAgain checks that a temporary failure during a takeover does not end the director. It reports
// the failure, and leads as soon as it can.
func TestTakeoverIsTriedAgain(t *testing.T) {
	t.Parallel()
	first, second := newPair(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	first.start()
	first.until("the first one leads", first.logged("director started"))
	second.start()
	second.until("the second one stands by", second.logged("another director leads, so this one stands by"))
	away := &container.Error{
		Kind: container.ErrDaemon, Transient: true, Doing: "list",
		Cause: errors.New("the engine is unreachable"),
	}
	second.runtime.fail(away)
	first.stop()
	second.until("its health names the cause", func() bool { return strings.Contains(second.health(), away.Error()) })
	second.runtime.fail(nil)
	second.until("healthy", func() bool { return strings.HasPrefix(second.health(), "healthy: ") })
	key := second.github.CreateIssue(repo, "octocat", "After the takeover", "", "agent-task")
	second.until("review", second.labelled(key, "agent-review"))
}

// TestACloneOfTheDataDirectoryStandsBy checks that a copied data directory keeps the name of the original but has a
// separate lock. Its director cannot know whether the other one has ended.
func TestACloneOfTheDataDirectoryStandsBy(t *testing.T) {
	t.Parallel()
	first, second := newPair(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	leads := first.logged("director started")
	first.start()
	first.until("the first one leads", leads)
	first.stop()
	if out, err := exec.Command("cp", "-a", first.config.Director.DataDir, second.config.Director.DataDir).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	first.start()
	first.until("it leads again", func() bool { return strings.HasPrefix(first.health(), "healthy: ") })
	second.start()
	second.until("the clone has looked", func() bool {
		return second.logged("another director leads, so this one stands by")() ||
			second.logged("this director leads")()
	})
	if second.logged("this director leads")() {
		t.Error("the clone has taken the lease of a leading director")
	}
}

// TestTakeoverThatCannotHealEnds checks that a takeover that cannot succeed ends, so that another director can try.
func TestTakeoverThatCannotHealEnds(t *testing.T) {
	t.Parallel()
	first, second := newPair(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	first.start()
	first.until("the first one leads", first.logged("director started"))
	second.start()
	second.until("the second one stands by", second.logged("another director leads, so this one stands by"))
	second.runtime.fail(&container.Error{Kind: container.ErrSpec, Doing: "list", Cause: errors.New("forbidden")})
	first.stop()
	select {
	case err := <-second.ended:
		if second.cancel = nil; !errors.Is(err, container.ErrSpec) {
			t.Errorf("the director ends with %v", err)
		}
	case <-time.After(patience.For(time.Minute)):
		t.Fatal("the director does not end")
	}
	second.runtime.fail(nil)
	first.start()
	began := time.Now()
	first.until("the first one leads again", func() bool { return strings.HasPrefix(first.health(), "healthy: ") })
	if took := time.Since(began); took > first.config.Director.Lease {
		t.Errorf("the lease was not given back: %s", took)
	}
}

// TestTakeoverFromWhoHasNoDisk checks that a leader without its data directory does no work. Another director takes
// over after a while, and the first stands by, unhealthy, until its disk is back.
func TestTakeoverFromWhoHasNoDisk(t *testing.T) {
	t.Parallel()
	first, second := newPair(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	for _, s := range []*harness{first, second} {
		s.config.Director.Lease, s.badDiskFor = 3*time.Second, time.Second
	}
	first.start()
	first.until("the first one leads", first.logged("director started"))
	second.start()
	second.until("the second one stands by", second.logged("another director leads, so this one stands by"))
	move := func(from, to string) {
		for _, file := range []string{"lock", "installation"} { // these two are enough to simulate a lost disk
			file = filepath.Join(first.config.Director.DataDir, file)
			must(t, os.Rename(file+from, file+to))
		}
	}
	move("", ".away")
	second.until("the second one leads", second.logged("director started"))
	first.until("the first one's health says why it stands by", func() bool {
		return strings.HasPrefix(first.health(), "unhealthy: director.data_dir is no longer the same directory") &&
			first.logged("another director leads, so this one stands by")()
	})
	second.stop()
	time.Sleep(time.Second)
	if n := first.logs.FilterMessage("this director leads").Len(); n != 1 {
		t.Error("the director leads without a disk")
	}
	move(".away", "")
	first.until("the first one leads again", func() bool { return strings.HasPrefix(first.health(), "healthy: ") })
}
