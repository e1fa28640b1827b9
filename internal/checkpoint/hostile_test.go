package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func file(p string) Entry   { return Entry{Path: p, Kind: File, Mode: 0o644} }
func folder(p string) Entry { return Entry{Path: p, Kind: Folder, Mode: 0o755} }
func link(p, target string) Entry {
	return Entry{Path: p, Kind: Link, Target: target}
}

func withParts(size int64, parts ...Part) Entry {
	e := file("f")
	e.Size, e.Parts = size, parts
	return e
}

func withMode(e Entry, mode uint32) Entry {
	e.Mode = mode
	return e
}

// d is the digest of a chunk.
var d = DigestOf([]byte("x"))

// manyFolders are nested directories.
var manyFolders = func() (all []Entry) {
	for i := range 150 {
		all = append(all, folder(strings.TrimSuffix(strings.Repeat("d/", i+1), "/")))
	}
	return all
}()

// hostileManifests are manifests that a scan never makes, with the expected error of each.
var hostileManifests = map[string]struct {
	entries []Entry
	want    string
}{
	"up":                  {[]Entry{file("../x")}, "leads outside the directory"},
	"up in the middle":    {[]Entry{folder("a"), file("a/../../x")}, "leads outside the directory"},
	"absolute":            {[]Entry{file("/nowhere/x")}, "leads outside the directory"},
	"the folder itself":   {[]Entry{folder(".")}, "leads outside the directory"},
	"no name":             {[]Entry{file("")}, "out of order after"},
	"two slashes":         {[]Entry{folder("a"), file("a//b")}, "leads outside the directory"},
	"slash at the end":    {[]Entry{folder("a/")}, "leads outside the directory"},
	"zero byte":           {[]Entry{file("a\x00b")}, "zero byte"},
	"long name":           {[]Entry{file(strings.Repeat("n", 256))}, "256 bytes"},
	"git":                 {[]Entry{folder(".git")}, ".git are not allowed"},
	"git, another case":   {[]Entry{folder("a"), file("a/.GiT")}, ".git are not allowed"},
	"through a link":      {[]Entry{link("a", "/nowhere"), file("a/x")}, "its parent directory is missing"},
	"through a file":      {[]Entry{file("a"), file("a/b")}, "its parent directory is missing"},
	"no parent":           {[]Entry{file("a/b")}, "its parent directory is missing"},
	"parent comes later":  {[]Entry{file("a/b"), folder("a")}, "its parent directory is missing"},
	"twice":               {[]Entry{file("a"), link("a", "b")}, "out of order"},
	"out of order":        {[]Entry{file("b"), file("a")}, "out of order"},
	"setuid":              {[]Entry{withMode(file("a"), 0o4755)}, "permission bits"},
	"setgid folder":       {[]Entry{withMode(folder("a"), 0o2755)}, "permission bits"},
	"device":              {[]Entry{{Path: "a", Kind: "device"}}, "want file, folder or link"},
	"folder with content": {[]Entry{{Path: "a", Kind: Folder, Size: 1, Parts: []Part{{d, 0, 1}}}}, "not have content"},
	"link without target": {[]Entry{link("a", "")}, "target"},
	"long target":         {[]Entry{link("a", strings.Repeat("t", 4096))}, "target"},
	"target with zero":    {[]Entry{link("a", "b\x00c")}, "target"},
	"file with target":    {[]Entry{{Path: "a", Kind: File, Target: "/nowhere/x"}}, "no target"},
	"negative size":       {[]Entry{withParts(-1)}, "a size"},
	"more than it says":   {[]Entry{withParts(1, Part{d, 0, 2})}, "do not add up to 1 bytes"},
	"less than it says":   {[]Entry{withParts(3, Part{d, 0, 2})}, "do not add up to 3 bytes"},
	"a part of nothing":   {[]Entry{withParts(1, Part{d, 0, 0}, Part{d, 0, 1})}, "do not add up to 1 bytes"},
	"a part backwards":    {[]Entry{withParts(1, Part{d, 0, 2}, Part{d, 0, -1})}, "do not add up to 1 bytes"},
	"before the chunk":    {[]Entry{withParts(1, Part{d, -1, 1})}, "exceeds its chunk"},
	"behind the chunk":    {[]Entry{withParts(2, Part{d, ChunkBytes - 1, 2})}, "exceeds its chunk"},
	"overflow":            {[]Entry{withParts(2, Part{d, 1<<63 - 1, 2})}, "exceeds its chunk"},
	"8 TB":                {[]Entry{withParts(8<<40, Part{Len: 8 << 40})}, "checkout.max_bytes"},
	"sum of sizes": {[]Entry{
		{Path: "a", Kind: File, Size: 1 << 62, Parts: []Part{{Len: 1 << 62}}},
		{Path: "b", Kind: File, Size: 1 << 62, Parts: []Part{{Len: 1 << 62}}},
	}, "checkout.max_bytes"},
	"deep":               {manyFolders, "checkout.max_depth"},
	"our folder as link": {[]Entry{link(".retake", "/")}, "only spooled reports"},
	"in our folder":      {[]Entry{folder(".retake"), file(".retake/STATE.json")}, "only spooled reports"},
	"below the spool": {
		[]Entry{folder(".retake"), folder(".retake/spool"), folder(".retake/spool/x")},
		"only spooled reports",
	},
	"a link in the spool": {
		[]Entry{folder(".retake"), folder(".retake/spool"), link(".retake/spool/x", "y")},
		"only spooled reports",
	},
	"a huge report": {[]Entry{
		folder(".retake"), folder(".retake/spool"),
		{Path: ".retake/spool/x", Kind: File, Size: 2 << 20, Parts: []Part{{Len: 2 << 20}}},
	}, "only spooled reports"},
}

// TestHostileManifests rejects every tree that no scan can produce.
func TestHostileManifests(t *testing.T) {
	for name, c := range hostileManifests {
		err := (&Tree{Entries: c.entries}).Check(limits)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	good := []Entry{
		folder(".retake"), folder(".retake/spool"), file(".retake/spool/x"), folder("a"), file("a-b"),
		link("a/l", "../../.."), file("b\xff\n"), withParts(3, Part{d, 0, 1}, Part{Len: 2}),
	}
	if err := (&Tree{Entries: good}).Check(limits); err != nil {
		t.Errorf("a valid manifest is refused: %v", err)
	}
}

// manyEntries returns the entries of a large page.
func manyEntries(n int) (all []pageEntry) {
	for i := range n {
		all = append(all, pageEntry{Path: fmt.Appendf(nil, "%07d", i), Kind: File})
	}
	return all
}

// manyParts are the parts of one file.
var manyParts = slices.Repeat([][3]int64{{0, 0, 1}}, 9000)

// oneFile returns a page with one entry, which begins or continues the file f.
func oneFile(kind Kind, parts [][3]int64) page {
	return page{Chunks: []Digest{d}, Entries: []pageEntry{{Path: []byte("f"), Kind: kind, Parts: parts}}}
}

// raw is the text of a page.
type raw string

// hostilePages are invalid pages of a manifest, with the expected error of each.
var hostilePages = map[string]struct {
	page any
	more int // number of references to the page; if it is more than 1, a page that begins f comes first
	want string
}{
	"no chunk of that number": {
		page{Entries: []pageEntry{{Path: []byte("f"), Kind: File, Size: 1, Parts: [][3]int64{{0, 0, 1}}}}},
		1,
		"chunk 0 is missing from the page",
	},
	"a negative number": {
		page{
			Chunks:  []Digest{d},
			Entries: []pageEntry{{Path: []byte("f"), Kind: File, Size: 1, Parts: [][3]int64{{-2, 0, 1}}}},
		},
		1,
		"chunk -2 is missing from the page",
	},
	"a chunk without a name": {
		page{
			Chunks:  []Digest{{}},
			Entries: []pageEntry{{Path: []byte("f"), Kind: File, Size: 1, Parts: [][3]int64{{0, 0, 1}}}},
		},
		1,
		"is missing from the manifest",
	},
	"goes on with nothing": {oneFile(more, manyParts[:1]), 1, "the entry before it is not that file"},
	"goes on with a folder": {page{Entries: []pageEntry{
		{Path: []byte("f"), Kind: Folder},
		{Path: []byte("f"), Kind: more},
	}}, 1, "continues a file"},
	"too many entries":    {page{Entries: manyEntries(limits.Files + 1)}, 1, "checkout.max_files"},
	"the same file twice": {oneFile(File, manyParts[:1]), 2, "out of order"},
	"parts without end":   {oneFile(more, manyParts), 100, "parts"},
	"no parts": {
		page{Entries: slices.Repeat([]pageEntry{{Path: []byte("f"), Kind: more}}, 8736)},
		5399,
		"must have parts",
	},
	"no entries": {page{}, 5399, "no entries"},
	"chunks without files": {
		page{Chunks: slices.Repeat([]Digest{d}, 5000), Entries: oneFile(more, manyParts[:1]).Entries},
		5399,
		"chunks that no file uses",
	},
	"long path": {
		page{Entries: []pageEntry{{Path: bytes.Repeat([]byte("f"), 100_000), Kind: more, Parts: manyParts[:1]}}},
		5399,
		"checkout.max_path_bytes",
	},
	"long target": {
		page{Entries: []pageEntry{{Path: []byte("g"), Kind: Link, Target: bytes.Repeat([]byte("t"), 100_000)}}},
		5399,
		"target",
	},
	"spaces": {
		raw(`{"entries":[{"path":"Zw==","kind":"file"}` + strings.Repeat(" ", 200_000) + `]}`),
		5399,
		"bytes for 1 entries",
	},
	"not a page": {"text", 1, "not a page"},
}

// TestHostilePages checks that an invalid manifest is refused before it costs anything.
func TestHostilePages(t *testing.T) {
	put := func(s store, v any) Digest {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := v.(raw); ok {
			data = []byte(text)
		}
		s[DigestOf(data)] = data
		return DigestOf(data)
	}
	for name, c := range hostilePages {
		s := store{}
		r := root{Version: manifestVersion}
		if c.more > 1 {
			r.Pages = append(r.Pages, put(s, oneFile(File, manyParts[:1])))
		}
		r.Pages = append(r.Pages, slices.Repeat([]Digest{put(s, c.page)}, c.more)...)
		read := 0
		_, err := Load(put(s, r), limits, func(d Digest) ([]byte, error) {
			read += len(s[d])
			return s.get(d)
		})
		if most := 50 << 20; read > most {
			t.Errorf("%s: %d bytes read, want at most %d", name, read, most)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	s := store{}
	if _, err := Load(put(s, root{Version: manifestVersion, Files: limits.Files + 1}), limits, s.get); err == nil {
		t.Error("a root with too many files is read")
	}
	other := put(s, root{Version: 2})
	if _, err := Load(other, limits, s.get); err == nil || !strings.Contains(err.Error(),
		"is not a manifest root of version 1") {
		t.Errorf("another version: %v", err)
	}
	s[other] = []byte("{}")
	if _, err := Load(other, limits, s.get); !errors.Is(err, errChunk) {
		t.Errorf("another content: %v", err)
	}
}

// TestApplyFollowsNoLink checks that Apply changes only files in the directory, for any existing content.
func TestApplyFollowsNoLink(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, s, chunks := made(t, map[string]string{"a/b/f": "new", "g": "new", "h/i": "new"})
	tree, err := s.Scan(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(dir string) error{
		"a folder is a link out": func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "a")) },
		"a folder below is a link out": func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o755), os.Symlink(outside, filepath.Join(dir, "a/b")))
		},
		"a file is a link out": func(dir string) error { return os.Symlink(secret, filepath.Join(dir, "g")) },
		"a file is another's":  func(dir string) error { return os.Link(secret, filepath.Join(dir, "g")) },
		"a link within": func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "h"), 0o755), os.Symlink("h", filepath.Join(dir, "a")))
		},
	} {
		for _, have := range []*Tree{nil, {}} { // scanned or assumed empty
			dir := t.TempDir()
			if err := plant(dir); err != nil {
				t.Fatal(err)
			}
			err := Apply(t.Context(), dir, have, tree, chunks.fetch)
			if have == nil && err != nil {
				t.Errorf("%s: %v", name, err)
			}
			data, readErr := os.ReadFile(secret)
			left, _ := os.ReadDir(outside)
			if readErr != nil || string(data) != "untouched" || len(left) != 1 {
				t.Fatalf("%s: outside the directory: %q, %v", name, data, left)
			}
			if have == nil {
				if data, err := os.ReadFile(filepath.Join(dir, "a/b/f")); err != nil || string(data) != "new" {
					t.Errorf("%s: %q, %v", name, data, err)
				}
			}
		}
	}
}

// TestApplyRefusesAChunkThatIsAnother verifies chunks, so the store of chunks cannot alter them.
func TestApplyRefusesAChunkThatIsAnother(t *testing.T) {
	_, s, chunks := made(t, map[string]string{"f": "as it was"})
	tree, err := s.Scan(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	err = Apply(t.Context(), t.TempDir(), &Tree{}, tree, func(ctx context.Context, d Digest) ([]byte, error) {
		data, err := chunks.fetch(ctx, d)
		return append([]byte("X"), data[1:]...), err
	})
	if !errors.Is(err, errChunk) {
		t.Errorf("got %v", err)
	}
}

// TestApplyLeavesOurFolder checks that Apply adds reports without changing other files in Retake's directory.
func TestApplyLeavesOurFolder(t *testing.T) {
	_, s, chunks := made(t, map[string]string{"f": "x", ".retake/spool/abc-2.0001.json": "second"})
	s.Spool = "abc-2."
	tree, err := s.Scan(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	dir, _, _ := made(t, map[string]string{
		"old": "x", ".retake/STATE.json": "state",
		".retake/spool/abc-1.0001.json": "first",
	})
	if err := Apply(t.Context(), dir, nil, tree, chunks.fetch); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for name := range listing(t, dir) {
		got[name] = true
	}
	for _, want := range []string{
		"f", ".retake/STATE.json", ".retake/spool/abc-1.0001.json",
		".retake/spool/abc-2.0001.json",
	} {
		if !got[want] {
			t.Errorf("no %s in %v", want, got)
		}
	}
	if got["old"] {
		t.Error("the deleted file still exists")
	}
}
