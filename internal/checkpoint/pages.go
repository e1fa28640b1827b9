package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
)

// manifestVersion is the version that Encode writes. Load rejects all others.
const manifestVersion = 1

// root is the content of the chunk whose name identifies a manifest.
type root struct {
	Version int      `json:"version"`
	Files   int      `json:"files"` // number of entries on all pages
	Bytes   int64    `json:"bytes"` // total size of all files
	Pages   []Digest `json:"pages"`
}

// page is a run of consecutive entries. JSON encodes paths and targets in base64, because they may contain any bytes.
type page struct {
	Chunks  []Digest    `json:"chunks"` // parts refer to these by index
	Entries []pageEntry `json:"entries"`
}

type pageEntry struct {
	Path   []byte     `json:"path"`
	Kind   Kind       `json:"kind"` // the constant more if the parts continue the previous entry
	Mode   uint32     `json:"mode,omitempty"`
	Time   int64      `json:"time,omitempty"`
	Size   int64      `json:"size,omitempty"`
	Sum    *Digest    `json:"sum,omitempty"`
	Parts  [][3]int64 `json:"parts,omitempty"` // index of the chunk (-1 for a hole), offset, length
	Target []byte     `json:"target,omitempty"`
}

const more Kind = "more"

// A page ends after an entry whose path hashes to a boundary, or when it is full. Boundaries depend only on paths, so
// successive trees share most pages, which are not sent again. A file with many parts continues on the next page.
const (
	leastOnPage = 64
	mostOnPage  = 512
	pageOdds    = 64 // one path in 64 ends a page
	pageBytes   = 96 << 10
	mostParts   = 1000
	chunkJSON   = 48  // length of a chunk's name in a page
	pageJSON    = 256 // length of an empty page, with room for later fields
)

// Encode creates the chunks of the tree's manifest and calls emit with each of them, the root last. emit may keep the
// data.
func (t *Tree) Encode(emit func(Digest, []byte) error) (*Manifest, error) {
	m := &Manifest{Tree: t, Chunks: t.chunkSizes()}
	put := func(v any) (Digest, error) {
		data, err := json.Marshal(v)
		if err == nil && len(data) > ChunkBytes {
			err = &Exceeded{fmt.Sprintf("the file list is too long to send: %d bytes, but the limit is %d",
				len(data), ChunkBytes)}
		}
		if err != nil {
			return Digest{}, err
		}
		d := DigestOf(data)
		m.Chunks[d] = int64(len(data))
		return d, emit(d, data)
	}
	w := pageWriter{put: func(p page) error {
		d, err := put(p)
		m.Pages = append(m.Pages, d)
		return err
	}}
	for i := range t.Entries {
		if err := w.add(&t.Entries[i]); err != nil {
			return nil, err
		}
	}
	if err := w.end(); err != nil {
		return nil, err
	}
	var err error
	m.Root, err = put(root{manifestVersion, len(t.Entries), t.Bytes(), m.Pages})
	return m, err
}

// pageWriter fills one page after another.
type pageWriter struct {
	put     func(page) error
	page    page
	numbers map[Digest]int64
	bytes   int // estimated size of the page so far
}

func (w *pageWriter) add(e *Entry) error {
	p := pageEntry{
		Path: []byte(e.Path), Kind: e.Kind, Mode: e.Mode, Time: e.Time, Size: e.Size,
		Target: []byte(e.Target),
	}
	if e.Sum != (Digest{}) {
		p.Sum = &e.Sum
	}
	rest := e.Parts
	for {
		now := rest[:min(len(rest), mostParts)]
		rest = rest[len(now):]
		w.one(p, now)
		if len(rest) > 0 || w.full(e.Path) {
			if err := w.end(); err != nil {
				return err
			}
		}
		if len(rest) == 0 {
			return nil
		}
		p = pageEntry{Path: []byte(e.Path), Kind: more}
	}
}

func (w *pageWriter) one(p pageEntry, parts []Part) {
	for _, part := range parts {
		n := int64(-1)
		if !part.hole() {
			n = w.number(part.Chunk)
		}
		p.Parts = append(p.Parts, [3]int64{n, part.Off, part.Len})
	}
	w.page.Entries = append(w.page.Entries, p)
	w.bytes += p.length()
}

// length estimates the length of an entry in a page. The entry's JSON is at most twice as long.
func (e pageEntry) length() int { return 160 + 2*(len(e.Path)+len(e.Target)) + 24*len(e.Parts) }

func (w *pageWriter) number(d Digest) int64 {
	n, known := w.numbers[d]
	if !known {
		if w.numbers == nil {
			w.numbers = map[Digest]int64{}
		}
		n = int64(len(w.page.Chunks))
		w.numbers[d], w.page.Chunks, w.bytes = n, append(w.page.Chunks, d), w.bytes+chunkJSON
	}
	return n
}

func (w *pageWriter) full(path string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(path))
	n := len(w.page.Entries)
	return n >= mostOnPage || w.bytes >= pageBytes || n >= leastOnPage && h.Sum32()%pageOdds == 0
}

func (w *pageWriter) end() error {
	if len(w.page.Entries) == 0 {
		return nil
	}
	p := w.page
	w.page, w.numbers, w.bytes = page{}, nil, 0
	return w.put(p)
}

// errChunk means that a chunk does not match its digest, because the store has altered the chunk.
var errChunk = errors.New("checkpoint: chunk digest mismatch")

// verified returns a fetched chunk after comparing it with its digest.
func verified(d Digest, data []byte, err error) ([]byte, error) {
	if err == nil && DigestOf(data) != d {
		err = fmt.Errorf("%w: %s", errChunk, d)
	}
	return data, err
}

// mostPartsOf returns the maximum number of parts across all files. A scan within the limits produces fewer.
func (l Limits) mostPartsOf() int64 { return 2*int64(l.Files) + 4*(l.Bytes/ChunkBytes+1) }

// Load reads a manifest. It stops at the first page that Encode would not produce, or when there are too many entries
// or parts. Each page must add entries or parts in proportion to its length. Otherwise, a root that lists a page
// repeatedly could cost more than the limits allow. Load verifies the digests of all chunks that it fetches, but the
// caller must still call Check on the tree. Its errors come from fetch, or are *Malformed or *Exceeded.
func Load(name Digest, l Limits, fetch func(Digest) ([]byte, error)) (*Manifest, error) {
	data, err := fetch(name)
	if data, err = verified(name, data, err); err != nil {
		return nil, err
	}
	var r root
	if err := json.Unmarshal(data, &r); err != nil || r.Version != manifestVersion {
		return nil, &Malformed{fmt.Sprintf("%s is not a manifest root of version %d", name, manifestVersion)}
	}
	if over := l.Check(Seen{Files: r.Files}); over != nil {
		return nil, over
	}
	m := &Manifest{Root: name, Tree: &Tree{}, Pages: r.Pages, Chunks: map[Digest]int64{name: int64(len(data))}}
	var parts int64
	for _, d := range r.Pages {
		data, err := fetch(d)
		if data, err = verified(d, data, err); err != nil {
			return nil, err
		}
		m.Chunks[d] = int64(len(data))
		var p page
		if err := json.Unmarshal(data, &p); err != nil {
			return nil, &Malformed{fmt.Sprintf("%s is not a page: %v", d, err)}
		}
		if err := p.check(d, len(data), l); err != nil {
			return nil, err
		}
		if parts += p.parts(); parts > l.mostPartsOf() {
			return nil, &Malformed{fmt.Sprintf("the files have more than %d parts", l.mostPartsOf())}
		}
		if err := m.Tree.addPage(p); err != nil {
			return nil, err
		}
		if over := l.Check(Seen{Files: len(m.Tree.Entries)}); over != nil {
			return nil, over
		}
	}
	maps.Copy(m.Chunks, m.Tree.chunkSizes())
	return m, nil
}

func (p page) parts() (n int64) {
	for _, e := range p.Entries {
		n += int64(len(e.Parts))
	}
	return n
}

// check rejects a page that is long but adds little to the tree.
func (p page) check(d Digest, length int, l Limits) error {
	if len(p.Entries) == 0 || int64(len(p.Chunks)) > p.parts() {
		return &Malformed{fmt.Sprintf("page %s has no entries, or has chunks that no file uses", d)}
	}
	estimate := chunkJSON * len(p.Chunks)
	for i, e := range p.Entries {
		switch {
		case len(e.Path) > l.PathBytes:
			return &Exceeded{fmt.Sprintf("a path is longer than %d bytes (checkout.max_path_bytes): %s", l.PathBytes,
				Shortened(e.Path))}
		case len(e.Target) > maxTarget:
			return malformed(string(e.Path), "the target has %d bytes, but the limit is %d", len(e.Target), maxTarget)
		case e.Kind == more && (i > 0 || len(e.Parts) == 0):
			return malformed(string(e.Path), "an entry that continues a file must have parts and come first on its "+
				"page")
		}
		estimate += e.length()
	}
	if length > 2*estimate+pageJSON {
		return &Malformed{fmt.Sprintf("page %s is too long: %d bytes for %d entries", d, length, len(p.Entries))}
	}
	return nil
}

// addPage adds the entries of a page.
func (t *Tree) addPage(p page) error {
	for _, pe := range p.Entries {
		var parts []Part
		for _, n := range pe.Parts {
			part := Part{Off: n[1], Len: n[2]}
			if n[0] >= int64(len(p.Chunks)) || n[0] < -1 {
				return malformed(string(pe.Path), "chunk %d is missing from the page", n[0])
			}
			if n[0] >= 0 {
				if part.Chunk = p.Chunks[n[0]]; part.hole() {
					return malformed(string(pe.Path), "chunk %s is missing from the manifest", part.Chunk)
				}
			}
			parts = append(parts, part)
		}
		last := len(t.Entries) - 1
		if pe.Kind == more {
			if last < 0 || t.Entries[last].Path != string(pe.Path) || t.Entries[last].Kind != File {
				return malformed(string(pe.Path), "the entry continues a file, but the entry before it is not that "+
					"file")
			}
			t.Entries[last].Parts = append(t.Entries[last].Parts, parts...)
			continue
		}
		if last >= 0 && string(pe.Path) <= t.Entries[last].Path {
			return malformed(string(pe.Path), "out of order after %s", Shortened([]byte(t.Entries[last].Path)))
		}
		e := Entry{
			Path: string(pe.Path), Kind: pe.Kind, Mode: pe.Mode, Time: pe.Time, Size: pe.Size, Parts: parts,
			Target: string(pe.Target),
		}
		if pe.Sum != nil {
			e.Sum = *pe.Sum
		}
		t.Entries = append(t.Entries, e)
	}
	return nil
}
