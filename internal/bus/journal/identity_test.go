package journal

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

// A deliberately replaced journal gets a new identity. Knowledge about its predecessor no longer applies.
func TestAJournalThatWasReplacedIsAnotherOne(t *testing.T) {
	t.Parallel()
	for _, grown := range []int{0, 2, 9} { // shorter or longer than the known journal
		for _, away := range []bool{false, true} { // the other director misses the replacement
			t.Run(fmt.Sprintf("%d batches, away %t", grown, away), func(t *testing.T) {
				one := begun(t)
				other := one.beside()
				one.more(6)
				hot := other.mustRead(chain.Head{}, 6)
				mustDo(t, os.MkdirAll(other.o.Archive.Dir, 0o700))
				mustDo(t, os.WriteFile(chain.SegmentPath(other.o.Archive.Dir, 1, 4), nil, 0o600))
				for range 2 { // replace it twice, because a director can miss several replacements
					one.replace()
				}
				for i := range grown {
					_, err := one.Append(ctxFor(t), fmt.Sprintf("n/%d", i+1), uint64(i),
						fmt.Appendf(nil, "new %d", i+1))
					mustDo(t, err)
				}
				if away {
					other.reopen()
				} else if _, _, err := other.read(hot); !errors.Is(err, ErrReplaced) {
					t.Errorf("the journal that it follows: %v", err)
				}
				for range 2 {
					if head := other.mustRead(chain.Head{}, grown); head != one.Head() {
						t.Errorf("it is at %v, and the other at %v", head, one.Head())
					}
					other.reopen()
				}
				if v, err := other.Verify(ctxFor(t)); err != nil || len(v.Damages) > 0 ||
					len(v.Segments) > 0 {
					t.Errorf("%+v, %v", v, err)
				}
				if aside, _ := filepath.Glob(filepath.Join(other.o.Archive.Dir+".*", "*.jsonl.zst")); len(aside) != 1 {
					t.Errorf("the archive of the previous journal is missing: %q", aside)
				}

				one.more(4)
				other.mustRead(chain.Head{}, grown+4)
				one.cutTo(uint64(grown + 2))
				if _, _, err := other.read(chain.Head{}); !errors.Is(err, chain.ErrDamaged) {
					t.Errorf("the new journal counts as cut: %v", err)
				}
			})
		}
	}
}

// Recreating a lost journal is not a replacement, so the loss counts as damage.
func TestAJournalThatIsMadeAgainIsDamaged(t *testing.T) {
	t.Parallel()
	one := begun(t)
	one.more(6)
	mustDo(t, one.o.JS.DeleteStream(ctxFor(t), one.o.stream()))
	stranger := one.beside() // this process has never seen the journal
	for n := range 2 {
		if _, _, err := one.read(chain.Head{}); !errors.Is(err, chain.ErrDamaged) {
			t.Errorf("after %d: %v", n, err)
		}
		one.reopen()
		for range 8 { // longer in the second round
			at := stranger.Head().Seq
			_, err := stranger.Append(ctxFor(t), fmt.Sprintf("s/%d", at+1), at, nil)
			mustDo(t, err)
		}
	}
	// The same holds before a snapshot, although the forked batches are not needed then.
	mustDo(t, stranger.SaveSnapshot(ctxFor(t), stranger.Head(), []byte("{}")))
	at, _, err := one.lastState()
	mustDo(t, err)
	if _, _, err := one.read(at); !errors.Is(err, chain.ErrDamaged) {
		t.Errorf("with a snapshot: %v", err)
	}
}

// An import replaces the exported journal on any server.
func TestAnImportIsAnotherJournal(t *testing.T) {
	t.Parallel()
	one := begun(t)
	other := one.beside()
	one.more(6)
	file := filepath.Join(t.TempDir(), "export.jsonl.zst")
	_, err := one.Export(ctxFor(t), file)
	mustDo(t, err)
	one.more(3)
	other.mustRead(chain.Head{}, 9)

	importer := begun(t)
	if _, err := importer.Import(ctxFor(t), file); err != nil {
		t.Fatal(err)
	}
	other.o.Suffix, other.o.Subject = importer.o.Suffix, importer.o.Subject
	other.reopen()
	other.mustRead(chain.Head{}, 6)
	importer.reopen()
	importer.mustRead(chain.Head{}, 6)
}

// A journal and a journal.head from a version without journal ids stay valid, and get an id.
func TestAnOldHeadCounts(t *testing.T) {
	t.Parallel()
	one := begun(t)
	other := one.beside()
	one.more(3)
	forget := func() {
		info, err := one.live.stream.Info(ctxFor(t))
		mustDo(t, err)
		info.Config.Metadata = nil
		_, err = one.o.JS.UpdateStream(ctxFor(t), info.Config)
		mustDo(t, err)
	}
	forget()
	for _, d := range []*director{one, other} {
		mustDo(t, d.Close())
		overwrite(t, d.o.Mirror, oldSlots(one.o.stream(), one.Head()))
		d.open()
		d.mustRead(chain.Head{}, 3)
	}
	one.replace()
	other.reopen()
	other.mustRead(chain.Head{}, 0)

	mustDo(t, other.Close())
	overwrite(t, other.o.Mirror, oldSlots(one.o.stream(), chain.Head{Seq: 3, Digest: chain.Digest{1}}))
	other.open()
	if _, _, err := other.read(chain.Head{}); !errors.Is(err, chain.ErrDamaged) {
		t.Errorf("an old head without a journal is accepted: %v", err)
	}
}

// oldSlots returns a journal.head in the format of a version without journal ids.
func oldSlots(stream string, h chain.Head) []byte {
	line := fmt.Sprintf("%s %d %s", stream, h.Seq, h.Digest)
	line = fmt.Sprintf("%s %x", line, sha256.Sum256([]byte(line)))
	return fmt.Appendf(nil, "%256s%-255s\n", "", line) // an odd sequence is in the second slot
}

// Each of several directors archives the batches that leave the live journal while it leads. Batches in another
// director's archive do not count as a gap.
func TestWhatAnotherDirectorHasArchivedIsNotMissed(t *testing.T) {
	t.Parallel()
	one := begun(t)
	other := one.beside()
	for _, d := range []*director{one, other} {
		at, _, err := d.lastState()
		mustDo(t, err)
		_, _, err = d.read(at)
		mustDo(t, err)
		for range 2 {
			d.more(3)
			mustDo(t, d.SaveSnapshot(ctxFor(t), d.Head(), []byte("{}")))
		}
		mustDo(t, d.Retire(ctxFor(t), time.Now().Add(2*segmentAfter)))
	}
	end := other.Head()
	for name, d := range map[string]*director{"one": one, "other": other} {
		d.reopen()
		v, err := d.Verify(ctxFor(t))
		if err != nil || len(v.Damages) > 0 || len(v.Segments) != 1 || v.Head != end {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	mustDo(t, os.Remove(filepath.Join(other.o.Archive.Dir, "000000000004-000000000009.jsonl.zst")))
	stream := other.live.stream
	other.live.stream = &sick{stream, jetstream.ErrMsgNotFound, 2}
	if v, err := other.Verify(ctxFor(t)); err != nil || len(v.Damages) != 1 {
		t.Errorf("a batch that is live, and gone: %+v, %v", v, err)
	}
}

// A late rebuild replaces only the journal that it was started for, and leaves a newer journal intact.
func TestALateRebuildLeavesAnotherJournalAlone(t *testing.T) {
	t.Parallel()
	late := begun(t)
	one := late.beside()
	late.more(3)
	one.mustRead(chain.Head{}, 3)
	mustDo(t, late.Close())
	asked := false
	late.o.Leads = func() bool { // it leads when checked, but loses the lease right afterwards
		if !asked {
			asked = true
			one.replace()
			_, err := one.Append(ctxFor(t), newID(), 0, nil)
			mustDo(t, err)
		}
		return true
	}
	late.open()
	late.mustRead(chain.Head{}, 3)
	if err := late.Replace(ctxFor(t), filepath.Join(t.TempDir(), "aside.jsonl.zst")); !errors.Is(err,
		ErrReplaced) || !asked {
		t.Errorf("replace: %v", err)
	}
	one.mustRead(chain.Head{}, 1)
}
