package chain

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// batches returns an intact journal of n batches, and its head.
func batches(n int) (all []Record, head Head) {
	for i := range n {
		r := Record{
			Seq: uint64(i + 1), ID: fmt.Sprint("w/", i+1), Prev: head.Digest.String(),
			Data: fmt.Appendf(nil, `{"n":%d}`, i),
		}
		all, head = append(all, r), head.Next(r.ID, r.Data)
	}
	return all, head
}

func follow(from Head, all []Record) (Head, error) {
	c := Follow(from)
	for _, r := range all {
		if err := c.Add(r); err != nil {
			return c.Head(), err
		}
	}
	return c.Head(), nil
}

func TestChain(t *testing.T) {
	sound, head := batches(6)
	bare := func(all []Record, to int) []Record { // as written before the chain existed
		all = slices.Clone(all)
		for i := range all[:to] {
			all[i].Prev = ""
		}
		return all
	}
	changed := func(at int, change func(*Record)) []Record {
		all := slices.Clone(sound)
		change(&all[at-1])
		return all
	}
	for name, c := range map[string]struct {
		from Head
		all  []Record
		kind Kind
		seq  uint64
	}{
		"sound":                  {all: sound},
		"old":                    {all: bare(sound, 6)},
		"old, then with a chain": {all: bare(sound, 3)},
		"old, begins late":       {from: Head{Seq: 2}, all: bare(sound, 4)[2:]},
		"another payload": {
			all: changed(3, func(r *Record) { r.Data = []byte(`{"n":9}`) }), kind: Broken,
			seq: 4,
		},
		"another id": {all: changed(3, func(r *Record) { r.ID = "x/3" }), kind: Broken, seq: 4},
		"another link": {
			all: changed(3, func(r *Record) { r.Prev = Digest{1}.String() }), kind: Broken,
			seq: 3,
		},
		"no link":                 {all: changed(3, func(r *Record) { r.Prev = "" }), kind: Broken, seq: 3},
		"no digest":               {all: changed(3, func(r *Record) { r.Prev = "zz" }), kind: Broken, seq: 3},
		"one left out":            {all: slices.Delete(slices.Clone(sound), 2, 3), kind: Gap, seq: 3},
		"behind a snapshot":       {from: Head{Seq: 2, Digest: mustDigest(sound[2].Prev)}, all: sound[2:]},
		"behind another snapshot": {from: Head{Seq: 2, Digest: Digest{7}}, all: sound[2:], kind: Broken, seq: 3},
		"old, behind a known head": {
			from: Head{Seq: 2, Digest: Digest{7}}, all: bare(sound, 6)[2:], kind: Broken,
			seq: 3,
		},
	} {
		got, err := follow(c.from, c.all)
		d, damaged := errors.AsType[*Damage](err)
		switch {
		case c.kind == "" && (err != nil || got != head):
			t.Errorf("%s: %v, %v", name, got, err)
		case c.kind != "" && (!damaged || d.Kind != c.kind || d.Seq != c.seq || !errors.Is(err, ErrDamaged)):
			t.Errorf("%s: %v, want %s at %d", name, err, c.kind, c.seq)
		}
	}
}

func mustDigest(text string) (d Digest) {
	if err := d.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return d
}

func TestMirror(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.head")
	open := func() (*Mirror, Mark, bool) {
		m, h, found, err := OpenMirror(path, "J")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		return m, h, found
	}
	m, _, found := open()
	if found {
		t.Error("a new mirror has a mark")
	}
	all, _ := batches(9)
	var marks []Mark
	for h, i := (Head{}), 0; i < 9; i++ {
		h = h.Next(all[i].ID, all[i].Data)
		mark := Mark{Head: h}
		if i > 3 { // earlier marks are from a version without ids
			mark.Journal = "this"
		}
		marks = append(marks, mark)
		if err := m.Write(mark); err != nil {
			t.Fatal(err)
		}
		if _, got, found := open(); got != mark || !found {
			t.Errorf("%v, %v", got, found)
		}
	}
	if _, found, err := ReadMirror(path, "J_blue"); found || err != nil {
		t.Errorf("another fleet's counts: %v", err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tearMirror(t, path, whole, marks)
	if err := m.Reset(Mark{Journal: "that"}); err != nil {
		t.Fatal(err)
	}
	if _, h, found := open(); h != (Mark{Journal: "that"}) || !found {
		t.Errorf("after a reset: %v, %v", h, found)
	}
}

// tearMirror damages a mirror at every offset. It checks that ReadMirror never returns a wrong head, and that it still
// reads an intact first slot.
func tearMirror(t *testing.T, path string, whole []byte, marks []Mark) {
	t.Helper()
	for i := range whole {
		for _, torn := range [][]byte{
			append(slices.Clone(whole[:i]), bytes.Repeat([]byte{0}, len(whole)-i)...),
			flipped(whole, i),
		} {
			if err := os.WriteFile(path, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			h, found, err := ReadMirror(path, "J")
			if err != nil || found && h != marks[8] && h != marks[7] {
				t.Fatalf("byte %d: %v, %v", i, h, err)
			}
			if !found && bytes.Equal(torn[:slotBytes], whole[:slotBytes]) {
				t.Fatalf("byte %d: the intact slot is not read", i)
			}
		}
	}
}

func flipped(data []byte, at int) []byte {
	data = slices.Clone(data)
	data[at] ^= 1
	return data
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "journal.jsonl.zst")
	all, head := batches(50)
	state := State{Head: head, Data: []byte("{\"a\":\"\xff\"}")}
	if err := Create(path, Source{Fleet: "blue"}, Head{}, func(w *Writer) error {
		for _, r := range all {
			if err := w.Add(r); err != nil {
				return err
			}
		}
		return w.State(state)
	}); err != nil {
		t.Fatal(err)
	}
	var got []Record
	file, err := Read(path, func(r Record) error { got = append(got, r); return nil }, func(s State) error {
		if s.Head != state.Head || !bytes.Equal(s.Data, state.Data) {
			t.Errorf("another state: %+v", s)
		}
		return nil
	})
	if err != nil || file.Trailer.Head != head || file.Trailer.Batches != 50 || file.Header.Fleet != "blue" {
		t.Fatalf("%+v, %v", file, err)
	}
	for i, r := range got {
		if r.Seq != all[i].Seq || r.ID != all[i].ID || r.Prev != all[i].Prev || !bytes.Equal(r.Data, all[i].Data) {
			t.Fatalf("batch %d: %+v", i, r)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		for _, bad := range [][]byte{whole[:i], flipped(whole, i)} {
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			n := 0
			_, err := Read(path, func(r Record) error {
				if r.ID != all[n].ID || !bytes.Equal(r.Data, all[n].Data) {
					t.Fatalf("byte %d: another batch is handed out: %+v", i, r)
				}
				n++
				return nil
			}, nil)
			if d, ok := errors.AsType[*Damage](err); err == nil && n != 50 || err != nil &&
				(!ok || d.Where != "journal.jsonl.zst") {
				t.Fatalf("byte %d: %d batches, %v", i, n, err)
			}
		}
	}
	if err := Create(path, Source{Fleet: "blue"}, Head{}, func(w *Writer) error { return w.Add(all[1]) }); !errors.Is(
		err, ErrDamaged) {
		t.Errorf("a file with a hole is written: %v", err)
	}
	if _, err := Read(t.TempDir(), nil, nil); err == nil || errors.Is(err, ErrDamaged) { // a read error is not damage
		t.Errorf("a failed read counts as damage: %v", err)
	}
}
