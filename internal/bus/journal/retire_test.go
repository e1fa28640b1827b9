package journal

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
	"retake/internal/safefile"
	"retake/internal/sys/powercut"
)

// ready returns a journal whose first batches can be archived, because two snapshots cover them.
func ready(t *testing.T) *director {
	t.Helper()
	k := begun(t)
	k.now = k.now.Add(2 * segmentAfter)
	k.large(120)
	mustDo(t, k.SaveSnapshot(ctxFor(t), k.Head(), []byte("state")))
	k.large(30)
	mustDo(t, k.SaveSnapshot(ctxFor(t), k.Head(), []byte("state")))
	return k
}

// large appends batches that are so large that fewer than a hundred fit into a request.
func (k *director) large(n int) {
	k.t.Helper()
	for range n {
		at := k.Head().Seq
		_, err := k.Append(k.t.Context(), fmt.Sprintf("w/%d", at+1), at, make([]byte, 24<<10))
		mustDo(k.t, err)
	}
}

// segmentOf writes a segment into an archive, with batches of this journal, or with other batches of the same
// sequences.
func (k *director) segmentOf(first, last uint64, other bool) string {
	k.t.Helper()
	mustDo(k.t, os.MkdirAll(k.o.Archive.Dir, 0o700))
	path := chain.SegmentPath(k.o.Archive.Dir, first, last)
	after := chain.Head{Seq: first - 1}
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
				if r, err = k.live.record(ctxFor(k.t), seq); err != nil {
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

// A segment's content decides, not its name. Batches that are not in the archive stay in the live journal,
// and the error tells the user how to proceed.
func TestOnlyWhatIsArchivedLeavesTheJournal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// puts a segment into the archive; the file that it returns, if any, must be moved away
		put  func(k *director) string
		want string
	}{
		"another journal's": {
			func(k *director) string { return k.segmentOf(1, 70, true) },
			"does not match the live journal",
		},
		"another journal's, longer": {
			func(k *director) string { return k.segmentOf(100, 300, true) },
			"does not match the live journal",
		},
		"another journal's, behind": {
			func(k *director) string { return k.segmentOf(500, 501, true) },
			"does not match the live journal",
		},
		"another name": {
			func(k *director) string { return k.renamed(k.segmentOf(1, 70, false), 1, 90) },
			"does not match the live journal",
		},
		"damaged": {
			func(k *director) string { return k.harmed(k.segmentOf(1, 70, false)) },
			"is damaged",
		},
		"one behind a damaged one": {func(k *director) string {
			k.segmentOf(61, 120,
				false)
			return k.harmed(k.segmentOf(1, 60, false))
		}, "is damaged"},
		"ours, behind a hole":         {func(k *director) string { k.segmentOf(61, 110, false); return "" }, ""},
		"ours, with a part of it all": {func(k *director) string { k.segmentOf(1, 60, false); return "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := ready(t)
			bad := c.put(k)
			if bad != "" {
				err := k.Retire(ctxFor(t), k.now)
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(),
					filepath.Base(bad)) || !strings.Contains(err.Error(), "until an operator moves that file out") {
					t.Errorf("it says: %v", err)
				}
				if s := k.state(); s.FirstSeq != 1 {
					t.Errorf("the live journal begins at %d", s.FirstSeq)
				}
				mustDo(t, os.Rename(bad, filepath.Join(t.TempDir(), "moved")))
			}
			mustDo(t, k.Retire(ctxFor(t), k.now))
			if s := k.state(); s.FirstSeq != 121 {
				t.Errorf("the live journal begins at %d", s.FirstSeq)
			}
			if n, head := k.all(chain.Head{}); n != 150 || head != k.Head() {
				t.Errorf("%d batches to %v", n, head)
			}
		})
	}
}

func (k *director) renamed(path string, first, last uint64) string {
	k.t.Helper()
	to := chain.SegmentPath(filepath.Dir(path), first, last)
	mustDo(k.t, os.Rename(path, to))
	return to
}

func (k *director) harmed(path string) string {
	k.t.Helper()
	data, err := os.ReadFile(path)
	mustDo(k.t, err)
	data[len(data)/2] ^= 1
	overwrite(k.t, path, data)
	return path
}

// Another journal's segments before the live batches are detected, although no batch would be lost yet.
func TestASegmentOfAnotherJournalBefore(t *testing.T) {
	t.Parallel()
	k := ready(t)
	mustDo(t, k.Retire(ctxFor(t), k.now))
	ours := k.segments()[0].Path
	mustDo(t, os.Remove(ours))
	other := k.segmentOf(110, 120, true)
	k.long(100)
	mustDo(t, k.SaveSnapshot(ctxFor(t), k.Head(), []byte("state")))
	k.long(100)
	mustDo(t, k.SaveSnapshot(ctxFor(t), k.Head(), []byte("state")))
	if err := k.Retire(ctxFor(t), k.now); err == nil || !strings.Contains(err.Error(), filepath.Base(other)) ||
		k.state().FirstSeq != 121 {
		t.Errorf("%v, and the live journal begins at %d", err, k.state().FirstSeq)
	}
	overwrite(t, other, []byte("damaged")) // a damaged segment before the live batches is ignored
	if err := k.Retire(ctxFor(t), k.now); err != nil || k.state().FirstSeq != 251 {
		t.Errorf("%v, and the live journal begins at %d", err, k.state().FirstSeq)
	}
}

// A segment's name is durable before its batches leave the live journal, whichever process created it.
func TestPowerCutAfterRetiring(t *testing.T) {
	t.Parallel()
	disk := powercut.New(t)
	k := ready(t) // the server has a separate disk and no power cut
	mustDo(t, os.Symlink(disk.Dir, k.o.Archive.Dir))
	path := k.segmentOf(1, 120, false)
	mustDo(t, os.Rename(path, path+".new"))
	mustDo(t, safefile.SyncDisk(disk.Dir))
	mustDo(t, os.Rename(path+".new", path)) // a director was killed right after this
	mustDo(t, k.Retire(ctxFor(t), k.now))
	disk.Cut()
	disk.Restore()
	if n, head := k.all(chain.Head{}); n != 150 || head != k.Head() {
		t.Errorf("%d batches to %v", n, head)
	}
}

// A journal that is older than the chain is also archived in several segments.
func TestAnOldJournalIsArchived(t *testing.T) {
	t.Parallel()
	if raced {
		t.Skip("takes minutes with the race detector; shorter tests run the same code with it")
	}
	k := begun(t)
	const old = segmentMax + 300
	for seq := uint64(1); seq <= old; seq++ {
		mustDo(t, k.restore(ctxFor(t), chain.Record{
			Seq: seq, ID: fmt.Sprintf("w/%d", seq),
			Data: []byte("{}"),
		}))
	}
	if _, err := k.Replay(ctxFor(t), chain.Head{}, func(uint64, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		k.long(10)
		k.save()
	}
	segments := k.segments()
	if slices.Contains([]int{0, 1}, len(segments)) || segments[len(segments)-1].Last != old+10 {
		t.Fatalf("segments: %+v", segments)
	}
	if n, head := k.all(chain.Head{}); n != old+20 || head != k.Head() {
		t.Errorf("%d batches to %v", n, head)
	}
}

// unavailable is a stream whose server temporarily cannot read one batch.
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
	k := ready(t)
	whole := k.live.stream
	k.live.stream = &unavailable{whole, 50}
	soon, cancel := context.WithTimeout(t.Context(), time.Second) // the director repeats the request
	defer cancel()
	if err := k.Retire(soon, k.now); err == nil || k.state().FirstSeq != 1 {
		t.Errorf("%v, and the live journal begins at %d", err, k.state().FirstSeq)
	}
	k.live.stream = whole
	mustDo(t, k.Retire(ctxFor(t), k.now))
	if n, head := k.all(chain.Head{}); n != 150 || head != k.Head() {
		t.Errorf("%d batches to %v", n, head)
	}
}

// A journal at its limit removes all batches that two snapshots cover, however few, and accepts batches again.
func TestAFullJournalMakesRoom(t *testing.T) {
	t.Parallel()
	k := begun(t)
	k.o.Bytes = 256 << 10
	k.reopen()
	for range 2 {
		k.long(10)
		k.save()
	}
	if full, err := k.Crowded(ctxFor(t)); full || err != nil || len(k.segments()) > 0 {
		t.Fatalf("a short journal: crowded %t, %v, %d segments", full, err, len(k.segments()))
	}
	var err error
	for n := k.Head().Seq; err == nil; n++ {
		_, err = k.Append(t.Context(), fmt.Sprintf("w/%d", n+1), n, make([]byte, 8<<10))
	}
	if !strings.Contains(err.Error(), "maximum bytes exceeded") {
		t.Fatal(err)
	}
	if full, err := k.Crowded(ctxFor(t)); !full || err != nil {
		t.Errorf("a full journal: crowded %t, %v", full, err)
	}
	at := k.Head()
	k.save()
	if s := k.state(); s.FirstSeq != 21 {
		t.Errorf("the live journal begins at %d", s.FirstSeq)
	}
	k.long(1)
	if n, head := k.all(chain.Head{}); n != at.Seq+1 || head != k.Head() {
		t.Errorf("%d batches to %v", n, head)
	}
}

// An unreadable snapshot is reported, because the live journal keeps its batches until two snapshots are readable. A
// new snapshot replaces the unreadable one.
func TestAnUnreadableSnapshotIsSaidAndReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		damaged []uint64
		kept    []uint64 // number of snapshots after another one is saved
		first   uint64   // first live batch after that
	}{
		"the newest":    {[]uint64{150}, []uint64{151, 120}, 121},
		"the one after": {[]uint64{120}, []uint64{151, 150}, 151},
		"both":          {[]uint64{120, 150}, []uint64{151}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := ready(t)
			for _, seq := range c.damaged {
				k.damage(seq)
			}
			if err := k.Retire(ctxFor(t), k.now); !errors.Is(err, ErrSnapshot) || k.state().FirstSeq != 1 {
				t.Errorf("it says: %v, and the live journal begins at %d", err, k.state().FirstSeq)
			}
			k.long(1)
			k.save()
			if all, err := k.snapshots.list(ctxFor(t)); err != nil || !slices.Equal(all, c.kept) {
				t.Errorf("kept %v, %v", all, err)
			}
			if first := k.state().FirstSeq; first != c.first {
				t.Errorf("the live journal begins at %d", first)
			}
		})
	}
}
