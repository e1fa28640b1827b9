package director

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/bus/wire"
	"retake/internal/director/loop/looptest"
	"retake/internal/director/offline"
	"retake/internal/fsm"
)

// recordJournal is the name of an environment variable. Its value is the name under which TestAnExportIsTheSameState
// adds its export to the recorded journals.
const recordJournal = "RETAKE_RECORD_JOURNAL"

// stateOf returns the hash of a machine's state.
func stateOf(t *testing.T, m *fsm.Machine) string {
	t.Helper()
	data, err := m.Snapshot()
	must(t, err)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// TestRecordedJournalsForEver reads exports that released versions wrote. The chain must hold, each record must be
// known, and the records must lead to the state that the version itself had. The files record the past, so never
// rewrite them.
func TestRecordedJournalsForEver(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/journals/*.jsonl.zst")
	if err != nil || len(files) == 0 {
		t.Fatal("no journals", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := fsm.New(looptest.Config())
			states, kinds := 0, map[string]bool{}
			_, err := chain.Read(file, func(r chain.Record) error {
				records, err := fsm.ReadBatch(r.Data)
				for _, one := range records {
					for _, f := range one.Facts {
						kinds[fmt.Sprintf("%T", f)] = true
					}
				}
				m.Replay(records)
				return err
			}, func(s chain.State) error {
				states++
				had := fsm.New(looptest.Config())
				if err := had.Restore(s.Data); err != nil {
					return err
				}
				if is, was := stateOf(t, m), stateOf(t, had); is != was {
					t.Errorf("at %v the records lead to the state %s, but it was %s", s.Head, is, was)
				}
				return nil
			})
			if err != nil || states != 1 {
				t.Errorf("%d states, %v", states, err)
			}
			t.Logf("state %s, %d tasks, %d kinds of facts", stateOf(t, m), len(m.Tasks()), len(kinds))
		})
	}
}

// A journal that was exported and imported elsewhere leads to the same state, with the same head.
func TestAnExportIsTheSameState(t *testing.T) {
	t.Parallel()
	s := exportedRun(t)
	file := filepath.Join(t.TempDir(), "export.jsonl.zst")
	end, err := offline.Export(t.Context(), s.config, file)
	must(t, err)
	elsewhere := s.config
	elsewhere.Director.DataDir = t.TempDir()
	got, err := offline.Import(t.Context(), elsewhere, file, "")
	if err != nil || got != end {
		t.Fatalf("brought back %+v of %+v: %v", got, end, err)
	}
	state, head := s.readState(s.config.Director.DataDir)
	if there, at := s.readState(elsewhere.Director.DataDir); there != state || at != head {
		t.Errorf("elsewhere the state is %s at %v, but it was %s at %v", there, at, state, head)
	}
	v, err := offline.Verify(t.Context(), elsewhere)
	if err != nil || len(v.Damages) > 0 || v.Head != end.Head {
		t.Errorf("%+v, %v", v, err)
	}
	aside := filepath.Join(t.TempDir(), "aside.jsonl.zst")
	if got, err := offline.Import(t.Context(), elsewhere, file, aside); err != nil || got != end {
		t.Errorf("again, in place of the first: %+v, %v", got, err)
	}
	if _, err := chain.Read(aside, nil, nil); err != nil {
		t.Errorf("the journal that was set aside: %v", err)
	}
	keepRecorded(t, file)
}

// exportedRun returns a stopped director after a delivery, a second worker, and a question.
func exportedRun(t *testing.T) *harness {
	t.Helper()
	killed := make(chan string, 4)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		switch {
		case a.plan.Issue.Number == 2 && a.plan.Attempt == 1:
			killed <- a.plan.WorkerID
			<-ctx.Done()
			return 1
		case a.plan.Issue.Number == 3:
			return a.fails(ctx, wire.WorkerError{
				Stage: wire.StageValidate, ErrorType: "tests_failed",
				Message: "Unit tests failed deterministically", EscalateToHuman: true,
			})
		default:
			return a.work(ctx)
		}
	})
	var keys []string
	for _, title := range []string{"Done at once", "Done by a second worker", "A person is asked"} {
		keys = append(keys, s.github.CreateIssue(repo, "octocat", title, "", "agent-task"))
	}
	s.start()
	worker := <-killed
	s.stop()
	s.start()
	s.until("adopted", func() bool { return s.logs.FilterMessage("adopted a running container").Len() > 0 })
	s.runtime.killFromOutside(worker)
	s.until("all decided", func() bool {
		return s.labelled(keys[0], "agent-review")() && s.labelled(keys[1], "agent-review")() &&
			slices.Contains(s.labels(keys[2]), "agent-blocked")
	})
	s.stop()
	return s
}

// readState returns the hash of the state in a data directory's journal, and the journal's head.
func (s *harness) readState(dataDir string) (state string, head bus.Head) {
	t := s.t
	t.Helper()
	c := s.config
	c.Director.DataDir = dataDir
	must(t, offline.With(t.Context(), c, false, func(_ context.Context, b *bus.Bus) error {
		m := fsm.New(looptest.Config())
		from, err := b.Journal().LoadSnapshot(t.Context(), m.Restore)
		if err != nil {
			return err
		}
		head, err = b.Journal().Replay(t.Context(), from, func(_ uint64, data []byte) error {
			records, err := fsm.ReadBatch(data)
			m.Replay(records)
			return err
		})
		state = stateOf(t, m)
		return err
	}))
	return state, head
}

// keepRecorded adds an export to the recorded journals if recordJournal names it.
func keepRecorded(t *testing.T, file string) {
	t.Helper()
	if name := os.Getenv(recordJournal); name != "" {
		data, err := os.ReadFile(file)
		must(t, err)
		kept := filepath.Join("testdata/journals", name+".jsonl.zst")
		if _, err := os.Stat(kept); err == nil {
			t.Fatalf("%s already exists: a record of the past is never rewritten", kept)
		}
		must(t, os.MkdirAll(filepath.Dir(kept), 0o755))
		must(t, os.WriteFile(kept, data, 0o644))
	}
}
