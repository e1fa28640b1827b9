package director

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"retake/internal/bus"
	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/patience"
)

// smallDisk puts the data directory on a separate, small file system.
func (s *harness) smallDisk(size string) (dir string) {
	s.t.Helper()
	dir = s.config.Director.DataDir
	must(s.t, os.MkdirAll(dir, 0o700))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		s.t.Skip("needs to mount a small file system, as root: ", err)
	}
	s.t.Cleanup(func() {
		s.stop()
		s.runtime.close()
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			s.t.Error(err)
		}
	})
	return dir
}

// fill repeatedly uses up the free space on the disk until the test asks to free it.
func (s *harness) fill(dir string) (free func()) {
	s.t.Helper()
	name := filepath.Join(dir, "ballast")
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
				for _, size := range []int{1 << 20, 4 << 10} {
					for block := make([]byte, size); err == nil; {
						_, err = f.Write(block)
					}
					err = nil
				}
				_ = f.Close()
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		<-done
		must(s.t, os.Remove(name))
	}
}

// health returns the director's report about itself.
func (s *harness) health() string {
	h, err := operator.AskHealth(s.t.Context(), s.config.Director.DataDir)
	if err != nil {
		return err.Error()
	}
	return h.String()
}

// TestFullDiskHeals checks that the director reports a full disk and stops starting new work. Once there is room it
// decides within seconds, without a restart.
func TestFullDiskHeals(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	dir := s.smallDisk("64m")
	s.start()
	s.until("healthy", func() bool { return strings.HasPrefix(s.health(), "healthy") })
	free := s.fill(dir)
	key := s.github.CreateIssue(repo, "octocat", "While it is full", "", "agent-task")
	s.until("the journal has failed", func() bool { return s.logs.FilterMessageSnippet("session ended").Len() > 0 })
	s.until("health says why", func() bool {
		h := s.health()
		return strings.HasPrefix(h, "unhealthy") &&
			strings.Contains(h, "disk")
	})
	free()
	began := time.Now()
	s.until("review", s.labelled(key, "agent-review"))
	s.until("healthy again", func() bool { return strings.HasPrefix(s.health(), "healthy") })
	t.Logf("delivered only %s after the disk had room again", time.Since(began).Round(10*time.Millisecond))
	if v := s.verdicts(key); len(v) > 0 || s.runtime.begun() != 1 {
		t.Errorf("verdicts %q, attempts %q; want no verdict and one attempt", v, s.runtime.attempts())
	}
}

// TestReserveCarriesTheJournal checks that a full disk makes the director release the reserve. Nothing fails, running
// work continues, and new work waits for room.
func TestReserveCarriesTheJournal(t *testing.T) {
	t.Parallel()
	full := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Number == 1 {
			<-full
			return a.fail(ctx)
		}
		return a.work(ctx)
	})
	dir := s.smallDisk("64m")
	first := s.github.CreateIssue(repo, "octocat", "It runs meanwhile", "", "agent-task")
	s.start()
	s.until("running", func() bool { return s.runtime.running(first) != "" })
	reserve := filepath.Join(dir, "reserve")
	s.until("a reserve", func() bool { _, err := os.Stat(reserve); return err == nil })
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	must(t, err)
	for block := make([]byte, 64<<10); err == nil; {
		_, err = ballast.Write(block)
	}
	must(t, ballast.Close())
	s.until("the reserve is given up", func() bool { _, err := os.Stat(reserve); return err != nil })
	s.until("health says why", func() bool { return strings.Contains(s.health(), "director.disk_watermark") })
	second := s.github.CreateIssue(repo, "octocat", "It waits", "", "agent-task")
	close(full)
	s.until("the first is blocked", s.labelled(first, "agent-blocked"))
	s.until("the second is known, and waits for the disk", func() bool {
		now, err := operator.AskSnapshot(t.Context(), dir)
		return err == nil && slices.ContainsFunc(now.Tasks, func(t wire.SnapshotTask) bool {
			return t.Issue == second &&
				strings.Contains(t.WaitsFor, "disk")
		})
	})
	if s.runtime.running(second) != "" || !s.labelled(second, "agent-task")() {
		t.Errorf("the second task started: %q", s.labels(second))
	}
	must(t, os.Remove(ballast.Name()))
	s.until("the second is delivered", s.labelled(second, "agent-review"))
	s.until("a reserve again", func() bool { _, err := os.Stat(reserve); return err == nil })
	if n := s.logs.FilterMessageSnippet("session ended").Len(); n > 0 {
		t.Errorf("%d sessions have ended", n)
	}
}

// fail reports a failure that leads to a question to a person.
func (a *fakeWorker) fail(ctx context.Context) int {
	err := a.client.Report(ctx, asserted(wire.WorkerError{
		ErrorID: a.plan.WorkerID + "/e", WorkerID: a.plan.WorkerID, AttemptID: a.plan.WorkerID,
		IssueNumber: a.plan.Issue.Number, Attempt: a.plan.Attempt,
		Stage: wire.StageCode, ErrorType: "needs_human", EscalateToHuman: true, Message: "which one?",
		Question: "Which one?",
	}))
	if err != nil {
		return 1
	}
	return 2
}

// TestJournalRemovedWhileLive checks that a director ends with a clear line when its journal is removed from the
// server, instead of retrying forever.
func TestJournalRemovedWhileLive(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	key := s.github.CreateIssue(repo, "octocat", "Before", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	dir := filepath.Join(s.config.Director.DataDir, "bus")
	director, err := keys.Load(filepath.Join(dir, "keys", keys.DirDirector))
	must(t, err)
	user, err := director.Journal()
	must(t, err)
	var person keys.Person
	data, err := os.ReadFile(filepath.Join(dir, "operator.json"))
	must(t, err)
	must(t, json.Unmarshal(data, &person))
	nc, err := nats.Connect(person.URL, nats.UserJWTAndSeed(user.JWT, user.Seed))
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, js.DeleteStream(t.Context(), "RETAKE_JOURNAL"))
	select {
	case err := <-s.ended:
		if !errors.Is(err, bus.ErrDamaged) || !strings.Contains(err.Error(), "director journal") {
			t.Errorf("it ends with %v; want the damaged store and the next step", err)
		}
		s.cancel = nil
	case <-time.After(patience.For(time.Minute)):
		t.Fatal("it does not end")
	}
	if s.logs.FilterMessage("reopened the bus").Len() == 0 {
		t.Error("the bus was not opened again before that")
	}
}
