package director

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"retake/internal/bus"
	"retake/internal/director/loop"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// at runs a function when the director logs a given message, on the goroutine that logs it.
func (s *harness) at(message string, do func()) {
	s.log = s.log.WithOptions(zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == message {
			do()
		}
		return nil
	}))
}

// interruptedRebuild starts a rebuild and ends it when the old journal is removed and before the new one is written.
func (s *harness) interruptedRebuild() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	log := s.log
	s.at("set the old journal aside", cancel)
	if _, _, err := Rebuild(ctx, s.options()); !errors.Is(err, context.Canceled) {
		s.t.Fatalf("the rebuild was not interrupted: %v", err)
	}
	s.log = log
}

// waits plays an agent. Its first attempt fails and is retried much later.
func waits(ctx context.Context, a *fakeWorker) int {
	if a.plan.Attempt == 1 {
		return a.failsWith(ctx, "network_transient", "connection reset by peer")
	}
	return a.work(ctx)
}

// putOff makes an issue wait for a long time. Only the journal records the end of the wait.
func (s *harness) putOff(title string) (key string, until time.Time) {
	s.t.Helper()
	// the actual delay is a random part of these
	s.config.Retry.BackoffInitial, s.config.Retry.BackoffMax = 1000*time.Hour, 2000*time.Hour
	key = s.github.CreateIssue(repo, "octocat", title, "", "agent-task")
	s.start()
	s.until("it waits", func() bool {
		return s.inState(key, fsm.Backoff.String())() &&
			s.labelled(key, "agent-claimed")()
	})
	until = s.nextDeadline(key)
	s.stop()
	return key, until
}

func (s *harness) nextDeadline(key string) time.Time {
	s.t.Helper()
	now, err := operator.AskSnapshot(s.t.Context(), s.config.Director.DataDir)
	must(s.t, err)
	for _, task := range now.Tasks {
		if task.Issue == key && task.NextDeadline != nil {
			return task.NextDeadline.Time
		}
	}
	return time.Time{}
}

// A rebuild that continues, after a start or by command, uses the facts that were known at its beginning.
func TestAnInterruptedRebuildKnowsWhatItKnew(t *testing.T) {
	t.Parallel()
	s := newHarness(t, waits)
	key, until := s.putOff("Wait for the network")
	s.interruptedRebuild()
	tasks, _, err := Rebuild(t.Context(), s.options())
	if err != nil || len(tasks) != 1 || tasks[0].Was != "Backoff" || tasks[0].Row != "known" {
		t.Fatalf("the command continues with: %+v, %v", tasks, err)
	}
	s.interruptedRebuild()
	s.start()
	s.until("it waits", s.inState(key, fsm.Backoff.String()))
	if now := s.nextDeadline(key); !now.Equal(until) {
		t.Errorf("the issue waits until %s, and waited until %s before", now, until)
	}
}

// Another leading director sees an unfinished rebuild, and finishes it with the facts known at its beginning.
func TestASuccessorFinishesARebuild(t *testing.T) {
	t.Parallel()
	first, second := newPair(t, waits)
	key, until := first.putOff("Wait for the network")
	second.config.Retry = first.config.Retry
	first.interruptedRebuild()
	second.start()
	second.until("it waits", second.inState(key, fsm.Backoff.String()))
	if now := second.nextDeadline(key); !now.Equal(until) {
		t.Errorf("the issue waits until %s, and waited until %s before", now, until)
	}
	if !second.logged("rebuilt the journal")() {
		t.Error("the journal was not rebuilt")
	}
	second.stop()
	first.start() // the rebuild is finished
	first.until("it leads", func() bool { return strings.HasPrefix(first.health(), "healthy: ") })
	first.until("it waits", first.inState(key, fsm.Backoff.String()))
	if first.logged("rebuilt the journal")() {
		t.Error("the journal was rebuilt again")
	}
}

// A director that was paused for longer than its lease may write the note of its rebuild after another director has
// completed a rebuild. The note does not apply to the new journal.
func TestALateNoteIsOfTheJournalBefore(t *testing.T) {
	t.Parallel()
	s := newHarness(t, waits)
	key, until := s.putOff("Wait for the network")
	path := filepath.Join(s.config.Director.DataDir, "rebuilding")
	var line, state []byte
	log := s.log
	s.at("set the old journal aside", func() {
		data, err := os.ReadFile(path)
		must(t, err)
		line, state, _ = bytes.Cut(data, []byte("\n"))
	})
	_, _, err := Rebuild(t.Context(), s.options())
	must(t, err)
	s.log = log
	rebuilt := s.logs.FilterMessage("rebuilt the journal").Len()

	var late map[string]string
	must(t, json.Unmarshal(line, &late))
	late["id"] = loop.NewNonce() // the id of the other director's rebuild
	line, err = json.Marshal(late)
	must(t, err)
	must(t, os.WriteFile(path, slices.Concat(line, []byte("\n"), state), 0o600))
	s.start()
	s.until("it waits", s.inState(key, fsm.Backoff.String()))
	if now := s.nextDeadline(key); !now.Equal(until) ||
		s.logs.FilterMessage("rebuilt the journal").Len() != rebuilt {
		t.Errorf("the journal was rebuilt again, or the issue waits until %s and waited until %s before", now, until)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the note still exists: %v", err)
	}
}

// firstPart replaces the journal with the first part of a rebuilt one.
func (s *harness) firstPart() {
	s.t.Helper()
	must(s.t, offline.With(s.t.Context(), s.config, false, func(_ context.Context, b *bus.Bus) error {
		if err := b.Journal().Replace(s.t.Context(), filepath.Join(s.t.TempDir(), "aside.jsonl.zst")); err != nil {
			return err
		}
		d := fsm.NewDriver(fsm.New(fsm.Config{}), 0, "a test")
		events := fsm.Rebuild("a test", nil, []fsm.FoundTask{{}}, []fsm.RepoCursor{{Repo: "x", Cursor: "y"}}, "a test")
		if err := d.Offer(fsm.Event{At: time.Now(), Body: events[0]}, 0); err != nil || len(events) != 2 {
			return fmt.Errorf("%d parts, %w", len(events), err)
		}
		batch := d.Ready().Batch
		_, err := b.Journal().Append(s.t.Context(), batch.ID, 0, batch.Data)
		return err
	}))
}

// A journal with only the first part of a rebuild does not count as a journal.
func TestAPartOfARebuildIsNoJournal(t *testing.T) {
	t.Parallel()
	s := newHarness(t, waits)
	key, _ := s.putOff("Wait for the network")
	s.firstPart()
	s.start()
	s.until("it is found", s.inState(key, fsm.Backoff.String()))
	if !s.logged("rebuilt the journal")() {
		t.Error("the director continues with half a journal")
	}
}

// The commands that replace a journal hold the lease during that time. While a director leads they only report its
// name.
func TestTheCommandsLead(t *testing.T) {
	t.Parallel()
	first, second := newPair(t, asks)
	asked := first.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	first.start()
	first.until("it asks", func() bool {
		return first.inState(asked, fsm.Blocked.String())() && first.labelled(asked, "agent-blocked")()
	})
	export := filepath.Join(t.TempDir(), "export.jsonl.zst")
	_, err := offline.Export(t.Context(), first.config, export)
	must(t, err)
	_, _, rebuilt := Rebuild(t.Context(), second.options())
	_, imported := offline.Import(t.Context(), second.config, export, filepath.Join(t.TempDir(), "aside.jsonl.zst"))
	for name, err := range map[string]error{"rebuild": rebuilt, "import": imported} {
		if err == nil {
			t.Fatalf("%s replaces the journal of a director that leads", name)
		}
		for _, want := range []string{"made no changes: run_", first.config.Director.DataDir +
			" leads this fleet: stop"} {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s says %v; want one line with %q", name, err, want)
			}
		}
	}
	first.stop()

	second.at("set the old journal aside", func() {
		first.start()
		first.until("another one leads", first.logged("another director leads, so this one stands by"))
	})
	if tasks, _, err := Rebuild(t.Context(), second.options()); err != nil || len(tasks) != 1 {
		t.Fatal(tasks, err)
	}
	first.until("it continues with the rebuilt state", first.inState(asked, fsm.Blocked.String()))
	first.stop()
	if _, err := offline.Import(t.Context(), second.config, export,
		filepath.Join(t.TempDir(), "aside.jsonl.zst")); err != nil {
		t.Error(err)
	}
	first.start()
	first.until("it continues with the imported state", first.inState(asked, fsm.Blocked.String()))
}

// Restored data does not lead to a rebuild.
func TestAnImportEndsARebuild(t *testing.T) {
	t.Parallel()
	s := newHarness(t, waits)
	key, until := s.putOff("Wait for the network")
	export := filepath.Join(t.TempDir(), "export.jsonl.zst")
	_, err := offline.Export(t.Context(), s.config, export)
	must(t, err)
	s.interruptedRebuild()
	_, err = offline.Import(t.Context(), s.config, export, filepath.Join(t.TempDir(), "aside.jsonl.zst"))
	must(t, err)
	s.start()
	s.until("it waits", s.inState(key, fsm.Backoff.String()))
	if now := s.nextDeadline(key); !now.Equal(until) || s.logged("rebuilt the journal")() {
		t.Errorf("the issue waits until %s, and waited until %s before", now, until)
	}
}
