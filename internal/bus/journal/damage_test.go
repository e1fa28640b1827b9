package journal

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"retake/internal/bus/chain"
)

var update = flag.Bool("update", false, "rewrite testdata/damages.md")

// The journal to damage has two block files on the server, and a snapshot of a batch in the second.
const (
	damageBatches  = 40
	damageBytes    = 256 << 10
	damageSnapshot = 34
	damageEarly    = 15 // in the first block
	damageLate     = 38 // in the second block, behind the snapshot
)

func damageBatch(seq int) []byte {
	return append(fmt.Appendf(nil, "batch %02d ", seq), bytes.Repeat([]byte{'a' + byte(seq%26)}, damageBytes)...)
}

// damages are changes that disks, file systems and people make to the directory of the journal's stream.
var damages = []struct {
	name string
	do   func(t *testing.T, stream string)
}{
	{"nothing", func(*testing.T, string) {}},
	{"one bit flipped, early", flip(damageEarly)},
	{"one bit flipped, late", flip(damageLate)},
	{"a range of 64 KiB zeroed, early", zero(damageEarly)},
	{"a range of 64 KiB zeroed, late", zero(damageLate)},
	{"the first block cut in the middle", cut(1)},
	{"the last block cut in the middle", cut(2)},
	{"the first block removed", remove("msgs/1.blk")},
	{"the last block removed", remove("msgs/2.blk")},
	{"all blocks removed", remove("msgs/1.blk", "msgs/2.blk")},
	{"the index overwritten with garbage", func(t *testing.T, stream string) {
		overwrite(t, filepath.Join(stream, "msgs/index.db"), bytes.Repeat([]byte{0xa5}, 300))
	}},
	{"the index removed", remove("msgs/index.db")},
	{"index garbage, one bit flipped, late", func(t *testing.T, stream string) {
		flip(damageLate)(t, stream)
		overwrite(t, filepath.Join(stream, "msgs/index.db"), bytes.Repeat([]byte{0xa5}, 300))
	}},
	{"the stream's metadata removed", remove("meta.inf", "meta.sum")},
	{"the stream's metadata garbage", func(t *testing.T, stream string) {
		overwrite(t, filepath.Join(stream, "meta.inf"), []byte("garbage"))
	}},
	{"the journal's folder removed", func(t *testing.T, stream string) { mustDo(t, os.RemoveAll(stream)) }},
	{"all files of the server removed", func(t *testing.T, stream string) {
		mustDo(t, os.RemoveAll(filepath.Join(stream, "../../..")))
	}},
}

func remove(names ...string) func(*testing.T, string) {
	return func(t *testing.T, stream string) {
		for _, name := range names {
			mustDo(t, os.RemoveAll(filepath.Join(stream, name)))
		}
	}
}

// edit changes the block file that contains a batch, from the middle of that batch on.
func edit(seq int, change func(data []byte, at int)) func(*testing.T, string) {
	return func(t *testing.T, stream string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(stream, "msgs/*.blk"))
		mustDo(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			mustDo(t, err)
			if at := bytes.Index(data, damageBatch(seq)[:9]); at >= 0 {
				change(data, at+damageBytes/2)
				overwrite(t, file, data)
				return
			}
		}
		t.Fatalf("no block has batch %d", seq)
	}
}

func flip(seq int) func(*testing.T, string) {
	return edit(seq, func(data []byte, at int) { data[at] ^= 0x10 })
}

func zero(seq int) func(*testing.T, string) {
	return edit(seq, func(data []byte, at int) { clear(data[at : at+64<<10]) })
}

func cut(block int) func(*testing.T, string) {
	return func(t *testing.T, stream string) {
		file := filepath.Join(stream, fmt.Sprintf("msgs/%d.blk", block))
		info, err := os.Stat(file)
		mustDo(t, err)
		mustDo(t, os.Truncate(file, info.Size()/2))
	}
}

// lived creates a journal, with or without a snapshot, and returns its directory. With killed, the directory has the
// state on disk while the server runs.
func lived(t *testing.T, snapshot, killed bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := start(filepath.Join(dir, "bus"))
	mustDo(t, err)
	j, err := Open(ctxFor(t), damageOptions(s, dir))
	mustDo(t, err)
	for seq := 1; seq <= damageBatches; seq++ {
		_, err := j.Append(ctxFor(t), fmt.Sprintf("w/%d", seq), uint64(seq-1), damageBatch(seq))
		mustDo(t, err)
		if snapshot && seq == damageSnapshot {
			mustDo(t, j.SaveSnapshot(ctxFor(t), j.Head(), stateAt(damageSnapshot)))
		}
	}
	if killed {
		dir = copied(t, dir)
	}
	mustDo(t, errors.Join(s.stop(), j.Close()))
	return dir
}

func damageOptions(s *served, dir string) Options {
	return Options{
		JS: s.js, Subject: "journal", Fleet: "default", Bytes: 1 << 30, Replicas: 1, Log: zap.NewNop(),
	}.in(dir)
}

// copied returns a copy of a directory. It keeps the file modes, because keys that others can read are rejected.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	mustDo(t, exec.Command("cp", "-a", dir+"/.", to).Run())
	return to
}

// stateAt returns the state after the first seq batches, which consists of the first nine bytes of each batch.
func stateAt(seq int) (state []byte) {
	for n := 1; n <= seq; n++ {
		state = append(state, damageBatch(n)[:9]...)
	}
	return state
}

// readBack reads the journal like the director at boot.
func readBack(t *testing.T, dir string) (state []byte, err error) {
	s, err := start(filepath.Join(dir, "bus"))
	if err != nil {
		return nil, err
	}
	defer func() { mustDo(t, s.stop()) }()
	j, err := Open(ctxFor(t), damageOptions(s, dir))
	if err != nil {
		return nil, err
	}
	defer func() { mustDo(t, j.Close()) }()
	at, err := j.LoadSnapshot(ctxFor(t), func(data []byte) error { state = slices.Clone(data); return nil })
	if err != nil {
		return nil, err
	}
	_, err = j.Replay(ctxFor(t), at, func(_ uint64, data []byte) error {
		state = append(state, data[:9]...)
		return nil
	})
	return state, err
}

// TestDamageIsNoticed checks that each damage is detected, or that the state is unchanged. The documentation lists how
// each is detected, and -update rewrites it.
func TestDamageIsNoticed(t *testing.T) {
	t.Parallel()
	if raced {
		t.Skip("takes minutes with the race detector; shorter tests run the same code with it")
	}
	found := make([][4]string, len(damages))
	t.Run("each", func(t *testing.T) {
		for i, killed := range []bool{false, true} {
			for k, snapshot := range []bool{false, true} {
				base := lived(t, snapshot, killed)
				for n, d := range damages {
					t.Run(fmt.Sprintf("%s/snapshot=%t/killed=%t", d.name, snapshot, killed), func(t *testing.T) {
						t.Parallel()
						found[n][2*i+k] = noticed(t, base, d.name, d.do)
					})
				}
			}
		}
	})
	table := "| damage to the journal | no snapshot | snapshot | no snapshot, killed | snapshot, killed |\n" +
		"|---|---|---|---|---|\n"
	for n, d := range damages {
		table += "| " + d.name + " | " + strings.Join(found[n][:], " | ") + " |\n"
	}
	documented(t, "damages", table)
}

// noticed damages a copy of a journal and returns how it was noticed, in the words of the documentation.
func noticed(t *testing.T, base, name string, do func(t *testing.T, stream string)) string {
	t.Helper()
	at := copied(t, base)
	streams, err := filepath.Glob(filepath.Join(at, "bus/jetstream/*/*/streams/RETAKE_JOURNAL"))
	if err != nil || len(streams) != 1 {
		t.Fatal("no stream", streams, err)
	}
	do(t, streams[0])
	state, err := readBack(t, at)
	damage, ok := errors.AsType[*chain.Damage](err)
	switch {
	case ok && name == "nothing":
		t.Errorf("undamaged: %v", err)
	case ok && !bytes.Equal(state, stateAt(int(damage.Seq)-1)) && len(state) > 0:
		t.Errorf("%d batches are handed out, but they are not those before %d", len(state)/9, damage.Seq)
	case ok:
		return fmt.Sprintf("%s at %d", damage.Kind, damage.Seq)
	case err != nil:
		t.Error(err)
	case !bytes.Equal(state, stateAt(damageBatches)):
		t.Errorf("not noticed: %d of %d batches", len(state)/9, damageBatches)
	}
	return "intact"
}

// documented compares the text between two marks in testdata/damages.md with the test's result.
func documented(t *testing.T, name, is string) {
	t.Helper()
	const file = "testdata/damages.md"
	data, err := os.ReadFile(file)
	mustDo(t, err)
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(data), begin)
	was, after, there := strings.Cut(rest, end)
	if !ok || !there {
		t.Fatalf("%s has no part %s", file, name)
	}
	if was == is {
		return
	}
	if !*update {
		t.Errorf("%s differs: run `go test ./internal/bus/journal -run %s -update`", file, t.Name())
		return
	}
	overwrite(t, file, []byte(before+begin+is+end+after))
}

// TestAJournalIsReplaced sets a damaged journal aside with everything readable. The new journal begins empty, and so
// does its mirror.
func TestAJournalIsReplaced(t *testing.T) {
	t.Parallel()
	dir := lived(t, true, false)
	streams, err := filepath.Glob(filepath.Join(dir, "bus/jetstream/*/*/streams/RETAKE_JOURNAL"))
	mustDo(t, err)
	flip(damageLate)(t, streams[0])
	s, err := start(filepath.Join(dir, "bus"))
	mustDo(t, err)
	defer func() { mustDo(t, s.stop()) }()
	j := openAs(t, damageOptions(s, dir))
	aside := filepath.Join(dir, "aside.jsonl.zst")
	mustDo(t, j.Replace(ctxFor(t), aside))
	if err := j.Replace(ctxFor(t), aside); err == nil {
		t.Error("the file set aside before is overwritten")
	}
	for range 2 { // and after reopening
		at, state, err := j.lastState()
		if at != (chain.Head{}) || state != "" || err != nil {
			t.Errorf("the new journal has a snapshot: %v, %v", at, err)
		}
		if head, err := j.Replay(ctxFor(t), at, nil); head != (chain.Head{}) || err != nil {
			t.Errorf("the new journal is not empty: %v, %v", head, err)
		}
		j.reopen()
	}
	j.more(1)

	var got []uint64
	var states int
	_, err = chain.Read(aside, func(r chain.Record) error { got = append(got, r.Seq); return nil },
		func(chain.State) error { states++; return nil })
	damage, ok := errors.AsType[*chain.Damage](err)
	if !ok || damage.Kind != chain.Gap || damage.Seq != damageLate || len(got) != damageLate-1 {
		t.Errorf("the journal set aside has %d batches before the damage: %v", len(got), err)
	}
}
