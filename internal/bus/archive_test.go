package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/bus/server"
)

// kept is a journal with an archive, in one folder.
type kept struct {
	*Bus
	t   *testing.T
	dir string
	now time.Time // of the archive

	stamped map[string]bool // segments that have the time of the archive
}

func openKept(t *testing.T, dir string, keep time.Duration) *kept {
	t.Helper()
	return &kept{Bus: openBus(t, Options{
		Server:  startServer(t, server.Options{Dir: filepath.Join(dir, "bus")}),
		Mirror:  filepath.Join(dir, "journal.head"),
		Archive: Archive{Dir: filepath.Join(dir, "journal"), Keep: keep},
	}), t: t, dir: dir, now: time.Now(), stamped: map[string]bool{}}
}

// live appends batches similar to the director's.
func (k *kept) live(n int) {
	k.t.Helper()
	for range n {
		at := k.journal.Head().Seq
		data := fmt.Appendf(nil,
			`{"at":"2026-11-%02dT10:%02d:00Z","cause":{"kind":"worker_seen","worker":"w%08x-1"},"facts":[`, at%28+1,
			at%60, at*2654435761)
		for f := range 12 {
			data = fmt.Appendf(data,
				`{"kind":"moved","task":"acme/widgets#%d","from":"running","to":"validating","on":"stage","seq":%d,"note":"%08x"},`, at%97, at+uint64(f), (at+uint64(f))*40503)
		}
		data = append(data, `{"kind":"tick"}]}`...)
		if _, err := k.journal.Append(k.t.Context(), fmt.Sprintf("w/%d", at+1), at, data); err != nil {
			k.t.Fatal(err)
		}
	}
}

// save saves a snapshot and retires what it can, as housekeeping does.
func (k *kept) save() {
	k.t.Helper()
	ctx := ctxFor(k.t)
	mustDo(k.t, k.journal.SaveSnapshot(ctx, k.journal.Head(), fmt.Appendf(nil, "state at %d", k.journal.Head().Seq)))
	mustDo(k.t, k.journal.Retire(ctx, k.now))
	for _, s := range k.segments() {
		if !k.stamped[s.Path] {
			k.stamped[s.Path] = true
			mustDo(k.t, os.Chtimes(s.Path, k.now, k.now))
		}
	}
}

func (k *kept) segments() []chain.Segment {
	k.t.Helper()
	all, err := chain.Segments(filepath.Join(k.dir, "journal"))
	mustDo(k.t, err)
	return all
}

func (k *kept) bounds() jetstream.StreamState {
	k.t.Helper()
	info, err := k.journal.stream.Info(ctxFor(k.t))
	mustDo(k.t, err)
	return info.State
}

// all reads everything from a head on and checks that it is the whole.
func (k *kept) all(after Head) (n uint64, head Head) {
	k.t.Helper()
	next := after.Seq
	head, err := k.journal.Records(ctxFor(k.t), after, func(r chain.Record) error {
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

// A year in the life of a journal: snapshots bound the live part, and age bounds the archive.
func TestAYearOfJournal(t *testing.T) {
	t.Parallel()
	if raced {
		t.Skip("takes minutes with the race detector; shorter tests run the same code with it")
	}
	const days, batchesPerDay = 365, 10
	k := openKept(t, t.TempDir(), 90*24*time.Hour)
	t.Log("day   live batches   live KiB   segments   archive KiB   disk KiB")
	var liveMost uint64
	archive := map[int]int64{}
	disk := map[int]int64{}
	for day := 1; day <= days; day++ {
		k.now = k.now.Add(24 * time.Hour)
		k.live(batchesPerDay)
		k.save()
		state := k.bounds()
		liveMost = max(liveMost, state.Msgs)
		if day%30 == 0 || day == days {
			for _, s := range k.segments() {
				archive[day] += s.Bytes
			}
			disk[day] = diskOf(t, k.dir)
			t.Logf("%3d %14d %10d %10d %13d %10d", day, state.Msgs, state.Bytes>>10, len(k.segments()),
				archive[day]>>10, disk[day]>>10)
		}
	}
	if liveMost > 2*batchesPerDay { // a day of it, and the one before
		t.Errorf("the live journal has had %d batches", liveMost)
	}
	if archive[360] > archive[120]*5/4 {
		t.Errorf("the archive grows for ever: %d bytes after 120 days, %d after 360", archive[120], archive[360])
	}
	early, late := int64(0), int64(0) // the server compacts its files now and then
	for day, bytes := range disk {
		if day <= 180 {
			early = max(early, bytes)
		} else {
			late = max(late, bytes)
		}
	}
	if late > 2*early {
		t.Errorf("the disk grows for ever: at most %d bytes in the first half of the year, %d in the second", early,
			late)
	}
	first := k.segments()[0].First
	if n, head := k.all(Head{Seq: first - 1}); head != k.journal.Head() || n < 90*batchesPerDay {
		t.Errorf("%d batches can be read, to %v", n, head)
	}
	if v, err := k.journal.Verify(ctxFor(t)); err != nil || len(v.Damages) > 0 || v.Head != k.journal.Head() {
		t.Errorf("%+v, %v", v, err)
	}
}

// Archived batches are read as if they were live. An interruption between archiving and purging changes nothing.
func TestRetiredBatchesAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := openKept(t, dir, 0)
	k.live(1200)
	k.save()
	if len(k.segments()) != 0 {
		t.Fatal("archived what only one snapshot is beyond")
	}
	k.live(10)
	at := k.journal.Head()
	mustDo(t, k.journal.segment(ctxFor(t), Head{}, headAt(t, k, 700))) // as before a crash
	k.save()
	if s := k.bounds(); s.FirstSeq != 1201 {
		t.Errorf("the live journal begins at %d", s.FirstSeq)
	}
	if got := k.segments(); len(got) != 2 || got[0].Last != 700 || got[1].First != 701 || got[1].Last != 1200 {
		t.Errorf("segments: %+v", got)
	}
	if n, head := k.all(Head{}); n != 1210 || head != at {
		t.Errorf("%d batches to %v, want 1210 to %v", n, head, at)
	}
	closeBus(t, k.Bus)

	k = openKept(t, dir, 0)
	from, state, err := lastState(t, k.journal)
	if err != nil || from != at || state != "state at 1210" {
		t.Errorf("%v %q %v", from, state, err)
	}
	if head, err := k.journal.Replay(ctxFor(t), Head{}, func(uint64, []byte) error { return nil }); err != nil ||
		head != at {
		t.Errorf("without a snapshot: %v, %v", head, err)
	}
	k.live(5)
}

// headAt is the head at a sequence.
func headAt(t *testing.T, k *kept, seq uint64) (at Head) {
	t.Helper()
	enough := errors.New("enough")
	c := chain.Follow(Head{})
	_, err := k.journal.Records(ctxFor(t), Head{}, func(r chain.Record) error {
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
	k := openKept(t, t.TempDir(), 0)
	for range 4 {
		k.live(1000)
		k.save()
	}
	segments := k.segments()
	if len(segments) != 3 {
		t.Fatalf("%d segments", len(segments))
	}
	data, err := os.ReadFile(segments[1].Path)
	mustDo(t, err)
	for name, c := range map[string]struct {
		harm func()
		kind chain.Kind
		seq  uint64
	}{
		"none": {harm: func() {}},
		"cut":  {harm: func() { overwrite(t, segments[1].Path, data[:len(data)/2]) }, kind: chain.Broken},
		"flipped": {harm: func() {
			overwrite(t, segments[1].Path, append(append(data[:len(data)/2:len(data)/2], data[len(data)/2]^1),
				data[len(data)/2+1:]...))
		}, kind: chain.Broken},
		"gone": {harm: func() { mustDo(t, os.Remove(segments[1].Path)) }, kind: chain.Gap, seq: 1001},
	} {
		c.harm()
		v, err := k.journal.Verify(ctxFor(t))
		if err != nil || v.Head != k.journal.Head() {
			t.Errorf("%s: %v, %v", name, v.Head, err)
		}
		if want := c.kind != ""; (len(v.Damages) == 1) != want {
			t.Errorf("%s: %v", name, v.Damages)
		} else if want && (v.Damages[0].Kind != c.kind || c.seq != 0 && v.Damages[0].Seq != c.seq ||
			c.kind == chain.Broken && v.Damages[0].Where != filepath.Base(segments[1].Path)) {
			t.Errorf("%s: %v", name, v.Damages[0])
		}
		if _, err := k.journal.Export(ctxFor(t), filepath.Join(t.TempDir(), "x")); (err != nil) != (c.kind == chain.Broken) {
			t.Errorf("%s: the export says %v", name, err)
		}
		overwrite(t, segments[1].Path, data)
	}
}

// An export brings back the same journal, also one whose beginning is gone, and the director goes on behind it.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]time.Duration{"from the beginning": 0, "the beginning is gone": time.Hour} {
		t.Run(name, func(t *testing.T) {
			k := openKept(t, t.TempDir(), keep)
			for range 4 {
				k.live(1000)
				k.now = k.now.Add(2 * time.Hour)
				k.save()
			}
			k.live(7)
			file := filepath.Join(t.TempDir(), "export.jsonl.zst")
			end, err := k.journal.Export(ctxFor(t), file)
			if err != nil || end.Head != k.journal.Head() || (end.Batches == 4007) != (keep == 0) {
				t.Fatal(end, err)
			}

			dir := t.TempDir()
			to := openKept(t, dir, 0)
			got, err := to.Import(ctxFor(t), file)
			if err != nil || got != end {
				t.Fatal(got, err)
			}
			if _, err := to.Import(ctxFor(t), file); !errors.Is(err, ErrJournalNotEmpty) {
				t.Errorf("a second import: %v", err)
			}
			closeBus(t, to.Bus)
			to = openKept(t, dir, 0)
			from, state, err := lastState(t, to.journal)
			if err != nil || from.Seq != 4000 || state != "state at 4000" {
				t.Errorf("%v %q %v", from, state, err)
			}
			head, err := to.journal.Replay(ctxFor(t), from, func(uint64, []byte) error { return nil })
			if err != nil || head != end.Head {
				t.Errorf("%v, %v", head, err)
			}
			to.live(3)
			if v, err := to.journal.Verify(ctxFor(t)); err != nil || len(v.Damages) > 0 || v.Batches != end.Batches+3 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// An import that was interrupted is no journal.
func TestAnInterruptedImportIsNoticed(t *testing.T) {
	t.Parallel()
	k := openKept(t, t.TempDir(), 0)
	k.live(50)
	file := filepath.Join(t.TempDir(), "export.jsonl.zst")
	_, err := k.journal.Export(ctxFor(t), file)
	mustDo(t, err)
	dir := t.TempDir()
	to := openKept(t, dir, 0)
	ctx, cancel := context.WithCancel(t.Context())
	to.journal.js = &lossy{
		JetStream: to.journal.js,
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
	closeBus(t, to.Bus)
	to = openKept(t, dir, 0)
	_, err = to.journal.Replay(ctxFor(t), Head{}, func(uint64, []byte) error { return nil })
	if d, ok := errors.AsType[*Damage](err); !ok || d.Kind != chain.Cut {
		t.Errorf("a part of a journal is taken for one: %v", err)
	}
}

// Nor does another director take it for one, which has read nothing of the journal that it was to be.
func TestAnInterruptedImportIsNoticedByOthers(t *testing.T) {
	t.Parallel()
	k := openKept(t, t.TempDir(), 0)
	k.live(50)
	file := filepath.Join(t.TempDir(), "export.jsonl.zst")
	_, err := k.journal.Export(ctxFor(t), file)
	mustDo(t, err)
	out := startOutside(t)
	to, other := openBus(t, out.join()), out.join()
	other.Mirror = filepath.Join(t.TempDir(), "journal.head")
	ctx, cancel := context.WithCancel(t.Context())
	whole := to.journal.js
	to.journal.js = &lossy{
		JetStream: whole,
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
	to.journal.js = whole
	b := openBus(t, other)
	_, err = b.journal.Replay(ctxFor(t), Head{}, func(uint64, []byte) error { return nil })
	if d, ok := errors.AsType[*Damage](err); !ok || d.Kind != chain.Cut {
		t.Errorf("a part of a journal is taken for one: %v", err)
	}
	mustDo(t, to.ReplaceJournal(ctxFor(t), filepath.Join(t.TempDir(), "aside.jsonl.zst")))
	_, err = to.Import(ctxFor(t), file)
	mustDo(t, err)
	if head, err := b.journal.Replay(ctxFor(t), Head{}, func(uint64, []byte) error { return nil }); head.Seq != 50 &&
		!errors.Is(err, ErrReplaced) {
		t.Error(head, err)
	}
	if head, err := b.journal.Replay(ctxFor(t), Head{}, func(uint64, []byte) error { return nil }); err != nil ||
		head.Seq != 50 {
		t.Error(head, err)
	}
}

// On a server that was joined, who only looks changes nothing, and disturbs nobody who writes.
func TestLookingAtAJournalBesideItsDirector(t *testing.T) {
	out := startOutside(t)
	o := out.join()
	o.Mirror = filepath.Join(o.Dir, "journal.head")
	k := &kept{Bus: openBus(t, o), t: t, dir: o.Dir}
	k.live(5)
	mustDo(t, k.journal.SaveSnapshot(ctxFor(t), k.journal.Head(), []byte("state")))
	before, err := os.ReadFile(o.Mirror)
	mustDo(t, err)
	beside, err := OpenJournal(ctxFor(t), o, true)
	mustDo(t, err)
	v, err := beside.Journal().Verify(ctxFor(t))
	if err != nil || len(v.Damages) > 0 || v.Head != k.journal.Head() || v.Mirror == nil || *v.Mirror != v.Head ||
		len(v.Snapshots) != 1 || v.Snapshots[0].Fault != "" {
		t.Errorf("%+v, %v", v, err)
	}
	closeBus(t, beside)
	if after, err := os.ReadFile(o.Mirror); err != nil || string(after) != string(before) {
		t.Errorf("journal.head was written: %q, %v", after, err)
	}
	k.live(1)
}
