package director

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/bus"
	"retake/internal/director/lead"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// longJournal creates a journal of batches without decisions and with two snapshots. Everything older than the first
// snapshot can be archived.
func (s *harness) longJournal(batches int) {
	s.t.Helper()
	state, err := fsm.New(fsm.Config{}).Snapshot()
	must(s.t, err)
	must(s.t, offline.With(s.t.Context(), s.config, false, func(_ context.Context, b *bus.Bus) error {
		j := b.Journal()
		for n := range uint64(batches) {
			if _, err := j.Append(s.t.Context(), fmt.Sprintf("long/%d", n+1), n, nil); err != nil {
				return err
			}
			if left := uint64(batches) - n - 1; left == 0 || left == 10 {
				if err := j.SaveSnapshot(s.t.Context(), j.Head(), state); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

func (s *harness) segments() []string {
	s.t.Helper()
	all, err := filepath.Glob(filepath.Join(s.config.Director.DataDir, lead.ArchiveDir, "*.jsonl.zst"))
	must(s.t, err)
	return all
}

// Log, health and status report an archive that cannot be written. The director retries, and recovers without a
// restart.
func TestTheArchiveIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.longJournal(1100)
	inTheWay := filepath.Join(s.config.Director.DataDir, lead.ArchiveDir)
	must(t, os.WriteFile(inTheWay, nil, 0o600))
	s.start()
	s.until("the log says it", func() bool {
		return s.logs.FilterMessage("could not shorten live journal; retrying").Len() > 0
	})
	problem := "the live journal cannot be shortened: journal: archive: "
	if h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir); err != nil || !h.OK ||
		!strings.HasPrefix(h.Problem, problem) {
		t.Errorf("health: %+v, %v", h, err)
	}
	if now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir); err != nil ||
		!strings.HasPrefix(now.Director.Problem, problem) {
		t.Errorf("status: %+v, %v", now.Director, err)
	}
	must(t, os.Remove(inTheWay))
	s.until("it is archived", func() bool { return len(s.segments()) == 1 })
	s.until("health says so", func() bool {
		h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir)
		return err == nil && h.OK && h.Problem == ""
	})
}

// A director that starts with a full journal makes room first. Afterwards it makes room in time, without waiting for
// a thousand batches.
func TestAFullJournalIsGoneOnWith(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.journalBytes = 256 << 10
	s.config.Director.Interval = 20 * time.Millisecond // fills the journal in seconds instead of days
	s.longJournal(2000)
	s.start()
	s.until("it leads", func() bool { return strings.HasPrefix(s.health(), "healthy") })
	if len(s.segments()) != 1 {
		t.Fatalf("archived: %q", s.segments())
	}
	for n := 0; len(s.segments()) == 1; n++ {
		_, err := operator.SendCommand(t.Context(), s.config.Director.DataDir,
			[]fsm.OperatorCommand{fsm.Pause, fsm.Resume}[n%2])
		must(t, err)
	}
	if problems := s.logs.FilterMessage("session ended; reading the journal again").Len(); problems > 0 {
		t.Errorf("%d sessions have ended", problems)
	}
}

// An unreadable snapshot keeps the live journal whole. The director reports it and saves a new snapshot, even without
// new decisions.
func TestAnUnreadableSnapshotIsReplaced(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.longJournal(1100)
	store, err := filepath.Glob(filepath.Join(s.config.Director.DataDir,
		"bus/jetstream/*/*/streams/OBJ_RETAKE_SNAPSHOTS"))
	if err != nil || len(store) != 1 {
		t.Fatal("no snapshots", store, err)
	}
	block(func(data []byte) []byte { data[bytes.LastIndex(data, []byte("retake_snapshot"))] ^= 0x10; return data })(t,
		store[0])
	s.start()
	s.until("the log says it", func() bool {
		said := s.logs.FilterMessage("could not shorten live journal; retrying").All()
		return len(said) > 0 && strings.Contains(fmt.Sprint(said[0].ContextMap()["error"]), "snapshot 1100")
	})
	s.until("it is archived", func() bool { return len(s.segments()) == 1 })
	s.until("health says so", func() bool {
		h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir)
		return err == nil && h.OK && h.Problem == ""
	})
}
