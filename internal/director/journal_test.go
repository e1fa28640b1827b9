package director

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/bus"
	"retake/internal/director/lead"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
)

// A director does not start from a damaged journal. It reports the position of the damage and gives advice, and
// leaves the journal unchanged.
func TestADirectorStopsAtADamagedJournal(t *testing.T) {
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.start()
	s.until("started", func() bool { return s.logs.FilterMessage("director started").Len() == 1 })
	s.stop()
	data := s.config.Director.DataDir
	before, err := os.ReadFile(filepath.Join(data, lead.MirrorFile))
	must(t, err)
	must(t, os.RemoveAll(filepath.Join(data, "bus/jetstream")))
	s.start()
	s.cancel = nil
	err = <-s.ended
	if !errors.Is(err, bus.ErrDamaged) || !strings.Contains(err.Error(), "(cut) at batch 1") ||
		!strings.Contains(err.Error(), "director journal verify") {
		t.Errorf("the director ended with: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(data, lead.MirrorFile)); err != nil || string(after) != string(before) {
		t.Errorf("the director forgot how far the journal went: %q, %v", after, err)
	}
}

// A director starts despite damage before the snapshot, because the state does not depend on it. It soon finds and
// reports the damage.
func TestDamageBeforeTheSnapshotIsSaid(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.longJournal(60)
	whole := func() bool {
		return s.logs.FilterMessage("verified the part of the journal before its snapshot").Len() == 1
	}
	s.start()
	s.until("a journal that is whole is read", whole)
	s.stop()
	streams, err := filepath.Glob(filepath.Join(s.config.Director.DataDir, "bus/jetstream/*/*/streams/RETAKE_JOURNAL"))
	if err != nil || len(streams) != 1 {
		t.Fatal("no stream", streams, err)
	}
	block(func(data []byte) []byte { data[bytes.Index(data, []byte("long/7"))] ^= 0x10; return data })(t, streams[0])
	s.start()
	s.until("the log says it",
		func() bool {
			return s.logs.FilterMessage("journal is damaged in the part before its snapshot").Len() == 1
		})
	problem := "the journal is damaged (gap) at batch 7"
	if h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir); err != nil || !h.OK ||
		!strings.Contains(h.Problem, problem) {
		t.Errorf("health: %+v, %v", h, err)
	}
	if now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir); err != nil ||
		!strings.Contains(now.Director.Problem, problem) {
		t.Errorf("status: %+v, %v", now.Director, err)
	}
	if !whole() {
		t.Error("the journal is also reported as intact")
	}
	s.stop()
}

// filesOf returns all files of a directory, with their content and modification times.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all[path] = fmt.Sprint(info.Mode(), info.ModTime())
		if !e.IsDir() {
			data, err := os.ReadFile(path)
			all[path] += fmt.Sprintf(" %x", sha256.Sum256(data))
			return err
		}
		return nil
	}))
	return all
}

// The read-only commands write nothing, not even to a copy of a data directory without a lock.
func TestReadingAJournalWritesNothing(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	s.longJournal(60)
	dir := s.config.Director.DataDir
	must(t, os.Remove(filepath.Join(dir, lead.LockFile)))
	before := filesOf(t, dir)
	if v, err := offline.Verify(t.Context(), s.config); err != nil || v.Batches != 60 || len(v.Damages) > 0 ||
		len(v.Snapshots) != 2 || v.Mirror == nil || v.Mirror.Seq != 60 {
		t.Errorf("%+v, %v", v, err)
	}
	if end, err := offline.Export(t.Context(), s.config, filepath.Join(t.TempDir(), "x")); err != nil ||
		end.Batches != 60 {
		t.Errorf("%+v, %v", end, err)
	}
	after := filesOf(t, dir)
	for path, was := range before {
		if after[path] != was {
			t.Errorf("%s was changed: it is %s, and was %s", path, after[path], was)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files now, and %d before", len(after), len(before))
	}
}
