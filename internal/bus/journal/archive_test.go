package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
)

// long appends batches that resemble real batches.
func (k *director) long(n int) {
	k.t.Helper()
	for range n {
		at := k.Head().Seq
		data := fmt.Appendf(nil,
			`{"at":"2026-11-%02dT10:%02d:00Z","cause":{"kind":"worker_seen","worker":"w%08x-1"},"facts":[`, at%28+1,
			at%60, at*2654435761)
		for f := range 12 {
			data = fmt.Appendf(data,
				`{"kind":"moved","task":"acme/widgets#%d","from":"running","to":"validating","on":"stage","seq":%d,`+
					`"note":"%08x"},`, at%97, at+uint64(f), (at+uint64(f))*40503)
		}
		data = append(data, `{"kind":"tick"}]}`...)
		if _, err := k.Append(k.t.Context(), fmt.Sprintf("w/%d", at+1), at, data); err != nil {
			k.t.Fatal(err)
		}
	}
}

// save saves a snapshot and retires batches, like the director's housekeeping.
func (k *director) save() {
	k.t.Helper()
	ctx := ctxFor(k.t)
	mustDo(k.t, k.SaveSnapshot(ctx, k.Head(), fmt.Appendf(nil, "state at %d", k.Head().Seq)))
	mustDo(k.t, k.Retire(ctx, k.now))
	for _, s := range k.segments() {
		if !k.stamped[s.Path] {
			k.stamped[s.Path] = true
			mustDo(k.t, os.Chtimes(s.Path, k.now, k.now))
		}
	}
}

func (k *director) segments() []chain.Segment {
	k.t.Helper()
	all, err := chain.Segments(k.o.Archive.Dir)
	mustDo(k.t, err)
	return all
}

func (k *director) state() jetstream.StreamState {
	k.t.Helper()
	info, err := k.live.stream.Info(ctxFor(k.t))
	mustDo(k.t, err)
	return info.State
}

// all reads everything after a head and checks that no batch is missing.
func (k *director) all(after chain.Head) (n uint64, head chain.Head) {
	k.t.Helper()
	next := after.Seq
	head, err := k.Records(ctxFor(k.t), after, func(r chain.Record) error {
		if next++; r.Seq != next || r.ID != fmt.Sprintf("w/%d", next) {
			return fmt.Errorf("got %d %s, want %d", r.Seq, r.ID, next)
		}
		n++
		return nil
	})
	mustDo(k.t, err)
	return n, head
}

func diskOf(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	mustDo(t, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	}))
	return bytes
}

// Over a year, snapshots keep the live part of a journal small, and expiry keeps the archive small.
func TestAYearOfJournal(t *testing.T) {
	t.Parallel()
	if raced {
		t.Skip("takes minutes with the race detector; shorter tests run the same code with it")
	}
	const days, batchesPerDay = 365, 10
	dir := t.TempDir()
	srv, err := start(filepath.Join(dir, "bus"))
	mustDo(t, err)
	defer func() { mustDo(t, srv.stop()) }()
	o := options(t, srv.js).in(dir)
	o.Archive.Keep = 90 * 24 * time.Hour
	k := openAs(t, o)
	t.Log("day   live batches   live KiB   segments   archive KiB   disk KiB")
	var liveMost uint64
	archive := map[int]int64{}
	disk := map[int]int64{}
	for day := 1; day <= days; day++ {
		k.now = k.now.Add(24 * time.Hour)
		k.long(batchesPerDay)
		k.save()
		state := k.state()
		liveMost = max(liveMost, state.Msgs)
		if day%30 == 0 || day == days {
			for _, s := range k.segments() {
				archive[day] += s.Bytes
			}
			disk[day] = diskOf(t, dir)
			t.Logf("%3d %14d %10d %10d %13d %10d", day, state.Msgs, state.Bytes>>10, len(k.segments()),
				archive[day]>>10, disk[day]>>10)
		}
	}
	if liveMost > 2*batchesPerDay { // more than the batches of two days
		t.Errorf("the live journal has had %d batches", liveMost)
	}
	if archive[360] > archive[120]*5/4 {
		t.Errorf("the archive keeps growing: %d bytes after 120 days, %d after 360", archive[120], archive[360])
	}
	early, late := int64(0), int64(0) // the server compacts its files from time to time
	for day, bytes := range disk {
		if day <= 180 {
			early = max(early, bytes)
		} else {
			late = max(late, bytes)
		}
	}
	if late > 2*early {
		t.Errorf("the disk keeps growing: at most %d bytes in the first half of the year, %d in the second", early,
			late)
	}
	first := k.segments()[0].First
	if n, head := k.all(chain.Head{Seq: first - 1}); head != k.Head() || n < 90*batchesPerDay {
		t.Errorf("%d batches can be read, to %v", n, head)
	}
	if v, err := k.Verify(ctxFor(t)); err != nil || len(v.Damages) > 0 || v.Head != k.Head() {
		t.Errorf("%+v, %v", v, err)
	}
}

// Archived batches are read like live batches. An interruption between archiving and purging is harmless.
func TestRetiredBatchesAreRead(t *testing.T) {
	t.Parallel()
	k := begun(t)
	k.long(1200)
	k.save()
	if len(k.segments()) != 0 {
		t.Fatal("archived batches that only one snapshot covers")
	}
	k.long(10)
	at := k.Head()
	mustDo(t, os.MkdirAll(k.o.Archive.Dir, 0o700))
	mustDo(t, k.archiver.segment(ctxFor(t), k.o.Archive.Dir, chain.Head{}, headAt(t, k, 700))) // an interrupted Retire
	k.save()
	if s := k.state(); s.FirstSeq != 1201 {
		t.Errorf("the live journal begins at %d", s.FirstSeq)
	}
	if got := k.segments(); len(got) != 2 || got[0].Last != 700 || got[1].First != 701 || got[1].Last != 1200 {
		t.Errorf("segments: %+v", got)
	}
	if n, head := k.all(chain.Head{}); n != 1210 || head != at {
		t.Errorf("%d batches to %v, want 1210 to %v", n, head, at)
	}
	k.reopen()
	from, state, err := k.lastState()
	if err != nil || from != at || state != "state at 1210" {
		t.Errorf("%v %q %v", from, state, err)
	}
	if head, err := k.Replay(ctxFor(t), chain.Head{}, func(uint64, []byte) error { return nil }); err != nil ||
		head != at {
		t.Errorf("without a snapshot: %v, %v", head, err)
	}
	k.long(5)
}

// headAt returns the journal's head at a sequence.
func headAt(t *testing.T, k *director, seq uint64) (at chain.Head) {
	t.Helper()
	enough := errors.New("enough")
	c := chain.Follow(chain.Head{})
	_, err := k.Records(ctxFor(t), chain.Head{}, func(r chain.Record) error {
		if r.Seq > seq {
			return enough
		}
		return c.Add(r)
	})
	if err != nil && !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return c.Head()
}

func TestDamagedSegmentsAreNamed(t *testing.T) {
	t.Parallel()
	k := begun(t)
	for range 4 {
		k.long(1000)
		k.save()
	}
	segments := k.segments()
	if len(segments) != 3 {
		t.Fatalf("%d segments", len(segments))
	}
	data, err := os.ReadFile(segments[1].Path)
	mustDo(t, err)
	middle, file := len(data)/2, filepath.Base(segments[1].Path)
	for name, c := range map[string]struct {
		harm    func()
		damaged bool
		where   string // the segment in the error, or empty if it is missing
	}{
		"none": {harm: func() {}},
		"cut":  {func() { overwrite(t, segments[1].Path, data[:middle]) }, true, file},
		"flipped": {func() {
			harmed := slices.Clone(data)
			harmed[middle] ^= 1
			overwrite(t, segments[1].Path, harmed)
		}, true, file},
		"gone": {func() { mustDo(t, os.Remove(segments[1].Path)) }, true, ""},
	} {
		c.harm()
		v, err := k.Verify(ctxFor(t))
		if err != nil || v.Head != k.Head() || (len(v.Damages) == 1) != c.damaged {
			t.Fatalf("%s: %+v, %v", name, v, err)
		}
		if c.where != "" && v.Damages[0].Where != c.where {
			t.Errorf("%s: %v", name, v.Damages[0])
		}
		if name == "gone" && (v.Damages[0].Kind != chain.Gap || v.Damages[0].Seq != 1001) {
			t.Errorf("%s: %v", name, v.Damages[0])
		}
		if _, err := k.Export(ctxFor(t), filepath.Join(t.TempDir(), "x")); (err != nil) != (c.where != "") {
			t.Errorf("%s: the export says %v", name, err)
		}
		overwrite(t, segments[1].Path, data)
	}
}

// An import restores the exported journal, even if its first batches are missing, and the director continues after
// it.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]time.Duration{"from the beginning": 0, "the beginning is gone": time.Hour} {
		t.Run(name, func(t *testing.T) {
			k := begun(t)
			k.o.Archive.Keep = keep
			k.reopen()
			for range 4 {
				k.long(1000)
				k.now = k.now.Add(2 * time.Hour)
				k.save()
			}
			k.long(7)
			file := filepath.Join(t.TempDir(), "export.jsonl.zst")
			end, err := k.Export(ctxFor(t), file)
			if err != nil || end.Head != k.Head() || (end.Batches == 4007) != (keep == 0) {
				t.Fatal(end, err)
			}

			to := begun(t)
			got, err := to.Import(ctxFor(t), file)
			if err != nil || got != end {
				t.Fatal(got, err)
			}
			if _, err := to.Import(ctxFor(t), file); !errors.Is(err, ErrNotEmpty) {
				t.Errorf("a second import: %v", err)
			}
			to.reopen()
			from, state, err := to.lastState()
			if err != nil || from.Seq != 4000 || state != "state at 4000" {
				t.Errorf("%v %q %v", from, state, err)
			}
			head, err := to.Replay(ctxFor(t), from, func(uint64, []byte) error { return nil })
			if err != nil || head != end.Head {
				t.Errorf("%v, %v", head, err)
			}
			to.long(3)
			if v, err := to.Verify(ctxFor(t)); err != nil || len(v.Damages) > 0 || v.Batches != end.Batches+3 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// TestAnInterruptedImportIsNoticed checks that no director accepts a partial import as the whole journal, even a
// director that has never seen the journal.
func TestAnInterruptedImportIsNoticed(t *testing.T) {
	t.Parallel()
	k := begun(t)
	k.long(50)
	file := filepath.Join(t.TempDir(), "export.jsonl.zst")
	_, err := k.Export(ctxFor(t), file)
	mustDo(t, err)
	to := begun(t)
	ctx, cancel := context.WithCancel(t.Context())
	to.site.JS = &lossy{
		JetStream: to.o.JS,
		publish: func(try int, send func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
			if try == 20 {
				cancel()
			}
			return send()
		},
	}
	if _, err := to.Import(ctx, file); err == nil {
		t.Fatal("it was not interrupted")
	}
	to.reopen()
	other := to.beside()
	for _, d := range []*director{to, other} {
		_, _, err = d.read(chain.Head{})
		if damage, ok := errors.AsType[*chain.Damage](err); !ok || damage.Kind != chain.Cut {
			t.Errorf("a part of a journal is accepted as a journal: %v", err)
		}
	}
	to.replace()
	_, err = to.Import(ctxFor(t), file)
	mustDo(t, err)
	if _, head, err := other.read(chain.Head{}); head.Seq != 50 && !errors.Is(err, ErrReplaced) {
		t.Error(head, err)
	}
	other.mustRead(chain.Head{}, 50)
}

// TestFindDisturbsNobody reads a journal during its use by a director without changing it.
func TestFindDisturbsNobody(t *testing.T) {
	t.Parallel()
	k := begun(t)
	k.long(5)
	mustDo(t, k.SaveSnapshot(ctxFor(t), k.Head(), []byte("state")))
	before, err := os.ReadFile(k.o.Mirror)
	mustDo(t, err)
	found, err := Find(ctxFor(t), k.o)
	mustDo(t, err)
	v, err := found.Verify(ctxFor(t))
	if err != nil || len(v.Damages) > 0 || v.Head != k.Head() || v.Mirror == nil || *v.Mirror != v.Head ||
		len(v.Snapshots) != 1 || v.Snapshots[0].Fault != "" {
		t.Errorf("%+v, %v", v, err)
	}
	mustDo(t, found.Close())
	if after, err := os.ReadFile(k.o.Mirror); err != nil || string(after) != string(before) {
		t.Errorf("journal.head was written: %q, %v", after, err)
	}
	k.long(1)
}
