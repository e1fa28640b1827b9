package director

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus"
	"retake/internal/bus/bustest"
	"retake/internal/bus/chain"
	"retake/internal/bus/keys"
	"retake/internal/config"
	"retake/internal/director/lead"
	"retake/internal/director/operator"
	"retake/internal/patience"
)

// loseJournal makes the server lose the journal's directory.
func loseJournal(t *testing.T, server *bustest.Server, dir string) {
	t.Helper()
	server.Stop()
	streams, err := filepath.Glob(filepath.Join(dir, "store/jetstream/*/streams/RETAKE_JOURNAL"))
	if err != nil || len(streams) != 1 {
		t.Fatal("no stream", streams, err)
	}
	must(t, os.RemoveAll(streams[0]))
	server.Start()
}

// playedLeader is another director as a standby sees it: it leads, and writes batches that decide nothing.
type playedLeader struct {
	*bus.Bus
	t     *testing.T
	lease *bus.Lease
	dir   string
}

func leadInstead(t *testing.T, c config.Config) *playedLeader {
	t.Helper()
	k, err := keys.Load(c.AgentBus.Credentials)
	must(t, err)
	p := &playedLeader{t: t, dir: t.TempDir()}
	p.Bus, err = bus.Open(t.Context(), bus.Options{
		URL: c.AgentBus.URL, Keys: k, Dir: p.dir,
		Mirror: filepath.Join(p.dir, lead.MirrorFile),
	})
	must(t, err)
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	p.lease, err = p.NewLease(t.Context(),
		bus.LeaseOptions{
			Me:     bus.Leader{ID: "played", RunID: "played", Host: "elsewhere", Dir: "elsewhere"},
			Period: c.Director.Lease,
		})
	must(t, err)
	must(t, p.lease.Await(t.Context(), func(bus.Leader) {}))
	t.Cleanup(func() { p.lease.Release(context.Background()) })
	return p
}

func (p *playedLeader) append(n int) {
	p.t.Helper()
	for range n {
		at := p.Journal().Head().Seq
		_, err := p.Journal().Append(p.t.Context(), fmt.Sprintf("played/%d", at+1), at, nil)
		must(p.t, err)
	}
}

// standBy starts the director, and waits until it has read another director's journal to the end.
func (s *harness) standBy(p *playedLeader) {
	s.t.Helper()
	s.start()
	s.until("it has read the leader's records", func() bool {
		mark, _, err := chain.ReadMirror(filepath.Join(s.config.Director.DataDir, lead.MirrorFile), "RETAKE_JOURNAL")
		return err == nil && mark.Head.Seq == p.Journal().Head().Seq
	})
}

// A director continues with a journal that another director has rebuilt.
func TestAStandbyGoesOnWithARebuiltJournal(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	server := bustest.New(t, t.TempDir())
	s.config.AgentBus.URL, s.config.AgentBus.Credentials = server.URL, server.Credentials()
	leader := leadInstead(t, s.config)
	leader.append(5)
	s.standBy(leader)
	must(t, leader.Journal().Replace(t.Context(), filepath.Join(t.TempDir(), "aside.jsonl.zst")))
	leader.append(2)
	s.until("the standby has read that", func() bool {
		mark, _, err := chain.ReadMirror(filepath.Join(s.config.Director.DataDir, lead.MirrorFile), "RETAKE_JOURNAL")
		return err == nil && mark.Head == leader.Journal().Head()
	})
	leader.lease.Release(t.Context())
	s.until("it leads", s.logged("director started"))
	s.stop()
}

// TestAStandbyRefusesAJournalThatWasCut loses the journal while a director stands by. Its health, its status and its
// log name the loss and the next step, before and after the leader has a new stream. It refuses to lead.
func TestAStandbyRefusesAJournalThatWasCut(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	dir := t.TempDir()
	server := bustest.New(t, dir)
	s.config.AgentBus.URL, s.config.AgentBus.Credentials = server.URL, server.Credentials()
	leader := leadInstead(t, s.config)
	leader.append(5)
	s.standBy(leader)

	loseJournal(t, server, dir)
	s.until("the standby misses the journal", func() bool {
		return strings.Contains(s.health(), "the bus has lost the journal") && s.advisesStandby()
	})
	s.until("the leader has a journal again", func() bool { return leader.Ensure(t.Context()) == nil })
	s.until("the standby sees that it is another one", func() bool {
		return slices.ContainsFunc(s.logs.FilterMessage("journal lost or damaged; this standby cannot lead").All(),
			func(e observer.LoggedEntry) bool {
				return strings.Contains(fmt.Sprint(e.ContextMap()["error"]), "(cut) at batch")
			})
	})
	if h := s.health(); !strings.HasPrefix(h, "unhealthy: ") || !strings.Contains(h, "(cut) at batch") ||
		!s.advisesStandby() {
		t.Errorf("a standby that cannot follow reports: %s", h)
	}
	if now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir); err != nil ||
		!strings.Contains(now.Director.Problem, "(cut) at batch") {
		t.Errorf("its snapshot says %q, %v", now.Director.Problem, err)
	}
	leader.lease.Release(t.Context())
	s.cancel = nil
	select {
	case err := <-s.ended:
		if !errors.Is(err, bus.ErrDamaged) {
			t.Errorf("the standby ended with: %v", err)
		}
	case <-time.After(patience.For(time.Minute)):
		t.Fatal("the standby continues with the cut journal")
	}
}

// advisesStandby reports whether health, status and the newest error in the log contain the same next step.
func (s *harness) advisesStandby() bool {
	const next = "stop every director of this fleet"
	now, err := operator.AskSnapshot(s.t.Context(), s.config.Director.DataDir)
	logged := s.logs.FilterLevelExact(zap.ErrorLevel).All()
	return err == nil && len(logged) > 0 && strings.Contains(s.health(), next) &&
		strings.Contains(now.Director.Problem, next) &&
		strings.Contains(fmt.Sprint(logged[len(logged)-1].ContextMap()["error"]), next)
}
