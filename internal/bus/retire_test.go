package bus

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

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/bus/server"
	"retake/internal/safefile"
	"retake/internal/sys/powercut"
)

// ready is a journal whose first batches may leave it: two snapshots are beyond them.
func ready(t *testing.T, dir string) *kept {
	t.Helper()
	k := openKept(t, dir, 0)
	k.live(1200)
	mustDo(t, k.journal.SaveSnapshot(ctxFor(t), k.journal.Head(), []byte("state")))
	k.live(300)
	mustDo(t, k.journal.SaveSnapshot(ctxFor(t), k.journal.Head(), []byte("state")))
	return k
}

// segmentOf writes a segment into an archive: with batches of this journal, or of another one with the same numbers.
func (k *kept) segmentOf(first, last uint64, other bool) string {
	k.t.Helper()
	path := chain.SegmentPath(filepath.Join(k.dir, "journal"), first, last)
	after := Head{Seq: first - 1}
	switch {
	case !other:
		after = headAt(k.t, k, first-1)
	case first > 1:
		after.Digest = chain.Digest{1}
	}
	mustDo(k.t, chain.Create(path, chain.Source{Fleet: "default"}, after, func(w *chain.Writer) error {
		for seq := first; seq <= last; seq++ {
			r := chain.Record{
				Seq: seq, ID: fmt.Sprint("other/", seq), Prev: w.Head().Digest.String(),
				Data: []byte("{}"),
			}
			if !other {
				var err error
				if r, err = k.journal.record(ctxFor(k.t), seq); err != nil {
					return err
				}
			}
			if err := w.Add(r); err != nil {
				return err
			}
		}
		return nil
	}))
	return path
}

// A segment is judged by its content, not by its name. Batches that are not in the archive stay in the live
// journal, and the error tells the user how to proceed.
func TestOnlyWhatIsArchivedLeavesTheJournal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put  func(k *kept) string // a segment; the result is to be moved out, if not empty
		want string
	}{
		"another journal's":         {func(k *kept) string { return k.segmentOf(1, 700, true) }, "does not join"},
		"another journal's, longer": {func(k *kept) string { return k.segmentOf(1000, 3000, true) }, "does not join"},
		"another journal's, behind": {func(k *kept) string { return k.segmentOf(5000, 5010, true) }, "does not join"},
		"another name": {
			func(k *kept) string { return k.renamed(k.segmentOf(1, 700, false), 1, 900) },
			"does not join",
		},
		"damaged": {
			func(k *kept) string { return k.harmed(k.segmentOf(1, 700, false)) },
			"is damaged",
		},
		"one behind a damaged one": {func(k *kept) string {
			k.segmentOf(601, 1200,
				false)
			return k.harmed(k.segmentOf(1, 600, false))
		}, "is damaged"},
		"ours, behind a hole":         {func(k *kept) string { k.segmentOf(601, 1100, false); return "" }, ""},
		"ours, with a part of it all": {func(k *kept) string { k.segmentOf(1, 600, false); return "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := ready(t, t.TempDir())
			bad := c.put(k)
			if bad != "" {
				err := k.journal.Retire(ctxFor(t), k.now)
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(),
					filepath.Base(bad)) || !strings.Contains(err.Error(), "moves that file out") {
					t.Errorf("it says: %v", err)
				}
				if s := k.bounds(); s.FirstSeq != 1 {
					t.Errorf("the live journal begins at %d", s.FirstSeq)
				}
				mustDo(t, os.Rename(bad, filepath.Join(k.dir, "moved")))
			}
			mustDo(t, k.journal.Retire(ctxFor(t), k.now))
			if s := k.bounds(); s.FirstSeq != 1201 {
				t.Errorf("the live journal begins at %d", s.FirstSeq)
			}
			if n, head := k.all(Head{}); n != 1500 || head != k.journal.Head() {
				t.Errorf("%d batches to %v", n, head)
			}
		})
	}
}

func (k *kept) renamed(path string, first, last uint64) string {
	k.t.Helper()
	to := chain.SegmentPath(filepath.Dir(path), first, last)
	mustDo(k.t, os.Rename(path, to))
	return to
}

func (k *kept) harmed(path string) string {
	k.t.Helper()
	data, err := os.ReadFile(path)
	mustDo(k.t, err)
	data[len(data)/2] ^= 1
	overwrite(k.t, path, data)
	return path
}

// Segments of another journal before the live batches are noticed, although nothing would be lost yet.
func TestASegmentOfAnotherJournalBefore(t *testing.T) {
	t.Parallel()
	k := ready(t, t.TempDir())
	mustDo(t, k.journal.Retire(ctxFor(t), k.now))
	ours := k.segments()[0].Path
	mustDo(t, os.Remove(ours))
	other := k.segmentOf(1100, 1200, true)
	k.live(1000)
	mustDo(t, k.journal.SaveSnapshot(ctxFor(t), k.journal.Head(), []byte("state")))
	k.live(1000)
	mustDo(t, k.journal.SaveSnapshot(ctxFor(t), k.journal.Head(), []byte("state")))
	if err := k.journal.Retire(ctxFor(t), k.now); err == nil || !strings.Contains(err.Error(), filepath.Base(other)) ||
		k.bounds().FirstSeq != 1201 {
		t.Errorf("%v, and the live journal begins at %d", err, k.bounds().FirstSeq)
	}
	overwrite(t, other, []byte("damaged")) // its journal is unknown, and none of it is live
	if err := k.journal.Retire(ctxFor(t), k.now); err != nil || k.bounds().FirstSeq != 2501 {
		t.Errorf("%v, and the live journal begins at %d", err, k.bounds().FirstSeq)
	}
}

// A segment's name is durable before its batches leave the live journal, whichever process created it.
func TestPowerCutAfterRetiring(t *testing.T) {
	t.Parallel()
	disk := powercut.New(t)
	dir := t.TempDir() // the bus is on another disk, whose power stays on
	mustDo(t, os.Symlink(disk.Dir, filepath.Join(dir, "journal")))
	k := ready(t, dir)
	path := k.segmentOf(1, 1200, false)
	mustDo(t, os.Rename(path, path+".new"))
	mustDo(t, safefile.SyncDisk(disk.Dir))
	mustDo(t, os.Rename(path+".new", path)) // a director was killed right after this
	mustDo(t, k.journal.Retire(ctxFor(t), k.now.Add(48*time.Hour)))
	disk.Cut()
	disk.Restore()
	if n, head := k.all(Head{}); n != 1500 || head != k.journal.Head() {
		t.Errorf("%d batches to %v", n, head)
	}
}

// A journal that is older than the chain leaves in several segments as well.
func TestAnOldJournalIsArchived(t *testing.T) {
	t.Parallel()
	if raced {
		t.Skip("takes minutes with the race detector; shorter tests run the same code with it")
	}
	k := openKept(t, t.TempDir(), 0)
	const old = segmentMax + 300
	for seq := uint64(1); seq <= old; seq++ {
		mustDo(t, k.journal.restore(ctxFor(t), chain.Record{
			Seq: seq, ID: fmt.Sprintf("w/%d", seq),
			Data: []byte("{}"),
		}))
	}
	if _, err := k.journal.Replay(ctxFor(t), Head{}, func(uint64, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		k.live(10)
		k.save()
	}
	segments := k.segments()
	if slices.Contains([]int{0, 1}, len(segments)) || segments[len(segments)-1].Last != old+10 {
		t.Fatalf("segments: %+v", segments)
	}
	if n, head := k.all(Head{}); n != old+20 || head != k.journal.Head() {
		t.Errorf("%d batches to %v", n, head)
	}
}

// unavailable is a stream whose server cannot read one batch at the moment.
type unavailable struct {
	jetstream.Stream
	seq uint64
}

func (u *unavailable) GetMsg(ctx context.Context, seq uint64,
	o ...jetstream.GetMsgOpt,
) (*jetstream.RawStreamMsg, error) {
	if seq == u.seq {
		return nil, &jetstream.APIError{
			Code: 503, ErrorCode: 10008,
			Description: "JetStream system temporarily unavailable",
		}
	}
	return u.Stream.GetMsg(ctx, seq, o...)
}

func (u *unavailable) CreateConsumer(context.Context, jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return nil, errNoRoom
}

// A server that cannot answer at the moment has not lost anything. Its batch stays until it can be read.
func TestWhatCannotBeReadNowIsArchivedLater(t *testing.T) {
	t.Parallel()
	k := ready(t, t.TempDir())
	whole := k.journal.stream
	k.journal.stream = &unavailable{whole, 50}
	soon, cancel := context.WithTimeout(t.Context(), time.Second) // it is asked again and again
	defer cancel()
	if err := k.journal.Retire(soon, k.now); err == nil || k.bounds().FirstSeq != 1 {
		t.Errorf("%v, and the live journal begins at %d", err, k.bounds().FirstSeq)
	}
	k.journal.stream = whole
	mustDo(t, k.journal.Retire(ctxFor(t), k.now))
	if n, head := k.all(Head{}); n != 1500 || head != k.journal.Head() {
		t.Errorf("%d batches to %v", n, head)
	}
}

// A journal that has reached its limit makes room with what two snapshots are beyond, however little that is,
// and takes batches again.
func TestAFullJournalMakesRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := &kept{Bus: openBus(t, Options{
		Server:  startServer(t, server.Options{Dir: filepath.Join(dir, "bus")}),
		Mirror:  filepath.Join(dir, "journal.head"),
		Archive: Archive{Dir: filepath.Join(dir, "journal")}, JournalBytes: 256 << 10,
	}), t: t, dir: dir, now: time.Now(), stamped: map[string]bool{}}
	for range 2 {
		k.live(10)
		k.save()
	}
	if full, err := k.journal.Crowded(ctxFor(t)); full || err != nil || len(k.segments()) > 0 {
		t.Fatalf("a short journal: crowded %t, %v, %d segments", full, err, len(k.segments()))
	}
	var err error
	for n := k.journal.Head().Seq; err == nil; n++ {
		_, err = k.journal.Append(t.Context(), fmt.Sprintf("w/%d", n+1), n, make([]byte, 8<<10))
	}
	if !strings.Contains(err.Error(), "maximum bytes exceeded") {
		t.Fatal(err)
	}
	if full, err := k.journal.Crowded(ctxFor(t)); !full || err != nil {
		t.Errorf("a full journal: crowded %t, %v", full, err)
	}
	at := k.journal.Head()
	k.save()
	if s := k.bounds(); s.FirstSeq != 21 {
		t.Errorf("the live journal begins at %d", s.FirstSeq)
	}
	k.live(1)
	if n, head := k.all(Head{}); n != at.Seq+1 || head != k.journal.Head() {
		t.Errorf("%d batches to %v", n, head)
	}
}

// An unreadable snapshot is reported, because nothing leaves the live journal while it is one of the two. A new
// snapshot replaces it, and the readable one is kept.
func TestAnUnreadableSnapshotIsSaidAndReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		damaged []uint64
		kept    []uint64 // once a new one is saved
		first   uint64   // of the live batches, then
	}{
		"the newest":    {[]uint64{1500}, []uint64{1501, 1200}, 1201},
		"the one after": {[]uint64{1200}, []uint64{1501, 1500}, 1501},
		"both":          {[]uint64{1200, 1500}, []uint64{1501}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := ready(t, t.TempDir())
			for _, seq := range c.damaged {
				damage(t, k.Bus, seq)
			}
			if err := k.journal.Retire(ctxFor(t), k.now); !errors.Is(err, ErrSnapshot) || k.bounds().FirstSeq != 1 {
				t.Errorf("it says: %v, and the live journal begins at %d", err, k.bounds().FirstSeq)
			}
			k.live(1)
			k.save()
			if all, err := k.journal.snapshots(ctxFor(t)); err != nil || !slices.Equal(all, c.kept) {
				t.Errorf("kept %v, %v", all, err)
			}
			if first := k.bounds().FirstSeq; first != c.first {
				t.Errorf("the live journal begins at %d", first)
			}
		})
	}
}

// archiving is a stream whose director archives when a batch is read, individually or ahead with its successors.
type archiving struct {
	jetstream.Stream
	seq   uint64
	ahead bool
	do    func()
}

// CreateConsumer reads ahead, and archives before what follows the first request.
func (a *archiving) CreateConsumer(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	if !a.ahead {
		return nil, errNoRoom
	}
	return consuming(ctx, a.Stream, c, func(request int) error {
		if request == 2 && a.do != nil {
			a.do()
		}
		return nil
	})
}

func (a *archiving) GetMsg(ctx context.Context, seq uint64, o ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	if do := a.do; !a.ahead && seq == a.seq && do != nil {
		a.do = nil
		do()
	}
	return a.Stream.GetMsg(ctx, seq, o...)
}

// Batches archived during a reading are not damage. They are read from the archive, or left out if the archive
// is on another machine.
func TestWhatIsArchivedMeanwhileIsReadAgain(t *testing.T) {
	if raced {
		t.Skip("takes minutes with the race detector; shorter tests run the same code with it")
	}
	for name, c := range map[string]struct {
		elsewhere bool
		ahead     bool
		exported  uint64 // batches
	}{
		"the archive is here":                  {false, false, 1500},
		"the archive is elsewhere":             {true, false, 300},
		"the archive is here, read ahead":      {false, true, 1500},
		"the archive is elsewhere, read ahead": {true, true, 300},
	} {
		for command, read := range map[string]func(*testing.T, *Journal){
			"export": func(t *testing.T, j *Journal) {
				if end, err := j.Export(ctxFor(t), filepath.Join(t.TempDir(), "x")); err != nil ||
					end.Batches != c.exported || end.Head.Seq != 1500 {
					t.Errorf("%+v, %v", end, err)
				}
			},
			"verify": func(t *testing.T, j *Journal) {
				if v, err := j.Verify(ctxFor(t)); err != nil || len(v.Damages) > 0 || v.Head.Seq != 1500 {
					t.Errorf("%+v, %v", v, err)
				}
			},
			"verify live": func(t *testing.T, j *Journal) {
				n, err := j.VerifyLive(ctxFor(t), 1500, 0)
				if c.elsewhere { // then it is done again
					if err == nil || errors.Is(err, ErrDamaged) {
						t.Errorf("%d, %v", n, err)
					}
					n, err = j.VerifyLive(ctxFor(t), 1500, 0)
				}
				if err != nil || n != c.exported {
					t.Errorf("%d, %v", n, err)
				}
			},
		} {
			t.Run(name+"/"+command, func(t *testing.T) {
				t.Parallel()
				k := ready(t, t.TempDir())
				reader := k.newJournal()
				if reader.shared = c.elsewhere; c.elsewhere {
					reader.archive.Dir = t.TempDir()
				}
				reader.store, reader.identity = k.journal.store, k.journal.identity
				reader.stream = &archiving{
					k.journal.stream, 50, c.ahead,
					func() { mustDo(t, k.journal.Retire(ctxFor(t), k.now)) },
				}
				read(t, reader)
				if k.bounds().FirstSeq != 1201 {
					t.Error("nothing was archived meanwhile")
				}
			})
		}
	}
}
