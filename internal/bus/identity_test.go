package bus

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
)

// joiner is a director's bus that can be closed and opened again on its own folder.
type joiner struct {
	*Bus
	t   *testing.T
	o   Options
	dir string
}

func (o *outside) joiner() *joiner {
	j := &joiner{t: o.t, o: o.join(), dir: o.t.TempDir()}
	j.o.Mirror, j.o.Archive.Dir = filepath.Join(j.dir, "journal.head"), filepath.Join(j.dir, "journal")
	j.Bus = openBus(o.t, j.o)
	return j
}

func (j *joiner) reopen() {
	j.t.Helper()
	closeBus(j.t, j.Bus)
	j.Bus = openBus(j.t, j.o)
}

// read replays behind a head, and returns how many batches that were.
func (j *joiner) read(after Head) (n int, head Head, err error) {
	j.t.Helper()
	head, err = j.Journal().Replay(ctxFor(j.t), after, func(uint64, []byte) error { n++; return nil })
	return n, head, err
}

func (j *joiner) mustRead(after Head, want int) (head Head) {
	j.t.Helper()
	n, head, err := j.read(after)
	if err != nil || n != want {
		j.t.Fatalf("%d batches of %d: %v", n, want, err)
	}
	return head
}

// replace does what `director journal rebuild` does.
func (j *joiner) replace() {
	j.t.Helper()
	mustDo(j.t, j.ReplaceJournal(ctxFor(j.t), filepath.Join(j.t.TempDir(), "aside.jsonl.zst")))
}

// A journal that was replaced on purpose is another one: what other directors know of the one before says
// nothing of it.
func TestAJournalThatWasReplacedIsAnotherOne(t *testing.T) {
	t.Parallel()
	for _, grown := range []int{0, 2, 9} { // shorter than what is known, or longer
		for _, away := range []bool{false, true} { // the other director meanwhile
			t.Run(fmt.Sprintf("%d batches, away %t", grown, away), func(t *testing.T) {
				out := startOutside(t)
				one, other := out.joiner(), out.joiner()
				appendBatches(t, one.Journal(), 6)
				hot := other.mustRead(Head{}, 6)
				mustDo(t, os.MkdirAll(other.o.Archive.Dir, 0o700))
				mustDo(t, os.WriteFile(chain.SegmentPath(other.o.Archive.Dir, 1, 4), nil, 0o600))
				for range 2 { // twice: it may have missed more than one
					one.replace()
				}
				for i := range grown {
					_, err := one.Journal().Append(ctxFor(t), fmt.Sprintf("n/%d", i+1), uint64(i),
						fmt.Appendf(nil, "new %d", i+1))
					mustDo(t, err)
				}
				if away {
					other.reopen()
				} else if _, _, err := other.read(hot); !errors.Is(err, ErrReplaced) {
					t.Errorf("what it follows: %v", err)
				}
				for range 2 {
					if head := other.mustRead(Head{}, grown); head != one.Journal().Head() {
						t.Errorf("it is at %v, and the other at %v", head, one.Journal().Head())
					}
					other.reopen()
				}
				if v, err := other.Journal().Verify(ctxFor(t)); err != nil || len(v.Damages) > 0 ||
					len(v.Segments) > 0 {
					t.Errorf("%+v, %v", v, err)
				}
				if aside, _ := filepath.Glob(filepath.Join(other.dir, "journal.*", "*.jsonl.zst")); len(aside) != 1 {
					t.Errorf("what it had archived of the one before is gone: %q", aside)
				}

				appendBatches(t, one.Journal(), 4)
				other.mustRead(Head{}, grown+4)
				cutTo(t, one.Bus, uint64(grown+2))
				if _, _, err := other.read(Head{}); !errors.Is(err, ErrDamaged) {
					t.Errorf("the new one is cut: %v", err)
				}
			})
		}
	}
}

// Nobody replaced it: that somebody made it again because it was gone excuses nothing.
func TestAJournalThatIsMadeAgainIsDamaged(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	one := out.joiner()
	appendBatches(t, one.Journal(), 6)
	mustDo(t, one.ownJS.DeleteStream(ctxFor(t), one.journalStream()))
	stranger := out.joiner() // it knows of nothing
	for n := range 2 {
		if _, _, err := one.read(Head{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("after %d: %v", n, err)
		}
		one.reopen()
		for range 8 { // the second time it is longer
			at := stranger.Journal().Head().Seq
			_, err := stranger.Journal().Append(ctxFor(t), fmt.Sprintf("s/%d", at+1), at, nil)
			mustDo(t, err)
		}
	}
	// The same holds before a snapshot, although the forked batches are not needed then.
	mustDo(t, stranger.Journal().SaveSnapshot(ctxFor(t), stranger.Journal().Head(), []byte("{}")))
	at, _, err := lastState(t, one.Journal())
	mustDo(t, err)
	if _, _, err := one.read(at); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a snapshot: %v", err)
	}
}

// An import replaces the journal that was exported, wherever it is brought to.
func TestAnImportIsAnotherJournal(t *testing.T) {
	t.Parallel()
	out, elsewhere := startOutside(t), startOutside(t)
	one, other := out.joiner(), out.joiner()
	appendBatches(t, one.Journal(), 6)
	file := filepath.Join(t.TempDir(), "export.jsonl.zst")
	_, err := one.Journal().Export(ctxFor(t), file)
	mustDo(t, err)
	appendBatches(t, one.Journal(), 3)
	other.mustRead(Head{}, 9)

	importer := elsewhere.joiner()
	if _, err := importer.Import(ctxFor(t), file); err != nil {
		t.Fatal(err)
	}
	other.o.URL, other.o.Keys = elsewhere.url(), elsewhere.join().Keys
	other.reopen()
	other.mustRead(Head{}, 6)
	importer.reopen()
	importer.mustRead(Head{}, 6)
}

// A journal and a journal.head of before journals had an id: both are good, and get one.
func TestAnOldHeadCounts(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	one, other := out.joiner(), out.joiner()
	appendBatches(t, one.Journal(), 3)
	forget := func() {
		info, err := one.Journal().stream.Info(ctxFor(t))
		mustDo(t, err)
		info.Config.Metadata = nil
		_, err = one.ownJS.UpdateStream(ctxFor(t), info.Config)
		mustDo(t, err)
	}
	forget()
	for _, d := range []*joiner{one, other} {
		closeBus(t, d.Bus)
		overwrite(t, d.o.Mirror, oldSlots(one.journalStream(), one.Journal().Head()))
		d.Bus = openBus(t, d.o)
		d.mustRead(Head{}, 3)
	}
	one.replace()
	other.reopen()
	other.mustRead(Head{}, 0)

	closeBus(t, other.Bus)
	overwrite(t, other.o.Mirror, oldSlots(one.journalStream(), Head{Seq: 3, Digest: chain.Digest{1}}))
	other.Bus = openBus(t, other.o)
	if _, _, err := other.read(Head{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("nobody can tell of which journal an old head is: %v", err)
	}
}

// oldSlots is a journal.head in the format from before journals had ids.
func oldSlots(stream string, h Head) []byte {
	line := fmt.Sprintf("%s %d %s", stream, h.Seq, h.Digest)
	line = fmt.Sprintf("%s %x", line, sha256.Sum256([]byte(line)))
	return fmt.Appendf(nil, "%256s%-255s\n", "", line) // an odd sequence is in the second slot
}

// Each of several directors archives the batches that leave the live journal while it leads. Batches in another
// director's archive do not count as a gap.
func TestWhatAnotherDirectorHasArchivedIsNotMissed(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	one, other := out.joiner(), out.joiner()
	for _, d := range []*joiner{one, other} {
		at, _, err := lastState(t, d.Journal())
		mustDo(t, err)
		_, _, err = d.read(at)
		mustDo(t, err)
		for range 2 {
			appendBatches(t, d.Journal(), 3)
			mustDo(t, d.Journal().SaveSnapshot(ctxFor(t), d.Journal().Head(), []byte("{}")))
		}
		mustDo(t, d.Journal().Retire(ctxFor(t), time.Now().Add(2*segmentAfter)))
	}
	end := other.Journal().Head()
	for name, d := range map[string]*joiner{"one": one, "other": other} {
		d.reopen()
		v, err := d.Journal().Verify(ctxFor(t))
		if err != nil || len(v.Damages) > 0 || len(v.Segments) != 1 || v.Head != end {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	mustDo(t, os.Remove(filepath.Join(other.o.Archive.Dir, "000000000004-000000000009.jsonl.zst")))
	stream := other.Journal().stream
	other.Journal().stream = &sick{stream, jetstream.ErrMsgNotFound, 2}
	if v, err := other.Journal().Verify(ctxFor(t)); err != nil || len(v.Damages) != 1 {
		t.Errorf("a batch that is live, and gone: %+v, %v", v, err)
	}
}

// A rebuild that comes late replaces the journal that it was begun for, and none that another director has begun since.
func TestALateRebuildLeavesAnotherJournalAlone(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	late, one := out.joiner(), out.joiner()
	appendBatches(t, late.Journal(), 3)
	one.mustRead(Head{}, 3)
	closeBus(t, late.Bus)
	asked := false
	late.o.Leads = func() bool { // it leads at the check, and loses the lease a moment later
		if !asked {
			asked = true
			one.replace()
			_, err := one.Journal().Append(ctxFor(t), newID(), 0, nil)
			mustDo(t, err)
		}
		return true
	}
	late.Bus = openBus(t, late.o)
	late.mustRead(Head{}, 3)
	if err := late.ReplaceJournal(ctxFor(t), filepath.Join(t.TempDir(), "aside.jsonl.zst")); !errors.Is(err,
		ErrReplaced) || !asked {
		t.Errorf("replace: %v", err)
	}
	one.mustRead(Head{}, 1)
}
